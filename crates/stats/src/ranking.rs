//! Ranks all variants over all tasks with weights, and tests how much the ranking depends on single tasks.

use crate::analyse::{Analysis, weighted_means};
use crate::comparison::{Comparison, compare_with_references};
use crate::ranks::{rank_sets, simultaneous_intervals};
use crate::simulate::{MANY_ROUNDS, run_rng};
use crate::{critical_values::FIRST_LOOK_ROUNDS, hodges_lehmann::WalshAverages};
use fsarena_core::{cell::TaskInfo, observations::VariantValues, sample::Direction};
use rand::RngExt;

/// The variants of a run, ranked.
#[derive(Debug, Clone)]
pub struct Ranking {
    /// The metric.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// The tasks and their weights.
    pub weights: Vec<(String, f64)>,
    /// How the variants compare on the weighted mean over tasks.
    pub comparison: Comparison,
    /// The variants that are ranked, best first.
    pub variants: Vec<RankedVariant>,
    /// The number of rounds in which every ranked variant has a value of every task whose weight is not 0.
    pub rounds: usize,
}

/// A ranked variant.
#[derive(Debug, Clone)]
pub struct RankedVariant {
    /// Index into the variants of the run.
    pub variant: usize,
    /// The first and last rank that it may have. With 95% confidence the ranges of all variants are right at once. None for
    /// fewer than 8 complete rounds. Variants with exactly the same values have the same ranks.
    pub ranks: Option<(usize, usize)>,
    /// The smallest and largest ratio to the best if any one task is left out. None for the best itself, and if there is only
    /// one task.
    pub ratios_without_one_task: Option<(f64, f64)>,
    /// The share of bootstrap resamples of rounds in which it is the best.
    pub probability_best: Option<f64>,
}

impl Ranking {
    /// Ranks the variants of a run by a metric. The same values and seed give the same probabilities. None if fewer
    /// than two variants have enough rounds, at least 8 if any variant has as many, or if neither way is better.
    pub fn compute(analysis: &Analysis, weight: impl Fn(&TaskInfo) -> f64, seed: u64) -> Option<Ranking> {
        let (grid, direction) = (&analysis.grid, analysis.metric.direction);
        if direction == Direction::Neutral {
            return None;
        }
        let tasks: Vec<&TaskInfo> = grid.comparable_tasks().into_iter().map(|task| &grid.tasks[task]).collect();
        let values: Vec<&VariantValues> = grid.comparable_tasks().into_iter().map(|task| &grid.values[task]).collect();
        let variants = values.first()?.len();
        let weights: Vec<f64> = tasks.iter().map(|task| weight(task)).collect();
        let means: VariantValues = (0..variants).map(|variant| weighted_mean(&values, variant, &weights)).collect();
        let comparison = compare_with_references(&means, &grid.references, direction);
        let included = variants_with_enough_rounds(&comparison);
        if included.len() < 2 {
            return None;
        }
        let included_means: VariantValues = included.iter().map(|variant| means[*variant].clone()).collect();
        let is_complete = |round: usize| included_means.iter().all(|variant| variant[round].is_finite());
        let rounds = (0..included_means[0].len()).filter(|round| is_complete(*round)).count();
        let ranks = simultaneous_intervals(&included_means, seed)
            .filter(|_| rounds >= FIRST_LOOK_ROUNDS)
            .and_then(|simultaneous| rank_sets(&simultaneous.intervals, direction));
        let included_values: Vec<Vec<&[f64]>> =
            values.iter().map(|task| included.iter().map(|variant| task[*variant].as_slice()).collect()).collect();
        let probability = probability_best(&included_values, &weights, direction, seed);
        let variants = included.iter().enumerate().map(|(index, variant)| RankedVariant {
            variant: *variant,
            ranks: ranks.as_ref().map(|ranks| ranks[index]),
            ratios_without_one_task: (index > 0)
                .then(|| leave_one_out_ratios(&values, included[0], *variant, &weights))
                .flatten(),
            probability_best: probability.as_ref().map(|all| all[index]),
        });
        Some(Ranking {
            metric: analysis.metric.id.clone(),
            direction,
            weights: tasks.iter().map(|task| task.id.to_string()).zip(weights.iter().copied()).collect(),
            variants: variants.collect(),
            comparison,
            rounds,
        })
    }

