//! Computes the constants of the sequential test again and prints them beside the stored ones:
//! `cargo run --release -p fsarena-stats --example constants -- [--paths N] [--seed S]`.
//!
//! In the output, "error" is the simulated probability that a run with the stored constants has rejected by that look. It may
//! be below "spent" by the error that one step of c adds, and above it by the noise of the simulation.
//!
//! d is the log ratio of two variants in a round. Under the null hypothesis the signs of the d are fair coins, independent of
//! their sizes. A path is one simulated run: it has the signed-rank statistic V of every look, of which M = n(n + 1)/2 is the
//! largest value at n rounds. At each look the critical value is the largest c with which the share of paths that have crossed
//! by then, V ≤ c or M − V ≤ c, stays within the error spent so far, α(n) = α·ln(n/3.8)/ln(400/3.8) (Lan and DeMets 1983).

use fsarena_stats::critical_values::{LAST_LOOK_ROUNDS, LOOKS, signed_rank_cdf, spent_error};
use fsarena_stats::simulate::{in_parallel, run_rng};
use rand::{Rng, RngExt};
use std::time::Instant;

fn main() {
    let count = argument("--paths").unwrap_or(2_000_000);
    let seed = argument("--seed").unwrap_or(1);
    let start = Instant::now();
    let paths = simulate_paths(count as usize, seed);
    println!("{count} paths in {:.1} s", start.elapsed().as_secs_f64());
    for alpha in [0.05, 0.10] {
        let stored: Vec<usize> = LOOKS.iter().map(|look| if alpha == 0.05 { look.c05 } else { look.c10 }).collect();
        let (again, error) = (simulate_critical_values(&paths, alpha), crossed_shares(&paths, &stored));
        println!("\nalpha {alpha}\n    n  stored   again   spent %  error %   ± %   one step %   verdict");
        for (index, look) in LOOKS.iter().enumerate() {
            let target = spent_error(alpha, look.rounds);
            let noise = 4.0 * (target * (1.0 - target) / count as f64).sqrt();
            // The error that one step of c adds at this look alone, an upper bound of the error that it adds over all looks.
            let p = signed_rank_cdf(look.rounds);
            let step = 2.0 * (p[stored[index] + 1] - p[stored[index]]);
            let agrees = error[index] <= target + noise && error[index] + step >= target - noise;
            println!(
                "{:5} {:7} {:>7} {:9.4} {:8.4} {:5.3} {:10.4}     {}",
                look.rounds,
                stored[index],
                again[index].map_or("-".to_string(), |c| c.to_string()),
                100.0 * target,
                100.0 * error[index],
                100.0 * noise,
                100.0 * step,
                if agrees { "agrees" } else { "DISAGREES" },
            );
        }
    }
}

/// The number after this argument; None without the argument.
fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.next()?;
    Some(arguments.next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} takes a number")))
}

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
/// forms with itself and with the rounds before it. Only the order of the sizes |d| matters, so they are a random order of
/// `ranks`.
fn simulate_path(ranks: &mut [u16], rng: &mut impl Rng) -> Path {
    // The ranks of the sizes of the positive and of the negative d so far, as bits.
    let (mut positive_ranks, mut negative_ranks) = ([0u64; WORDS], [0u64; WORDS]);
    let (mut v, mut positive, mut look) = (0u32, 0u32, 0);
    let mut statistics = [0; LOOKS.len()];
    for i in 0..ranks.len() {
        ranks.swap(i, rng.random_range(i..ranks.len()));
        let rank = usize::from(ranks[i]);
        if rng.random() {
            // Pairs with itself, with every positive d, and with the smaller negative ones.
            v += 1 + positive + count_below(&negative_ranks, rank);
            positive_ranks[rank / 64] |= 1 << (rank % 64);
            positive += 1;
        } else {
            // Pairs with the larger positive ones.
            v += positive - count_below(&positive_ranks, rank);
            negative_ranks[rank / 64] |= 1 << (rank % 64);
        }
        if i + 1 == LOOKS[look].rounds {
            let largest_v = ((i + 1) * (i + 2) / 2) as u32;
            statistics[look] = v.min(largest_v - v);
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
    let mut critical_values = vec![];
    for look in 0..LOOKS.len() {
        let c = if look == 0 { exact_first_value(alpha) } else { simulated_value(&alive, look, alpha, paths.len()) };
        if let Some(c) = c {
            alive.retain(|path| path[look] as usize > c);
        }
        critical_values.push(c);
    }
    critical_values
}

/// The largest c with 2·P(V ≤ c) within the error that the first look may spend.
fn exact_first_value(alpha: f64) -> Option<usize> {
    let n = LOOKS[0].rounds;
    signed_rank_cdf(n).iter().take_while(|p| 2.0 * **p <= spent_error(alpha, n)).count().checked_sub(1)
}

/// The largest c with which no more paths have crossed by this look than the error allows. `alive` are the paths that have not
/// crossed at an earlier look, and `path_count` is the number of all paths.
fn simulated_value(alive: &[&Path], look: usize, alpha: f64, path_count: usize) -> Option<usize> {
    let may_cross = (spent_error(alpha, LOOKS[look].rounds) * path_count as f64) as usize;
    let may_still_cross = may_cross.saturating_sub(path_count - alive.len());
    let mut statistics: Vec<u32> = alive.iter().map(|path| path[look]).collect();
    if may_still_cross >= statistics.len() {
        return statistics.into_iter().max().map(|c| c as usize);
    }
    // With c just below the statistic of this rank, at most `may_still_cross` paths cross.
    statistics.select_nth_unstable(may_still_cross).1.checked_sub(1).map(|c| c as usize)
}

/// The share of paths that have crossed by each look, with these critical values.
pub fn crossed_shares(paths: &[Path], critical: &[usize]) -> Vec<f64> {
    let mut alive: Vec<&Path> = paths.iter().collect();
    let share = |(look, c): (usize, &usize)| {
        alive.retain(|path| path[look] as usize > *c);
        (paths.len() - alive.len()) as f64 / paths.len() as f64
    };
    critical.iter().enumerate().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_of_signed_ranks_agrees_with_counting() {
        // The share of the 2ⁿ subsets of {1, …, n} that have a sum of at most c, counted by a program in Python.
        for (n, c, p) in [(8, 0, 0.00390625), (10, 5, 0.009765625), (24, 55, 0.002_665_221_691_131_592)] {
            assert!((signed_rank_cdf(n)[c] - p).abs() < 1e-12, "{n} {c}: {}", signed_rank_cdf(n)[c]);
        }
    }

    #[test]
    fn paths_have_the_distribution_of_signed_ranks() {
        let paths = simulate_paths(20_000, 1);
        for (index, look) in LOOKS.iter().enumerate() {
            let p = 2.0 * signed_rank_cdf(look.rounds)[look.c10];
            let share = paths.iter().filter(|path| path[index] as usize <= look.c10).count() as f64 / 2e4;
            assert!((share - p).abs() < 5.0 * (p / 2e4).sqrt(), "{look:?}: {share} for {p}");
        }
    }

    #[test]
    fn critical_values_of_few_paths_are_near_the_stored_ones() {
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
