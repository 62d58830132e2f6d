//! Which block is next.

use super::job::Pattern;
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Normal, Zipf};
use std::ops::Range;

/// Draws block numbers. Numbers count through all files together.
#[derive(Debug, Clone)]
pub struct Offsets {
    first: u64,
    blocks: u64,
    draw: Draw,
    rng: Xoshiro256PlusPlus,
}

#[derive(Debug, Clone)]
enum Draw {
    /// From this block on.
    Sequential(u64),
    Uniform,
    Zipf(Zipf<f64>, Scatter),
    /// The exponent that turns a uniform number into a self-similar one.
    Pareto(f64, Scatter),
    Normal(Normal<f64>),
}

impl Offsets {
    /// Draws from a range of blocks. A sequence starts at `start` blocks into it and wraps.
    ///
    /// # Panics
    /// Where the range is empty or the pattern has not been checked.
    pub fn new(pattern: Pattern, range: Range<u64>, start: u64, seed: u64) -> Offsets {
        let blocks = range.end - range.start;
        assert!(blocks > 0, "there is nothing to draw from");
        // Which blocks are popular is a property of the files, alike for all threads.
        let scatter = || Scatter::new(blocks, mix(0x9e3779b9, blocks));
        let draw = match pattern {
            Pattern::Sequential { .. } => Draw::Sequential(start),
            Pattern::Uniform => Draw::Uniform,
            Pattern::Zipf { theta } => {
                Draw::Zipf(Zipf::new(blocks as f64, theta).expect("theta is checked"), scatter())
            }
            Pattern::Pareto { h } => Draw::Pareto(h.ln() / (1.0 - h).ln(), scatter()),
            Pattern::Normal { deviation_percent } => {
                let (middle, deviation) = (blocks as f64 / 2.0, blocks as f64 * deviation_percent / 100.0);
                Draw::Normal(Normal::new(middle, deviation).expect("the deviation is checked"))
            }
        };
        Offsets { first: range.start, blocks, draw, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The block of a request. Only sequences look at its number.
    #[inline(always)]
    pub fn next(&mut self, request: u64) -> u64 {
        let rng = &mut self.rng;
        let within = match &self.draw {
            Draw::Sequential(start) => (start + request) % self.blocks,
            Draw::Uniform => rng.random_range(0..self.blocks),
            Draw::Zipf(zipf, scatter) => scatter.place(zipf.sample(rng) as u64 - 1),
            Draw::Pareto(power, scatter) => {
                let rank = (self.blocks as f64 * rng.random::<f64>().powf(*power)) as u64;
                scatter.place(rank.min(self.blocks - 1))
            }
            Draw::Normal(normal) => loop {
                let at = normal.sample(rng);
                if (0.0..self.blocks as f64).contains(&at) {
                    break at as u64;
                }
            },
        };
        self.first + within
    }
}

/// A permutation of 0..n without a table: a four-round Feistel network over the next power of four, walked
/// until it falls into the range (Black and Rogaway 2002).
#[derive(Debug, Clone, Copy)]
struct Scatter {
    blocks: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Scatter {
    fn new(blocks: u64, seed: u64) -> Scatter {
        let bits = (64 - (blocks - 1).leading_zeros()).max(2);
        let half_bits = bits.div_ceil(2);
        Scatter { blocks, half_bits, keys: [0, 1, 2, 3].map(|round| mix(seed, round)) }
    }

    fn place(&self, rank: u64) -> u64 {
        let mut at = self.round_trip(rank);
        while at >= self.blocks {
            at = self.round_trip(at);
        }
        at
    }

    fn round_trip(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            let hash = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ (hash >> 32 & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn histogram(pattern: Pattern, blocks: u64) -> Vec<u64> {
        let mut offsets = Offsets::new(pattern, 0..blocks, 0, 42);
        let mut seen = vec![0; blocks as usize];
        (0..DRAWS).for_each(|request| seen[offsets.next(request) as usize] += 1);
        seen
    }

    fn ranked(pattern: Pattern, blocks: u64) -> Vec<u64> {
        let mut seen = histogram(pattern, blocks);
        seen.sort_unstable_by(|a, b| b.cmp(a));
        seen
    }

    #[test]
    fn a_sequence_wraps_and_starts_at_its_share() {
        let mut offsets = Offsets::new(Pattern::Sequential { shared_cursor: false }, 10..15, 3, 1);
        assert_eq!((0..7).map(|n| offsets.next(n)).collect::<Vec<_>>(), [13, 14, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn uniform_draws_are_even() {
        // 2000 expected in each of 100, so χ² has 99 degrees of freedom: mean 99, 99.9% below 149.
        let seen = histogram(Pattern::Uniform, 100);
        let chi2: f64 = seen.iter().map(|&n| (n as f64 - 2000.0).powi(2) / 2000.0).sum();
        assert!((60.0..149.0).contains(&chi2), "{chi2}");
    }

    #[test]
    fn draws_stay_in_their_range() {
        let patterns = [
            Pattern::Uniform,
            Pattern::Zipf { theta: 0.9 },
            Pattern::Pareto { h: 0.2 },
            Pattern::Normal { deviation_percent: 100.0 },
        ];
        for pattern in patterns {
            let mut offsets = Offsets::new(pattern, 1000..1007, 0, 5);
            assert!((0..10_000).all(|n| (1000..1007).contains(&offsets.next(n))), "{pattern:?}");
            let mut one = Offsets::new(pattern, 7..8, 0, 5);
            assert_eq!(one.next(0), 7);
        }
    }

    #[test]
    fn zipf_falls_with_rank() {
        // theta 1 over 100 blocks: H(100) = 5.18738, so rank 1 has 0.19278 of the draws and rank 10 a tenth.
        let seen = ranked(Pattern::Zipf { theta: 1.0 }, 100);
        assert!((seen[0] as f64 / DRAWS as f64 - 0.19278).abs() < 0.004, "{}", seen[0]);
        assert!((seen[9] as f64 / DRAWS as f64 - 0.019278).abs() < 0.002, "{}", seen[9]);
    }

    #[test]
    fn pareto_gives_eighty_to_twenty() {
        let seen = ranked(Pattern::Pareto { h: 0.2 }, 1000);
        let top: u64 = seen[..200].iter().sum();
        assert!((top as f64 / DRAWS as f64 - 0.8).abs() < 0.005, "{top}");
        // And again within them: 4% of the blocks take 64%.
        let inner: u64 = seen[..40].iter().sum();
        assert!((inner as f64 / DRAWS as f64 - 0.64).abs() < 0.01, "{inner}");
    }

    #[test]
    fn normal_draws_lie_around_the_middle() {
        let seen = histogram(Pattern::Normal { deviation_percent: 10.0 }, 1000);
        // Within one deviation of the middle: 68.27%.
        let inner: u64 = seen[400..600].iter().sum();
        assert!((inner as f64 / DRAWS as f64 - 0.6827).abs() < 0.005, "{inner}");
    }

    #[test]
    fn scattering_is_a_permutation() {
        for blocks in [1, 2, 3, 5, 64, 65, 1000] {
            let scatter = Scatter::new(blocks, 9);
            let mut places: Vec<u64> = (0..blocks).map(|rank| scatter.place(rank)).collect();
            if blocks == 1000 {
                assert!(places.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 10).count() < 60);
            }
            places.sort_unstable();
            assert_eq!(places, (0..blocks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let draws = |seed| {
            let mut offsets = Offsets::new(Pattern::Uniform, 0..1 << 40, 0, seed);
            (0..8).map(|n| offsets.next(n)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
