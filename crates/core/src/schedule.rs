//! The order of variants inside a round.

use chacha20::ChaCha12Rng;
use rand::{SeedableRng, seq::SliceRandom};

/// A uniformly random order of `variants` variants for one round.
///
/// The order depends only on the run's seed and the round's number, so a resumed run uses the same order as an
/// uninterrupted one. The store keeps the order of every round.
pub fn order_of_round(seed: u64, round: u32, variants: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..variants).collect();
    order.shuffle(&mut ChaCha12Rng::seed_from_u64(mix(seed, u64::from(round))));
    order
}

/// Mixes the run's seed and a number into a seed for one purpose. Uses the finaliser of splitmix64 (Steele, Lea, Flood
/// 2014), so neighbouring numbers give unrelated streams.
pub fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_runs_every_variant_once() {
        for number in 0..100 {
            let mut order = order_of_round(7, number, 5);
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        assert_eq!(order_of_round(7, 3, 5), order_of_round(7, 3, 5));
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for number in 0..6_000 {
            *seen.entry(order_of_round(1, number, 3)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // 1000 expected of each, standard deviation 29: five of them each side.
        assert!(seen.values().all(|&n| (855..=1145).contains(&n)), "{seen:?}");
    }
}
