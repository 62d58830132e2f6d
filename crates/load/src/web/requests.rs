//! The choice of the next object that a client requests.

use fsarena_core::schedule::mix;
use fsarena_engine::{Offsets, Pattern};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of all clients together.
pub struct Demand {
    /// Number of popular objects, which clients request repeatedly; numbered from 0.
    pub popular: u64,
    /// The exponent of their popularity.
    pub theta: f64,
    /// The share of requests for popular objects. Every other request is for a new object.
    pub recurrence: f64,
    fresh: AtomicU64,
}

/// One client's draws.
pub struct Draws {
    popular: Offsets,
    rng: Xoshiro256PlusPlus,
}

impl Demand {
    /// A demand with `popular` popular objects.
    pub fn new(popular: u64, theta: f64, recurrence: f64) -> Demand {
        let popular = popular.max(1);
        Demand { popular, theta, recurrence, fresh: AtomicU64::new(popular) }
    }

    /// The draws of one client.
    pub fn draws(&self, seed: u64, client: u64) -> Draws {
        let popular =
            Offsets::new(Pattern::Zipf { theta: self.theta }, 0..self.popular, 0, mix(seed, client));
        Draws { popular, rng: Xoshiro256PlusPlus::seed_from_u64(mix(seed, client | 1 << 40)) }
    }

    /// The number of the object that a client requests next.
    pub fn next(&self, draws: &mut Draws) -> u64 {
        match draws.rng.random::<f64>() < self.recurrence {
            true => draws.popular.next(0),
            false => self.fresh.fetch_add(1, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_share_that_recurs_is_as_asked_and_what_is_fresh_never_recurs() {
        let demand = Demand::new(100, 0.8, 0.7);
        let mut clients = [demand.draws(3, 0), demand.draws(3, 1)];
        let mut seen: HashMap<u64, u32> = HashMap::new();
        for turn in 0..20_000 {
            *seen.entry(demand.next(&mut clients[turn % 2])).or_default() += 1;
        }
        let again: u32 = seen.iter().filter(|(number, _)| **number < 100).map(|(_, times)| times).sum();
        assert!((f64::from(again) / 20_000.0 - 0.7).abs() < 0.02, "{again}");
        assert!(seen.iter().all(|(number, times)| *number < 100 || *times == 1));
    }
}
