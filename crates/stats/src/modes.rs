//! Finds modes: values of one variant and task that form two clusters, for example because an allocator has a fast and a slow
//! path.
//!
//! The statistic is the largest share of the variance that a cut into two clusters explains (one-dimensional 2-means,
//! Fisher 1958), times the balance of the cut, 2√(n₁n₂)/n. Without that factor a few outliers of heavy-tailed noise look
//! like a cluster: at 15 rounds, 105 tests and 5% spikes a cut must then explain 97%, with it 90%. Its null distribution is simulated from the six noises of [`crate::simulate::noise`], the worst of
//! which counts, and all tasks and variants of a run together err in at most 5% of runs (Holm 1979).

mod mode_correlates;

use crate::average::{logs, mean, median, sorted, squares};
use crate::simulate::noise::{self, Noise, Order};
use crate::simulate::{parallel, stream};
use crate::table::FIRST_LOOK;
use fsarena_core::observations::{Grid, ReadingSeries, has_data};
pub use mode_correlates::{AssociatedReading, ModeCorrelates};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The fewest rounds of a cluster.
const FEWEST: usize = 3;
const ALPHA: f64 = 0.05;
/// The number of simulated runs of each noise, and the number that is simulated at a time.
const RUNS: usize = 20_000;
const CHUNK: usize = 1_000;

/// The most rounds to simulate. Of more, chance explains less, so these bound it.
const MOST_SIMULATED: usize = 400;

/// Two modes of one variant at one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Modes {
    /// The task, as an index into the record.
    pub task: usize,
    /// The variant, as an index into the record.
    pub variant: usize,
    /// The cluster of lower values and that of higher ones.
    pub clusters: [Cluster; 2],
    /// The order of variants and the readings that are associated with the clusters.
    pub why: ModeCorrelates,
}

/// One of two clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The median of its values.
    pub median: f64,
    /// Its rounds, as columns of the grid, ascending.
    pub columns: Vec<usize>,
}

/// A cut of a variant's residuals into a lower and a higher cluster.
struct Cut {
    task: usize,
    variant: usize,
    /// The statistic of the cut: see [`explained`].
    explained: f64,
    /// Columns of lower and of higher residuals.
    columns: [Vec<usize>; 2],
}

/// Finds the modes of every task and variant, the clearest first. `orders` has the variants of each round in the order in which
/// they ran; `readings` returns the raw readings of a task and variant in each round.
pub fn modes(
    grid: &Grid,
    orders: &[Vec<usize>],
    readings: impl Fn(usize, usize) -> Vec<ReadingSeries>,
    seed: u64,
) -> Vec<Modes> {
    let mut cuts: Vec<Cut> = vec![];
    for (task, values) in grid.values.iter().enumerate().filter(|(_, values)| has_data(values)) {
        let logs = logs(values);
        cuts.extend((0..logs.len()).filter_map(|variant| {
            let (explained, columns) = cut(&residuals(&logs, variant))?;
            Some(Cut { task, variant, explained, columns })
        }));
    }
    cuts.sort_by(|a, b| b.explained.total_cmp(&a.explained));
    let tests = cuts.len();
    let proven = cuts.into_iter().enumerate().take_while(|(rank, cut)| {
        let rounds = cut.columns.iter().map(Vec::len).sum::<usize>().min(MOST_SIMULATED);
        below(cut.explained, rounds, ALPHA / (tests - rank) as f64)
    });
    let mut modes = vec![];
    for (_, Cut { task, variant, columns, .. }) in proven {
        let readings = readings(task, variant);
        let why = ModeCorrelates::of((task, variant), &columns, orders, &readings, seed);
        let clusters = columns.map(|columns| {
            let values: Vec<f64> = columns.iter().map(|at| grid.values[task][variant][*at]).collect();
            Cluster { median: median(&values).unwrap_or(f64::NAN), columns }
        });
        modes.push(Modes { task, variant, clusters, why });
    }
    modes
}

/// A variant's logarithms minus the effect of each round on the others: the median of the others' differences from their own
/// medians. Nothing is subtracted with fewer than three others, because the modes of one would then appear in the residuals of
/// another.
fn residuals(logs: &[Vec<f64>], variant: usize) -> Vec<f64> {
    let medians: Vec<f64> = logs.iter().map(|rounds| median(rounds).unwrap_or(f64::NAN)).collect();
    let others = |column: usize| -> f64 {
        let others = (0..logs.len()).filter(|other| *other != variant);
        let far: Vec<f64> = others.map(|other| logs[other][column] - medians[other]).collect();
        let known = far.iter().filter(|far| !far.is_nan()).count();
        if known < 3 { 0.0 } else { median(&far).unwrap_or(0.0) }
    };
    logs[variant].iter().enumerate().map(|(column, x)| x - others(column)).collect()
}

