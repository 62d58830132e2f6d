//! Ranks: simultaneous intervals of all pairs of variants, the possible ranks of each variant, and the agreement of two orders.

use crate::average::{mean, sorted, squared_deviations};
use crate::simulate::{MANY_ROUNDS, run_rng};
use fsarena_core::sample::Direction;
use rand::seq::SliceRandom;

/// Intervals of every pair of variants, which hold together with 95%.
#[derive(Debug, Clone, PartialEq)]
pub struct SimultaneousIntervals {
    /// The 95% quantile of max |T|.
    pub critical: f64,
    /// The number of rounds that have every variant; only these are used.
    pub rounds: usize,
    /// `intervals[i][j]`: the interval of ln(variant j/variant i), infinite where it is unknown.
    pub intervals: Vec<Vec<(f64, f64)>>,
}

/// Computes the intervals of all pairs of variants from `values[variant][round]`; NaN marks a missing value. The same values
/// and seed give the same intervals.
///
/// For each pair, T = mean(d)/se(d), where se is the standard error. The interval is mean(d) ± q·se(d). To find q, the mean log
/// of each variant is subtracted from its logs, and the variants are permuted within every round; q is the 95% quantile of the
/// largest |T| over all pairs (Westfall and Young 1993, "Resampling-based multiple testing", max T). The intervals hold for a
/// fixed number of rounds, so they must not decide when to stop. None for fewer than two complete rounds or two variants.
pub fn simultaneous_intervals(values: &[Vec<f64>], seed: u64) -> Option<SimultaneousIntervals> {
    let logs = complete_logs(values);
    let (rounds, variants) = (logs.len(), values.len());
    if rounds < 2 || variants < 2 {
        return None;
    }
    let mean_of = |variant: usize| mean(logs.iter().map(|round| round[variant]));
    let means: Vec<f64> = (0..variants).map(mean_of).collect();
    // One contiguous list, round after round, because the permutations spend nearly all their time on reading it.
    let mut residuals: Vec<f64> =
        logs.iter().flat_map(|round| round.iter().zip(&means).map(|(log, mean)| log - mean)).collect();
    let mut rng = run_rng(seed, 0);
    // The number of permutations. 100 of them lie beyond the 95% quantile; only 50 above [`MANY_ROUNDS`], where each takes
    // long. The test is exact with either number.
    let permutations = if rounds <= MANY_ROUNDS { 1_999 } else { 999 };
    let largest_t_of_permutation = |_| {
        residuals.chunks_exact_mut(variants).for_each(|round| round.shuffle(&mut rng));
        largest_t(&residuals, variants)
    };
    let null_distribution = sorted((0..permutations).map(largest_t_of_permutation));
    // With B permutations the ⌈0.95·(B + 1)⌉-th smallest is exact.
    let critical = null_distribution[(0.95 * (permutations + 1) as f64).ceil() as usize - 1];
    let interval = |i: usize, j: usize| {
        let (mean, error) = mean_log_ratio(&logs, i, j);
        (mean - critical * error, mean + critical * error)
    };
    Some(SimultaneousIntervals { critical, rounds, intervals: square_table(variants, interval) })
}

/// `logs[round][variant]` of the rounds in which every variant has a positive value.
fn complete_logs(values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let rounds = values.iter().map(Vec::len).min().unwrap_or(0);
    let all_logs = (0..rounds).map(|round| values.iter().map(|variant| variant[round].ln()).collect::<Vec<f64>>());
    all_logs.filter(|logs| logs.iter().all(|log| log.is_finite())).collect()
}

/// The mean of log j − log i over rounds, and its standard error.
fn mean_log_ratio(logs: &[Vec<f64>], i: usize, j: usize) -> (f64, f64) {
    let (n, d) = (logs.len() as f64, logs.iter().map(|round| round[j] - round[i]));
    (mean(d.clone()), (squared_deviations(d) / (n - 1.0) / n).sqrt())
}

