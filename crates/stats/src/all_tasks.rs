//! Combines several tasks into one value for each variant and round: a total or a geometric mean.

use crate::average::log;
use crate::comparison::{Comparison, compare_with};
use crate::grid::grid;
use crate::pairs::{self, Pairs};
use crate::regret::{self, Regrets};
use crate::weights;
use fsarena_core::sample::{Direction, Fold, MetricSpec};
use fsarena_core::{cell::TaskInfo, record::RunRecord};
use std::collections::BTreeSet;

/// The values of several tasks: `tasks[task][variant][round]`.
pub type Tasks<'a> = [&'a Vec<Vec<f64>>];

/// All tasks combined into one value for each variant and round, and compared like a single task.
#[derive(Debug, Clone, PartialEq)]
pub struct AllTasks {
    /// The combined value of each variant in each round, `values[variant][round]`; NaN where there is none.
    pub values: Vec<Vec<f64>>,
    /// The comparison of the variants.
    pub comparison: Comparison,
    /// For each variant, the number of rounds that are left out because only some of their tasks have a value.
    pub left_out: Vec<usize>,
    /// The regret of choosing each variant: how much slower it can be than the fastest.
    pub regrets: Regrets,
}

/// Compares variants by the combined value of tasks, `values[variant][round]`. `split` is the number of runs that share the
/// error probability of the regrets.
pub fn together(
    tasks: &Tasks,
    values: Vec<Vec<f64>>,
    references: &[usize],
    direction: Direction,
    split: usize,
) -> AllTasks {
    let has_some_task =
        |variant: usize, round: usize| tasks.iter().any(|task| !task[variant][round].is_nan());
    let left_out = |(variant, rounds): (usize, &Vec<f64>)| {
        rounds
            .iter()
            .enumerate()
            .filter(|(round, value)| value.is_nan() && has_some_task(variant, *round))
            .count()
    };
    AllTasks {
        left_out: values.iter().enumerate().map(left_out).collect(),
        comparison: compare_with(&values, references, direction),
        regrets: regret::of(&values, references, direction, split),
        values,
    }
}

/// The total of a metric over tasks of a run, `totals[variant][round]`: their sum, the largest or the like as the metric
/// defines, and for a quotient the total of the numerator divided by that of the denominator. NaN where the round lacks a
/// task; None where the metric has no total.
pub fn totals(
    record: &RunRecord,
    metric: &MetricSpec,
    leave_out: &BTreeSet<u32>,
    tasks: &[(&TaskInfo, &Vec<Vec<f64>>)],
) -> Option<Vec<Vec<f64>>> {
    let Some([numerator, denominator]) = &metric.of else {
        let values: Vec<_> = tasks.iter().map(|(_, values)| *values).collect();
        return folded(&values, metric.over.tasks);
    };
    let part = |id: &str| {
        let (part, rows) = record.metric(id)?;
        let grid = grid(record, &rows, leave_out);
        let values = tasks.iter().map(|(task, _)| Some(&grid.values[record.task(&task.id)?]));
        Some((folded(&values.collect::<Option<Vec<_>>>()?, part.over.tasks)?, part.unit))
    };
    let ((mut totals, unit), (denominators, denominator_unit)) = (part(numerator)?, part(denominator)?);
    for (totals, denominators) in totals.iter_mut().zip(&denominators) {
        for (total, denominator) in totals.iter_mut().zip(denominators) {
            let quotient = metric.quotient([(*total, unit), (*denominator, denominator_unit)]);
            *total = quotient.unwrap_or(f64::NAN);
        }
    }
    Some(totals)
}

/// The geometric mean over T tasks, `means[variant][round]`: exp(G_b), where G_b = Σ w_t·ln x_t with w_t = 1/T. Every task
/// has the same weight, however long it takes. NaN where the round lacks a task, or has a value of zero or less, which has
/// no logarithm.
pub fn means(tasks: &Tasks) -> Vec<Vec<f64>> {
    let weight = 1.0 / tasks.len() as f64;
    fold(tasks, |values| (values.map(log).sum::<f64>() * weight).exp())
}

