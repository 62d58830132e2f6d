//! Simulates the critical values of [`fsarena_stats::critical_values`].
//!
//! d is the log ratio of two variants in a round. Under the null hypothesis the signs of the d are fair coins, independent of
//! their sizes. A path is one simulated run: it has the signed-rank statistic V of every look, of which M = n(n + 1)/2 is the
//! largest value at n rounds. At each look the critical value is the largest c with which the share of paths that have crossed
//! by then, V ≤ c or M − V ≤ c, stays within the error spent so far, α(n) = α·ln(n/3.8)/ln(400/3.8) (Lan and DeMets 1983).

use fsarena_stats::critical_values::{LAST_LOOK_ROUNDS, LOOKS, signed_rank_cdf, spent_error};
use fsarena_stats::simulate::{in_parallel, run_rng};
use rand::{Rng, RngExt};

/// The number of rounds of a path: the rounds of the last look.
const ROUNDS: usize = LAST_LOOK_ROUNDS;
/// The number of 64-bit words that hold one bit for every rank.
const WORDS: usize = ROUNDS.div_ceil(64);

/// min(V, M − V) of one path at every look.
pub type Path = [u32; LOOKS.len()];

/// Simulates paths under the null hypothesis.
pub fn simulate_paths(count: usize, seed: u64) -> Vec<Path> {
    const CHUNK: usize = 1 << 12;
    let chunk = |number: u64| {
        let mut rng = run_rng(seed, number);
        let mut ranks: Vec<u16> = (0..ROUNDS as u16).collect();
        let size = CHUNK.min(count - number as usize * CHUNK);
        (0..size).map(|_| simulate_path(&mut ranks, &mut rng)).collect::<Vec<Path>>()
    };
    in_parallel(count.div_ceil(CHUNK), chunk).into_iter().flatten().collect()
}

/// Simulates one path. V is the number of pairs i ≤ j with d_i + d_j > 0 (Tukey 1949), so each round adds the pairs that it
/// forms with the rounds before it. Only the order of the sizes matters, so the function shuffles `ranks`.
fn simulate_path(ranks: &mut [u16], rng: &mut impl Rng) -> Path {
    let (mut above, mut below) = ([0u64; WORDS], [0u64; WORDS]);
    let (mut v, mut positive, mut look) = (0u32, 0u32, 0);
    let mut statistics = [0; LOOKS.len()];
    for i in 0..ranks.len() {
        ranks.swap(i, rng.random_range(i..ranks.len()));
        let rank = usize::from(ranks[i]);
        if rng.random() {
            // Pairs with itself, with every positive, and with the smaller negatives.
            v += 1 + positive + count_below(&below, rank);
            above[rank / 64] |= 1 << (rank % 64);
            positive += 1;
        } else {
            // Pairs with the larger positives.
            v += positive - count_below(&above, rank);
            below[rank / 64] |= 1 << (rank % 64);
        }
        if i + 1 == LOOKS[look].rounds {
            let all = ((i + 1) * (i + 2) / 2) as u32;
            statistics[look] = v.min(all - v);
            look += 1;
        }
    }
    statistics
}

/// The number of set bits below bit `rank`.
fn count_below(bits: &[u64; WORDS], rank: usize) -> u32 {
    let full: u32 = bits[..rank / 64].iter().map(|word| word.count_ones()).sum();
    full + (bits[rank / 64] & ((1 << (rank % 64)) - 1)).count_ones()
}

/// The critical value of every look for the error `alpha`: exact at the first look, from simulated paths at the others. None at
/// a look at which every value would exceed the error.
pub fn simulate_critical_values(paths: &[Path], alpha: f64) -> Vec<Option<usize>> {
    let mut alive: Vec<&Path> = paths.iter().collect();
    let mut value = |at: usize| {
        let c = if at == 0 { exact_first_value(alpha) } else { simulated_value(&alive, at, alpha, paths.len()) };
        if let Some(c) = c {
            alive.retain(|path| path[at] as usize > c);
        }
        c
    };
    (0..LOOKS.len()).map(&mut value).collect()
}

/// The largest c with 2·P(V ≤ c) within what the first look may spend.
fn exact_first_value(alpha: f64) -> Option<usize> {
    let n = LOOKS[0].rounds;
    signed_rank_cdf(n).iter().take_while(|p| 2.0 * **p <= spent_error(alpha, n)).count().checked_sub(1)
}

/// The largest c with which no more of `all` paths have crossed by look `at` than may have crossed by then. `alive` are the
/// paths that have not crossed at an earlier look.
fn simulated_value(alive: &[&Path], at: usize, alpha: f64, all: usize) -> Option<usize> {
    let may_cross = (spent_error(alpha, LOOKS[at].rounds) * all as f64) as usize;
    let may_still_cross = may_cross.saturating_sub(all - alive.len());
    let mut statistics: Vec<u32> = alive.iter().map(|path| path[at]).collect();
    if may_still_cross >= statistics.len() {
        return statistics.into_iter().max().map(|c| c as usize);
    }
    // Just below the first value that is one too many, at most `may_still_cross` paths cross.
    statistics.select_nth_unstable(may_still_cross).1.checked_sub(1).map(|c| c as usize)
}

/// The share of paths that have crossed by each look, with these critical values.
pub fn crossed_shares(paths: &[Path], critical: &[usize]) -> Vec<f64> {
    let mut alive: Vec<&Path> = paths.iter().collect();
    let share = |(at, c): (usize, &usize)| {
        alive.retain(|path| path[at] as usize > *c);
        (paths.len() - alive.len()) as f64 / paths.len() as f64
    };
    critical.iter().enumerate().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_of_signed_ranks_agrees_with_counting() {
        // The subsets of {1, …, n} with a sum of at most c, counted in whole numbers by a program of a few
        // lines in Python, over 2ⁿ.
        for (n, c, p) in [(8, 0, 0.00390625), (10, 5, 0.009765625), (24, 55, 0.002_665_221_691_131_592)] {
            assert!((signed_rank_cdf(n)[c] - p).abs() < 1e-12, "{n} {c}: {}", signed_rank_cdf(n)[c]);
        }
    }

    #[test]
    fn paths_have_the_distribution_of_signed_ranks() {
        let paths = simulate_paths(20_000, 1);
        for (at, look) in LOOKS.iter().enumerate() {
            let p = 2.0 * signed_rank_cdf(look.rounds)[look.c10];
            let seen = paths.iter().filter(|path| path[at] as usize <= look.c10).count() as f64 / 2e4;
            assert!((seen - p).abs() < 5.0 * (p / 2e4).sqrt(), "{look:?}: {seen} for {p}");
        }
    }

    #[test]
    fn few_paths_come_near_the_constants() {
        let paths = simulate_paths(20_000, 2);
        for alpha in [0.05, 0.10] {
            let critical: Vec<usize> = simulate_critical_values(&paths, alpha).into_iter().flatten().collect();
            for ((look, c), error) in LOOKS.iter().zip(&critical).zip(crossed_shares(&paths, &critical)) {
                let stored = if alpha == 0.05 { look.c05 } else { look.c10 };
                assert!(c.abs_diff(stored) <= 2 + stored / 50, "{look:?}: {c}");
                assert!(error <= spent_error(alpha, look.rounds) + 1e-3, "{look:?}: {error}");
            }
        }
    }

    #[test]
    fn the_critical_value_of_the_first_look_is_exact() {
        assert_eq!(
            (exact_first_value(0.05), exact_first_value(0.10), exact_first_value(0.04)),
            (Some(0), Some(1), None)
        );
    }
}