    /// Whether all tasks have the same weight.
    pub fn has_equal_weights(&self) -> bool {
        self.weights.iter().all(|(_, weight)| *weight == self.weights[0].1)
    }

    /// The first variant that would overtake or equal the best if some single task were left out. A variant that equals the
    /// best whichever task is left out does not count.
    pub fn overtaken_by(&self) -> Option<usize> {
        let overtakes = |ranked: &&RankedVariant| {
            ranked.ratios_without_one_task.is_some_and(|(low, high)| match self.direction {
                Direction::Higher => high >= 1.0 && (low, high) != (1.0, 1.0),
                _ => low <= 1.0 && (low, high) != (1.0, 1.0),
            })
        };
        self.variants.iter().find(overtakes).map(|ranked| ranked.variant)
    }
}

/// The weighted geometric mean over tasks of a variant in each round.
fn weighted_mean(values: &[&VariantValues], variant: usize, weights: &[f64]) -> Vec<f64> {
    let logs = values.iter().map(|task| task[variant].iter().map(|value| value.ln()).collect());
    let means = weighted_means(&logs.collect::<Vec<Vec<f64>>>(), weights).into_iter();
    means.map(|mean| if mean.is_finite() { mean.exp() } else { f64::NAN }).collect()
}

/// The variants with at least [`FIRST_LOOK_ROUNDS`] rounds, best first. If every variant has fewer, those with the most
/// rounds.
fn variants_with_enough_rounds(comparison: &Comparison) -> Vec<usize> {
    let max_rounds = comparison.variants.iter().map(|variant| variant.rounds).max().unwrap_or(0);
    let has_enough = |variant: &&usize| comparison.variants[**variant].rounds >= FIRST_LOOK_ROUNDS.min(max_rounds);
    comparison.order.iter().filter(has_enough).copied().collect()
}

/// The smallest and the largest ratio of a variant to the best if any one task is left out; see [`leave_one_out`].
fn leave_one_out_ratios(values: &[&VariantValues], best: usize, variant: usize, weights: &[f64]) -> Option<(f64, f64)> {
    let d = |task: &&VariantValues| {
        task[best].iter().zip(&task[variant]).map(|(best, other)| (other / best).ln()).collect()
    };
    let d: Vec<Vec<f64>> = values.iter().map(d).collect();
    leave_one_out(&d, weights).map(|(low, high)| (low.exp(), high.exp()))
}

/// The smallest and the largest Hodges–Lehmann estimate of the weighted mean if any one task is left out: how much the result
/// depends on a single task. The estimates are log ratios. None for fewer than two tasks with weight, or without a complete
/// round.
pub fn leave_one_out(d: &[Vec<f64>], weights: &[f64]) -> Option<(f64, f64)> {
    let weighted_tasks: Vec<usize> = (0..d.len().min(weights.len())).filter(|task| weights[*task] != 0.0).collect();
    if weighted_tasks.len() < 2 {
        return None;
    }
    let total_weight: f64 = weighted_tasks.iter().map(|task| weights[*task]).sum();
    let rounds = weighted_tasks.iter().map(|task| d[*task].len()).min()?;
    // For each round, the weighted sum over the tasks that it has, and the number of tasks that it lacks. One subtraction then
    // leaves a task out.
    let sum = |round: usize| {
        weighted_tasks.iter().fold((0.0, 0), |(sum, missing), task| match d[*task][round] {
            value if value.is_finite() => (sum + weights[*task] * value, missing),
            _ => (sum, missing + 1),
        })
    };
    let sums: Vec<(f64, usize)> = (0..rounds).map(sum).collect();
    let estimate_without = |left_out: &usize| {
        let weight = weights[*left_out];
        let mut means = vec![];
        for ((sum, missing), value) in sums.iter().zip(&d[*left_out]) {
            if value.is_finite() && *missing == 0 {
                means.push((sum - weight * value) / (total_weight - weight));
            } else if !value.is_finite() && *missing == 1 {
                means.push(sum / (total_weight - weight));
            }
        }
        WalshAverages::new(means).map(|walsh| walsh.estimate())
    };
    let estimates: Vec<f64> = weighted_tasks.iter().map(estimate_without).collect::<Option<_>>()?;
    let low = estimates.iter().copied().min_by(f64::total_cmp)?;
    Some((low, estimates.iter().copied().max_by(f64::total_cmp)?))
}