/// The largest |T| of all pairs of variants, from residuals stored round after round. Sums of squares are precise enough,
/// because the means are near 0.
fn largest_t(residuals: &[f64], variants: usize) -> f64 {
    let n = (residuals.len() / variants) as f64;
    let pairs: Vec<(usize, usize)> = pairs(variants).collect();
    // For each pair, the sum of its log ratios and the sum of their squares.
    let mut sums = vec![(0.0, 0.0); pairs.len()];
    for round in residuals.chunks_exact(variants) {
        for ((i, j), sum) in pairs.iter().zip(&mut sums) {
            let d = round[*j] - round[*i];
            *sum = (sum.0 + d, sum.1 + d * d);
        }
    }
    let t = |(sum, squares): &(f64, f64)| {
        let error = ((squares - sum * sum / n).max(0.0) / (n - 1.0) / n).sqrt();
        if *sum == 0.0 { 0.0 } else { (sum / n / error).abs() }
    };
    sums.iter().map(t).fold(0.0, f64::max)
}

/// Kendall's τ-b of two lists of values, corrected for ties: (C − D)/√((C + D + T_x)(C + D + T_y)), where C and D are the
/// numbers of pairs in the same and in opposite order, and T_x and T_y the numbers of pairs that are tied in one list only
/// (Kendall 1945, "The treatment of ties in ranking problems"). None if all values of a list are equal, or a list has fewer
/// than two values.
pub fn kendall_tau_b(x: &[f64], y: &[f64]) -> Option<f64> {
    let (mut concordant, mut discordant, mut tied_x, mut tied_y) = (0.0, 0.0, 0.0, 0.0);
    for (i, j) in pairs(x.len().min(y.len())) {
        match (x[i] == x[j], y[i] == y[j]) {
            (true, true) => {}
            (true, false) => tied_x += 1.0,
            (false, true) => tied_y += 1.0,
            (false, false) if (x[i] < x[j]) == (y[i] < y[j]) => concordant += 1.0,
            (false, false) => discordant += 1.0,
        }
    }
    let denominator_squared: f64 = (concordant + discordant + tied_x) * (concordant + discordant + tied_y);
    (denominator_squared > 0.0).then(|| (concordant - discordant) / denominator_squared.sqrt())
}

/// The pairs whose order differs between the two lists: (i, j) with x_i < x_j but y_i > y_j.
pub fn swapped_pairs(x: &[f64], y: &[f64]) -> Vec<(usize, usize)> {
    pairs(x.len().min(y.len()))
        .filter_map(|(i, j)| match (x[i].partial_cmp(&x[j])?, y[i].partial_cmp(&y[j])?) {
            (std::cmp::Ordering::Less, std::cmp::Ordering::Greater) => Some((i, j)),
            (std::cmp::Ordering::Greater, std::cmp::Ordering::Less) => Some((j, i)),
            _ => None,
        })
        .collect()
}

/// All pairs (i, j) with i < j < n.
pub(crate) fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

/// The table of `value(i, j)` for all i and j below `size`.
pub(crate) fn square_table<T>(size: usize, value: impl Fn(usize, usize) -> T) -> Vec<Vec<T>> {
    (0..size).map(|i| (0..size).map(|j| value(i, j)).collect()).collect()
}