/// Combines tasks by a [`Fold`], `[variant][round]`; NaN where the round lacks a task. None where `by` has no result.
fn folded(tasks: &Tasks, by: Fold) -> Option<Vec<Vec<f64>>> {
    by.name()?;
    Some(fold(tasks, |values| by.of(values).unwrap_or(f64::NAN)))
}

/// The log ratios of the second of two variants to the first, one for each round: of the totals if there are any, else the
/// mean of the log ratios of the tasks.
pub fn log_ratios(tasks: &Tasks, totals: Option<Vec<Vec<f64>>>) -> Pairs {
    if let Some(totals) = totals {
        return pairs::log_ratios(&totals[0], &totals[1]);
    }
    let log = |values: &&Vec<Vec<f64>>| -> Vec<f64> {
        values[0].iter().zip(&values[1]).map(|(a, b)| (b / a).ln()).collect()
    };
    let d: Vec<Vec<f64>> = tasks.iter().map(log).collect();
    // In a round that ran, every task has a log ratio, which can be infinite.
    let rounds = d.first().map_or(0, Vec::len);
    let ran = (0..rounds).filter(|round| d.iter().all(|task| !task[*round].is_nan())).count();
    let mean = weights::weighted_means(&d, &vec![1.0; d.len()]);
    let d: Vec<f64> = mean.into_iter().filter(|d| d.is_finite()).collect();
    Pairs { excluded: ran.saturating_sub(d.len()), d }
}

/// Applies `of` to the values of all tasks in each round, `[variant][round]`. A missing task is NaN, which every `of`
/// passes on.
fn fold(tasks: &Tasks, of: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Vec<Vec<f64>> {
    let Some(first) = tasks.first() else { return vec![] };
    let mut folded = vec![];
    for (variant, rounds) in first.iter().enumerate() {
        let value = |round: usize| of(&mut tasks.iter().map(|task| task[variant][round]));
        folded.push((0..rounds.len()).map(value).collect());
    }
    folded
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
        let of = |values| together(&tasks, values, &[], Direction::Lower, 1);
        let total = of(folded(&tasks, Fold::Sum).unwrap());
        assert_eq!(total.left_out, [0, 1]);
        assert_eq!(total.comparison.variants[0].median, Some(10.0)); // of 5, 10, 17
        assert_eq!(total.comparison.variants[1].median, Some(10.0));
        assert_eq!(total.comparison.variants[1].ratio.unwrap().rounds, 1);
        assert!((total.comparison.variants[1].ratio.unwrap().value - 2.0).abs() < 1e-12);
        let geometric = of(means(&tasks));
        assert!((geometric.comparison.variants[0].median.unwrap() - 3.0).abs() < 1e-12); // of 2, 3, 4
        assert!((geometric.comparison.variants[1].median.unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_task_of_zero_has_no_geometric_mean() {
        let task = vec![vec![0.0, 1.0]];
        let left_out = |values| together(&[&task], values, &[], Direction::Lower, 1).left_out;
        assert_eq!(left_out(means(&[&task])), [1]);
        assert_eq!(left_out(folded(&[&task], Fold::Sum).unwrap()), [0]);
    }

    #[test]
    fn no_tasks_make_no_number() {
        let none = together(&[], means(&[]), &[], Direction::Lower, 1);
        assert!(none.comparison.variants.is_empty());
    }

    #[test]
    fn tasks_make_what_their_metric_declares() {
        let tasks = [&vec![vec![1.0, 2.0]], &vec![vec![5.0, GONE]]];
        let of = |by| folded(&tasks, by).map(|values| values[0][0]);
        let all = [Fold::Sum, Fold::Max, Fold::Min, Fold::Mean, Fold::None, Fold::Rate].map(of);
        assert_eq!(all, [Some(6.0), Some(5.0), Some(1.0), Some(3.0), None, None]);
        assert!(folded(&tasks, Fold::Max).unwrap()[0][1].is_nan());
    }
}