/// The best cut of a variant's residuals: its statistic, and the columns on both sides. None for fewer than 8 rounds, or if all
/// values are equal.
fn cut(residuals: &[f64]) -> Option<(f64, [Vec<usize>; 2])> {
    let mut known: Vec<(f64, usize)> =
        residuals.iter().enumerate().filter(|(_, x)| x.is_finite()).map(|(column, x)| (*x, column)).collect();
    if known.len() < FIRST_LOOK {
        return None;
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sorted: Vec<f64> = known.iter().map(|(x, _)| *x).collect();
    let (explained, at) = explained(&sorted)?;
    let columns = |known: &[(f64, usize)]| {
        let mut columns: Vec<usize> = known.iter().map(|(_, column)| *column).collect();
        columns.sort_unstable();
        columns
    };
    Some((explained, [columns(&known[..at]), columns(&known[at..])]))
}

/// The statistic of the best cut of sorted values (the share of the variance that the cut explains, times its balance), and the
/// number of values below the cut.
fn explained(sorted: &[f64]) -> Option<(f64, usize)> {
    let count = sorted.len() as f64;
    let (mean, all) = (mean(sorted), squares(sorted.iter()));
    if all <= 0.0 {
        return None;
    }
    let mut below = 0.0;
    let mut best = (0.0, 0);
    for (at, x) in sorted.iter().enumerate().take(sorted.len() - FEWEST) {
        below += x - mean;
        let low = (at + 1) as f64;
        // Both clusters' squared distances from the mean: their sums are below and -below.
        let between = below * below * (1.0 / low + 1.0 / (count - low));
        let share = between / all * 2.0 * (low * (count - low)).sqrt() / count;
        if at + 1 >= FEWEST && share > best.0 {
            best = (share, at + 1);
        }
    }
    (best.1 > 0).then_some(best)
}

/// Whether the statistic `seen` is significant: for every noise, fewer than `share` of the simulated runs have a statistic at
/// least as large.
fn below(seen: f64, rounds: usize, share: f64) -> bool {
    let most = (share * (RUNS + 1) as f64).floor() as usize;
    let chunks = 0..RUNS / CHUNK;
    (0..Noise::ALL.len()).all(|noise| {
        let mut as_clear = 1; // the run itself
        chunks.clone().all(|chunk| {
            as_clear +=
                simulated(noise, rounds, chunk, |best| best.iter().filter(|one| **one >= seen).count());
            as_clear <= most
        })
    })
}

/// Passes the statistics of a chunk of simulated runs to `of`. Caches them, because a report needs the same chunks repeatedly.
fn simulated<T>(noise: usize, rounds: usize, chunk: usize, of: impl FnOnce(&[f64]) -> T) -> T {
    static KNOWN: Mutex<BTreeMap<(usize, usize, usize), Vec<f64>>> = Mutex::new(BTreeMap::new());
    let one = |run: u64| {
        let mut rng = stream(noise as u64, (chunk * CHUNK) as u64 + run);
        let values = noise::differences(Noise::ALL[noise], Order::Random, rounds, &mut rng);
        explained(&sorted(values)).map_or(0.0, |(explained, _)| explained)
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    of(known.entry((noise, rounds, chunk)).or_insert_with(|| parallel(CHUNK, one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_cut_by_hand() {
        // Means 1 and 5; within 0 and 0; all 6 values lie 2 from the mean.
        assert_eq!(explained(&[1.0, 1.0, 1.0, 5.0, 5.0, 5.0]), Some((1.0, 3)));
        // No cut of four values has three on each side, and equal values have no variance.
        assert_eq!(explained(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(explained(&[1.0; 9]), None);
        let (share, at) = explained(&[0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3]).unwrap();
        // Between: 8 · 0.5²; within: twice 0.05.
        assert!(at == 4 && (share - 2.0 / 2.1).abs() < 1e-12, "{share}");
    }

    #[test]
    fn what_a_round_does_to_all_is_no_mode() {
        let slow = |column: usize| if column.is_multiple_of(2) { 0.7 } else { 0.0 };
        let logs: Vec<Vec<f64>> = (0..4)
            .map(|variant| {
                let own = |at| if variant == 3 && at < 4 { 0.5 } else { 0.0 };
                (0..9).map(|at| slow(at) + own(at)).collect()
            })
            .collect();
        assert!(residuals(&logs, 0).windows(2).all(|pair| (pair[0] - pair[1]).abs() < 1e-12));
        let (share, [low, high]) = cut(&residuals(&logs, 3)).unwrap();
        // A balance of 2·√20/9.
        assert!(
            (0.99..0.994).contains(&share) && low == [4, 5, 6, 7, 8] && high == [0, 1, 2, 3],
            "{share} {low:?}"
        );
    }

    #[test]
    fn two_speeds_stand_out_and_noise_does_not() {
        let cut_of = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            explained(&sorted).unwrap().0
        };
        // 2.4 times as slow in seven of fifteen rounds, with 5% of noise; as one of 105 tests.
        let noise = noise::differences(Noise::Normal, Order::Random, 15, &mut stream(3, 3));
        let two: Vec<f64> = noise
            .iter()
            .enumerate()
            .map(|(at, x)| 3.5 * x + if at % 2 == 1 { 2.4f64.ln() } else { 0.0 })
            .collect();
        assert!(below(cut_of(&two), 15, ALPHA / 105.0));
        for (number, noise) in Noise::ALL.iter().enumerate() {
            let plain = noise::differences(*noise, Order::Random, 15, &mut stream(5, number as u64));
            assert!(!below(cut_of(&plain), 15, ALPHA / 105.0), "{}", noise.name());
        }
    }
}
