//! Many tasks as one number a round.

use crate::average::log;
use crate::comparison::{Comparison, compare_with};
use crate::pairs::{self, Pairs};
use crate::regret::{self, Regrets};
use crate::weights;
use fsarena_core::sample::Direction;

/// `tasks[task][variant][round]`.
pub type Tasks<'a> = [&'a Vec<Vec<f64>>];

/// All tasks as one number a round, compared like a single task.
#[derive(Debug, Clone, PartialEq)]
pub struct AllTasks {
    /// How the variants compare on it.
    pub comparison: Comparison,
    /// For each variant, the rounds left out because they have some of its tasks but not every one.
    pub left_out: Vec<usize>,
    /// What choosing each variant can cost.
    pub regrets: Regrets,
}

/// The sum over tasks, for each variant and round. `split` runs share
/// the error of the regrets.
pub fn total(tasks: &Tasks, references: &[usize], direction: Direction, split: usize) -> AllTasks {
    combine(tasks, sums(tasks), references, direction, split)
}

/// The geometric mean over tasks: exp(G_b), G_b = Σ w_t·ln x_t with w_t = 1/T. Every task counts the
/// same, however long it takes. A task of zero or less has no logarithm, so its round is left out.
pub fn geometric(tasks: &Tasks, references: &[usize], direction: Direction, split: usize) -> AllTasks {
    combine(tasks, means(tasks), references, direction, split)
}

/// The geometric mean over tasks, `means[variant][round]`; NaN where the round lacks a task or has one of zero or less.
pub fn means(tasks: &Tasks) -> Vec<Vec<f64>> {
    let weight = 1.0 / tasks.len() as f64;
    fold(tasks, |values| (values.map(log).sum::<f64>() * weight).exp())
}

/// The sum over tasks, `sums[variant][round]`; NaN where the round lacks a task.
pub fn sums(tasks: &Tasks) -> Vec<Vec<f64>> {
    fold(tasks, |values| values.sum())
}

/// The log ratios of the second of two variants to the first over all tasks together: of their sum where that means
/// anything, else their mean log ratio.
pub fn log_ratios(tasks: &Tasks, adds_up: bool) -> Pairs {
    if adds_up {
        let sums = sums(tasks);
        return pairs::log_ratios(&sums[0], &sums[1]);
    }
    let log = |values: &&Vec<Vec<f64>>| -> Vec<f64> {
        values[0].iter().zip(&values[1]).map(|(a, b)| (b / a).ln()).collect()
    };
    let d: Vec<Vec<f64>> = tasks.iter().map(log).collect();
    // A round that ran has a number in every task, be it an infinite one.
    let ran =
        (0..d.first().map_or(0, Vec::len)).filter(|round| d.iter().all(|d| !d[*round].is_nan())).count();
    let mean = weights::weighted_means(&d, &vec![1.0; d.len()]);
    let d: Vec<f64> = mean.into_iter().filter(|d| d.is_finite()).collect();
    Pairs { excluded: ran.saturating_sub(d.len()), d }
}

/// One number for each variant and round. NaN spreads through sums, so a round that lacks a task has none.
fn fold(tasks: &Tasks, of: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Vec<Vec<f64>> {
    let Some(first) = tasks.first() else { return vec![] };
    let value = |variant: usize, round: usize| of(&mut tasks.iter().map(|task| task[variant][round]));
    let variant = |(variant, rounds): (usize, &Vec<f64>)| {
        (0..rounds.len()).map(|round| value(variant, round)).collect()
    };
    first.iter().enumerate().map(variant).collect()
}

fn combine(
    tasks: &Tasks,
    values: Vec<Vec<f64>>,
    references: &[usize],
    direction: Direction,
    split: usize,
) -> AllTasks {
    let began = |variant: usize, round: usize| tasks.iter().any(|task| !task[variant][round].is_nan());
    let left_out = |(variant, rounds): (usize, &Vec<f64>)| {
        rounds.iter().enumerate().filter(|(round, value)| value.is_nan() && began(variant, *round)).count()
    };
    AllTasks {
        left_out: values.iter().enumerate().map(left_out).collect(),
        comparison: compare_with(&values, references, direction),
        regrets: regret::of(&values, references, direction, split),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GONE: f64 = f64::NAN;

    #[test]
    fn sums_and_means_only_of_complete_rounds() {
        // Two tasks, two variants, three rounds; variant 1 lacks a task in round 1 and everything in round 2.
        let first = vec![vec![1.0, 1.0, 1.0], vec![2.0, 2.0, GONE]];
        let second = vec![vec![4.0, 9.0, 16.0], vec![8.0, GONE, GONE]];
        let tasks = [&first, &second];
        let total = total(&tasks, &[], Direction::Lower, 1);
        assert_eq!(total.left_out, [0, 1]);
        assert_eq!(total.comparison.variants[0].median, Some(10.0)); // of 5, 10, 17
        assert_eq!(total.comparison.variants[1].median, Some(10.0));
        assert_eq!(total.comparison.variants[1].ratio.unwrap().rounds, 1);
        assert!((total.comparison.variants[1].ratio.unwrap().value - 2.0).abs() < 1e-12);
        let geometric = geometric(&tasks, &[], Direction::Lower, 1);
        assert!((geometric.comparison.variants[0].median.unwrap() - 3.0).abs() < 1e-12); // of 2, 3, 4
        assert!((geometric.comparison.variants[1].median.unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_task_of_zero_has_no_geometric_mean() {
        let task = vec![vec![0.0, 1.0]];
        assert_eq!(geometric(&[&task], &[], Direction::Lower, 1).left_out, [1]);
        assert_eq!(total(&[&task], &[], Direction::Lower, 1).left_out, [0]);
    }

    #[test]
    fn no_tasks_make_no_number() {
        assert!(total(&[], &[], Direction::Lower, 1).comparison.variants.is_empty());
    }
}
