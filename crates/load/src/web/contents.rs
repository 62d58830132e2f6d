//! The objects of PolyMix-4, the workload of the cache-offs: kinds, sizes, whether they may be cached, and which of them
//! clients request.

use fsarena_core::schedule::mix;
use fsarena_engine::{Offsets, Pattern};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Exp, LogNormal};
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest object, so that a size drawn from a long tail does not overwhelm a small cache.
pub const MOST_BYTES: u64 = 2 << 20;
/// The mean size of an object in bytes, from the shares below: 10.6 KB.
pub const MEAN_BYTES: u64 = 10_575;

/// Number of popular objects for a cache of `cache_bytes`: twice as many as fit, so that they compete for the room.
pub fn popular(cache_bytes: u64) -> u64 {
    (2 * cache_bytes / MEAN_BYTES).max(16)
}

/// A distribution of sizes.
enum Size {
    /// Exponential, by its mean.
    Exponential(f64),
    /// Lognormal, by mean and standard deviation.
    LogNormal(f64, f64),
}

/// Images, HTML, downloads, others: how many of a thousand objects are of the kind, how large they are in bytes, and how
/// many of a hundred may be cached.
const KINDS: [(u32, Size, u32); 4] = [
    (650, Size::Exponential(4_500.0), 80),
    (150, Size::Exponential(8_500.0), 90),
    (5, Size::LogNormal(300_000.0, 300_000.0), 95),
    (195, Size::LogNormal(25_000.0, 10_000.0), 72),
];

/// An object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Its size in bytes, at least 1.
    pub bytes: u64,
    /// Whether it may be cached.
    pub cachable: bool,
}

/// The object of a number: always the same in the same world.
pub fn object(world: u64, number: u64) -> Object {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(world, number));
    let mut of_thousand = rng.random_range(0..1000);
    let kind = KINDS.iter().find(|(per_mille, ..)| {
        let found = of_thousand < *per_mille;
        of_thousand = of_thousand.saturating_sub(*per_mille);
        found
    });
    let (_, size, cachable) = kind.unwrap_or(&KINDS[3]);
    let bytes = match *size {
        Size::Exponential(mean) => Exp::new(1.0 / mean).map_or(mean, |size| size.sample(&mut rng)),
        Size::LogNormal(mean, deviation) => {
            LogNormal::from_mean_cv(mean, deviation / mean).map_or(mean, |size| size.sample(&mut rng))
        }
    };
    let cachable = rng.random_range(0..100) < *cachable;
    Object { bytes: (bytes as u64).clamp(1, MOST_BYTES), cachable }
}

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
    fn sizes_and_shares_are_those_of_polymix() {
        const OBJECTS: u64 = 200_000;
        let all: Vec<Object> = (0..OBJECTS).map(|number| object(7, number)).collect();
        let mean = all.iter().map(|object| object.bytes).sum::<u64>() as f64 / OBJECTS as f64;
        assert!((mean / MEAN_BYTES as f64 - 1.0).abs() < 0.03, "{mean}");
        // 0.65·0.80 + 0.15·0.90 + 0.005·0.95 + 0.195·0.72 = 0.800.
        let cachable = all.iter().filter(|object| object.cachable).count() as f64 / OBJECTS as f64;
        assert!((cachable - 0.800).abs() < 0.005, "{cachable}");
    }

    #[test]
    fn an_object_is_the_same_each_time() {
        assert_eq!(object(1, 2), object(1, 2));
        assert!((0..100).any(|number| object(1, number) != object(2, number)));
    }

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