/// The probability that each variant is the best under these weights: the share of bootstrap resamples of rounds in which its
/// weighted mean log value is the best. Of `values[task][variant][round]`, only those rounds count that have a value of every
/// variant in every task whose weight is not 0. Variants that tie share a resample. The probability shows how sure the win is,
/// not how large.
///
/// None if no round is complete or neither direction is better.
pub fn probability_best(
    values: &[Vec<impl AsRef<[f64]>>],
    weights: &[f64],
    direction: Direction,
    seed: u64,
) -> Option<Vec<f64>> {
    let sign = match direction {
        Direction::Lower => 1.0,
        Direction::Higher => -1.0,
        Direction::Neutral => return None,
    };
    let variants = values.first()?.len();
    let log_costs = |variant: usize| {
        let rounds_of_tasks = values.iter().map(|task| task[variant].as_ref());
        let logs = rounds_of_tasks.map(|rounds| rounds.iter().map(|value| sign * value.ln()).collect());
        weighted_means(&logs.collect::<Vec<Vec<f64>>>(), weights)
    };
    // Lower is better. By variant and round.
    let log_costs: Vec<Vec<f64>> = (0..variants).map(log_costs).collect();
    let is_complete =
        |round: &usize| log_costs.iter().all(|variant| variant.get(*round).is_some_and(|cost| cost.is_finite()));
    let complete: Vec<usize> = (0..log_costs.first()?.len()).filter(is_complete).collect();
    if complete.is_empty() {
        return None;
    }
    // The values of a round are stored side by side, because rounds are drawn in random order.
    let log_costs_by_round: Vec<f64> =
        complete.iter().flat_map(|round| log_costs.iter().map(move |variant| variant[*round])).collect();
    let mut rng = run_rng(seed, 0);
    let mut wins = vec![0.0; variants];
    // With 95% confidence the error of a share is at most 0.016 with 4,000 resamples, and 0.031 with 1,000 (1.96 standard
    // errors of a share of 1/2). Above MANY_ROUNDS each resample takes long, and nearly every share is 0 or 1.
    let resamples = if complete.len() <= MANY_ROUNDS { 4_000 } else { 1_000 };
    for _ in 0..resamples {
        let mut sums = vec![0.0; variants];
        for _ in 0..complete.len() {
            let start = variants * rng.random_range(0..complete.len());
            sums.iter_mut().zip(&log_costs_by_round[start..start + variants]).for_each(|(sum, cost)| *sum += cost);
        }
        let best = sums.iter().copied().fold(f64::INFINITY, f64::min);
        let winners: Vec<usize> = (0..variants).filter(|variant| sums[*variant] == best).collect();
        winners.iter().for_each(|variant| wins[*variant] += 1.0 / winners.len() as f64);
    }
    Some(wins.into_iter().map(|wins| wins / resamples as f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::compare;

    #[test]
    fn a_variant_that_always_equals_the_best_does_not_overtake_it() {
        let ranked = |variant, ratios_without_one_task| RankedVariant {
            variant,
            ranks: None,
            ratios_without_one_task,
            probability_best: None,
        };
        let overtaken_by = |range: (f64, f64), direction| {
            let comparison = compare(&[vec![1.0; 8], vec![1.0; 8]], direction);
            let variants = vec![ranked(0, None), ranked(1, Some(range))];
            let metric = "elapsed".to_string();
            Ranking { metric, direction, weights: vec![], comparison, variants, rounds: 8 }.overtaken_by()
        };
        assert_eq!(overtaken_by((1.0, 1.0), Direction::Lower), None);
        assert_eq!(overtaken_by((1.0, 1.0), Direction::Higher), None);
        assert_eq!(overtaken_by((0.9, 1.1), Direction::Lower), Some(1));
        assert_eq!(overtaken_by((0.9, 1.0), Direction::Higher), Some(1));
    }

    #[test]
    fn weighted_means_match_values_computed_by_hand() {
        let d = [vec![0.1, 0.2, 0.3], vec![0.4, f64::NAN, 0.0], vec![9.0, 9.0, 9.0]];
        let g = weighted_means(&d, &[3.0, 1.0, 0.0]);
        assert!((g[0] - 0.175).abs() < 1e-12 && g[1].is_nan() && (g[2] - 0.225).abs() < 1e-12, "{g:?}");
    }

    #[test]
    fn leave_one_out_returns_the_range_over_all_omissions() {
        let d = [vec![0.1; 8], vec![0.3; 8], vec![-0.5; 8], vec![7.0; 8]];
        let (low, high) = leave_one_out(&d, &[1.0, 1.0, 1.0, 0.0]).unwrap();
        assert!((low + 0.2).abs() < 1e-12 && (high - 0.2).abs() < 1e-12, "{low} {high}");
        assert_eq!(leave_one_out(&d[..1], &[1.0]), None);
    }

    #[test]
    fn a_round_that_lacks_only_the_task_that_is_left_out_counts() {
        // The second round lacks the first task, the third the second.
        let d = [vec![0.1, f64::NAN, 0.1], vec![0.4, 0.2, f64::NEG_INFINITY], vec![0.4, 0.2, 0.1]];
        let expected = |left_out: usize| {
            let mut weights = [3.0, 1.0, 2.0];
            weights[left_out] = 0.0;
            let known = weighted_means(&d, &weights).into_iter().filter(|g| g.is_finite()).collect();
            WalshAverages::new(known).unwrap().estimate()
        };
        let expected = [0, 1, 2].map(expected);
        let (low, high) = leave_one_out(&d, &[3.0, 1.0, 2.0]).unwrap();
        let [least, most] = [f64::min, f64::max].map(|extreme| expected.into_iter().reduce(extreme).unwrap());
        assert!((low - least).abs() < 1e-12 && (high - most).abs() < 1e-12, "{low} {high} {expected:?}");
    }

    #[test]
    fn the_best_depends_on_the_weights() {
        // Variant 0 wins the first task by a factor of 2, variant 1 the second by 1.5.
        let values = [vec![vec![1.0; 8], vec![2.0; 8]], vec![vec![1.5; 8], vec![1.0; 8]]];
        let best = |weights: [f64; 2], direction| probability_best(&values, &weights, direction, 1);
        assert_eq!(best([1.0, 1.0], Direction::Lower), Some(vec![1.0, 0.0]));
        assert_eq!(best([1.0, 3.0], Direction::Lower), Some(vec![0.0, 1.0]));
        assert_eq!(best([1.0, 1.0], Direction::Higher), Some(vec![0.0, 1.0]));
        assert_eq!(best([1.0, 1.0], Direction::Neutral), None);
        let equal = [vec![vec![1.0; 4], vec![1.0; 4]]];
        assert_eq!(probability_best(&equal, &[1.0], Direction::Lower, 1), Some(vec![0.5, 0.5]));
    }

    #[test]
    fn the_probability_of_disagreeing_rounds_matches_the_binomial_distribution() {
        // d is 1 in five rounds and −1 in three. Each of 8 resampled rounds has d = 1 with p = 5/8, and the first variant is
        // the best with probability P(their mean > 0) + P(their mean = 0)/2. scipy: binom.sf(4, 8, 0.625) + binom.pmf(4, 8,
        // 0.625)/2.
        let a = vec![1.0; 8];
        let b = (0..8).map(|round| if round < 5 { 1f64.exp() } else { (-1f64).exp() }).collect();
        let p = probability_best(&[vec![a, b]], &[1.0], Direction::Lower, 1).unwrap();
        assert!((p[0] - 0.7570).abs() < 0.03, "{p:?}");
    }
}