/// The first and the last rank that simultaneous intervals allow each of k variants: from 1 + the number of variants that are
/// certainly better, to k − the number of those that are certainly worse (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference
/// for ranks"). The ranks of all variants hold together with the confidence of the intervals. `intervals[i][j]` is the interval
/// of ln(j/i), as [`simultaneous_intervals`] returns it.
///
/// None if neither direction is better.
pub fn rank_sets(intervals: &[Vec<(f64, f64)>], direction: Direction) -> Option<Vec<(usize, usize)>> {
    let variants = intervals.len();
    // Whether j is certainly better than i.
    let is_better = |i: usize, j: usize| match direction {
        Direction::Lower => intervals[i][j].1 < 0.0,
        Direction::Higher | Direction::Neutral => intervals[i][j].0 > 0.0,
    };
    let rank_set = |i: usize| {
        let others = || (0..variants).filter(|j| *j != i);
        let better = others().filter(|j| is_better(i, *j)).count();
        let worse = others().filter(|j| is_better(*j, i)).count();
        (1 + better, variants - worse)
    };
    (direction != Direction::Neutral).then(|| (0..variants).map(rank_set).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::noise::{Noise, Order, simulate_log_ratios};

    /// Values with normal noise of `count` variants, each multiplied by `factor(variant)`.
    fn simulated_values(count: u64, rounds: usize, factor: impl Fn(u64) -> f64) -> Vec<Vec<f64>> {
        (0..count)
            .map(|variant| {
                let noise = simulate_log_ratios(Noise::Normal, Order::Random, rounds, &mut run_rng(5, variant));
                noise.into_iter().map(|d| factor(variant) * d.exp()).collect()
            })
            .collect()
    }

    #[test]
    fn the_critical_value_is_that_of_the_studentised_range() {
        // scipy.stats.studentized_range.ppf(0.95, k, (k − 1)·59)/√2 is for normal noise with one common standard error. T uses
        // the standard error of each pair, so its quantile is slightly larger.
        for (k, expected) in [(2, 2.0010), (4, 2.5936), (6, 2.8686)] {
            let q = simultaneous_intervals(&simulated_values(k, 60, |_| 1.0), 1).unwrap().critical;
            assert!((q / expected - 1.0).abs() < 0.06, "{k} variants: {q} for {expected}");
        }
    }

    #[test]
    fn effects_do_not_widen_the_intervals() {
        let equal = simultaneous_intervals(&simulated_values(3, 30, |_| 1.0), 1).unwrap();
        let different = simultaneous_intervals(&simulated_values(3, 30, |variant| 1.0 + variant as f64), 1).unwrap();
        assert!((equal.critical - different.critical).abs() < 1e-9);
        let (low, high) = different.intervals[0][1];
        assert!(low < 2f64.ln() && 2f64.ln() < high && low > 0.6);
        assert!((different.intervals[1][0].0 + high).abs() < 1e-12, "the interval of the inverse ratio");
    }

    #[test]
    fn only_complete_rounds_count() {
        let mut values = simulated_values(3, 12, |_| 1.0);
        values[1][3] = f64::NAN;
        values[2][5] = 0.0;
        assert_eq!(simultaneous_intervals(&values, 1).unwrap().rounds, 10);
        assert_eq!(simultaneous_intervals(&values[..1], 1), None);
        assert_eq!(simultaneous_intervals(&[vec![1.0], vec![2.0]], 1), None);
    }

    #[test]
    fn kendalls_tau_agrees_with_scipy() {
        // scipy.stats.kendalltau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]).statistic
        let tau = kendall_tau_b(&[12.0, 2.0, 1.0, 12.0, 2.0], &[1.0, 4.0, 7.0, 1.0, 0.0]).unwrap();
        assert!((tau - -0.471_404_520_791_031_7).abs() < 1e-15, "{tau}");
    }

    #[test]
    fn kendalls_tau_of_same_and_opposite_orders() {
        assert_eq!(kendall_tau_b(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(1.0));
        assert_eq!(kendall_tau_b(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(kendall_tau_b(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(kendall_tau_b(&[1.0], &[1.0]), None);
    }

    #[test]
    fn a_swapped_pair_begins_with_the_formerly_smaller_value() {
        assert_eq!(swapped_pairs(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]), [(0, 1)]);
        assert_eq!(swapped_pairs(&[3.0, 2.0], &[1.0, 2.0]), [(1, 0)]);
        assert_eq!(swapped_pairs(&[1.0, 1.0], &[1.0, 2.0]), []);
    }

    /// The intervals of variants at these positions on the logarithmic scale: each log ratio ± 1.
    fn intervals_of(positions: &[f64]) -> Vec<Vec<(f64, f64)>> {
        positions.iter().map(|i| positions.iter().map(|j| (j - i - 1.0, j - i + 1.0)).collect()).collect()
    }

    #[test]
    fn rank_sets_match_values_computed_by_hand() {
        // 0 and 0.5 do not differ significantly, nor do 0.5 and 1.2; 5 is behind them all.
        let intervals = intervals_of(&[0.0, 0.5, 1.2, 5.0]);
        let lower = rank_sets(&intervals, Direction::Lower).unwrap();
        assert_eq!(lower, [(1, 2), (1, 3), (2, 3), (4, 4)]);
        let higher = rank_sets(&intervals, Direction::Higher).unwrap();
        assert_eq!(higher, [(3, 4), (2, 4), (2, 3), (1, 1)]);
        assert_eq!(rank_sets(&intervals, Direction::Neutral), None);
        assert_eq!(rank_sets(&[], Direction::Lower), Some(vec![]));
    }
}
