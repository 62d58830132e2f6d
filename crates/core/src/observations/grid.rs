//! The values of one metric of a run, and their totals and means over tasks.

use super::images::RoundsByImage;
use super::validity::{InvalidReason, invalid_figures, tasks_without_commits};
use super::values::{
    VariantValues, bare_devices, dropped_rounds, has_data, rounds, rounds_left_out, values_by_task, warmup_rounds,
};
use crate::average::Average;
use crate::cell::TaskInfo;
use crate::names::{UnknownName, unknown_name};
use crate::record::{MetricSpec, RunRecord};
use crate::sample::{Fold, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// The values of one metric of a run, by task, variant and round.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The metric.
    pub metric: MetricSpec,
    /// The tasks of the run.
    pub tasks: Vec<TaskInfo>,
    /// The rounds that the columns stand for, ascending. In a run with aged images a column stands for an image, and this is
    /// its first round.
    pub rounds: Vec<u32>,
    /// `values[task][variant][column]`; NaN for a missing value. In a run with aged images each is the average of the rounds
    /// on one image, because rounds on the same image are not independent.
    pub values: Vec<VariantValues>,
    /// The tasks that no ranking uses, because one of their figures is invalid: it did not measure what the task claims. The
    /// reason is the one that [`invalid_reason`](super::invalid_reason) describes.
    pub excluded: BTreeMap<usize, InvalidReason>,
    /// The tasks that no total includes, because their figures measure a different kind of operation than the others: reads
    /// in a run of commits, for example.
    pub incomparable: BTreeSet<usize>,
    /// The variants that are the bare device: a reference for the others.
    pub references: Vec<usize>,
    /// Numerator and denominator of a metric that is a quotient.
    quotient_parts: Option<[QuotientPart; 2]>,
    /// The grid by round, if the run has aged images.
    ungrouped: Option<Box<Ungrouped>>,
}

/// The values by round of a grid whose columns are aged images.
#[derive(Debug, Clone, PartialEq)]
struct Ungrouped {
    grid: Grid,
    images: RoundsByImage,
    average: Average,
}

/// The numerator or the denominator of a metric, from which its totals are computed.
#[derive(Debug, Clone, PartialEq)]
struct QuotientPart {
    values: Vec<VariantValues>,
    fold: Fold,
    unit: Unit,
}

impl Grid {
    /// The values of a metric or reading, without warm-up rounds and dropped rounds. None if the run lacks the metric.
    pub fn of(record: &RunRecord, metric: &str) -> Option<Grid> {
        Grid::without_rounds(record, metric, &rounds_left_out(record))
    }

    /// The same as [`Grid::of`], with an error that suggests a similar name.
    ///
    /// # Errors
    /// The run has no metric of this name.
    pub fn find(record: &RunRecord, metric: &str) -> Result<Grid, UnknownName> {
        Grid::of(record, metric).ok_or_else(|| {
            unknown_name("metric", metric, record.metric_ids())
                .with_place(format!("in run {}", record.id))
                .with_list_command("fsarena list metrics")
        })
    }

    /// The values of a metric or reading without `excluded_rounds`. None if the run lacks the metric.
    ///
    /// A task with an invalid figure is excluded for all variants, so that every sum has the same tasks. An invalid figure of
    /// a bare device does not exclude its task.
    pub fn without_rounds(record: &RunRecord, metric: &str, excluded_rounds: &BTreeSet<u32>) -> Option<Grid> {
        let (spec, rows) = record.metric(metric)?;
        let values = values_by_task(record, &rows, excluded_rounds);
        let references = bare_devices(record);
        let mut excluded = BTreeMap::new();
        for ((task, variant), reason) in invalid_figures(record, metric) {
            if references.contains(&variant) {
                continue;
            }
            let first_reason = excluded.entry(task).or_insert(reason);
            if reason == InvalidReason::FewRequests {
                *first_reason = reason;
            }
        }
        let grid = Grid {
            incomparable: tasks_without_commits(record, &spec, &values),
            quotient_parts: quotient_parts(record, &spec, excluded_rounds),
            metric: spec,
            tasks: record.tasks.clone(),
            rounds: rounds(record, excluded_rounds),
            values,
            excluded,
            references,
            ungrouped: None,
        };
        Some(match RoundsByImage::of(record, excluded_rounds) {
            Some(images) => grid.with_columns_of_images(images, Average::Typical),
            None => grid,
        })
    }

    /// The same values with one column for each image.
    fn with_columns_of_images(self, images: RoundsByImage, average: Average) -> Grid {
        Grid {
            rounds: images.first_columns().map(|column| self.rounds[column]).collect(),
            values: self.values.iter().map(|task| images.average(task, average)).collect(),
            ungrouped: Some(Box::new(Ungrouped { grid: self.clone(), images, average })),
            ..self
        }
    }

    /// The values by round, also in a run with aged images: for questions about rounds, not for comparing variants.
    pub fn by_round(&self) -> &Grid {
        self.ungrouped.as_ref().map_or(self, |ungrouped| &ungrouped.grid)
    }

    /// The aged images, if the run has some.
    pub fn images(&self) -> Option<&RoundsByImage> {
        self.ungrouped.as_ref().map(|ungrouped| &ungrouped.images)
    }

    /// The noun for what a column stands for, in the singular: `round`, or `aged image`.
    pub fn column_noun(&self) -> &'static str {
        if self.ungrouped.is_some() { "aged image" } else { "round" }
    }

    /// The values for ratios of mean cost, if they differ from these: where an image has several rounds.
    pub fn mean_costs(&self) -> Option<Grid> {
        let has_several_rounds = self.images().is_some_and(|images| images.complete_passes > 1);
        has_several_rounds.then(|| self.clone().with_average(Average::Mean))
    }

    /// The values for comparisons by `average`. They differ from these only where an image has several rounds.
    pub fn with_average(self, average: Average) -> Grid {
        match self.ungrouped {
            Some(ungrouped) if ungrouped.average != average => {
                ungrouped.grid.with_columns_of_images(ungrouped.images, average)
            }
            ungrouped => Grid { ungrouped, ..self },
        }
    }

    /// Averages values by round over the rounds of each image, if the run has aged images.
    fn average_on_images(&self, values: VariantValues) -> VariantValues {
        match &self.ungrouped {
            Some(ungrouped) => ungrouped.images.average(&values, ungrouped.average),
            None => values,
        }
    }

    /// The tasks that a comparison of all tasks uses: they count in totals, have data, and are neither excluded nor
    /// incomparable.
    pub fn comparable_tasks(&self) -> Vec<usize> {
        let is_comparable = |task: &usize| {
            self.tasks[*task].in_totals
                && has_data(&self.values[*task])
                && !self.excluded.contains_key(task)
                && !self.incomparable.contains(task)
        };
        (0..self.tasks.len()).filter(is_comparable).collect()
    }

    /// The total of the metric over some tasks, `totals[variant][round]`: their sum, largest, smallest or mean, as the metric
    /// defines. For a quotient: the total of the numerator divided by the total of the denominator. NaN if the round lacks a
    /// task. None if the metric has no total.
    pub fn totals(&self, tasks: &[usize]) -> Option<VariantValues> {
        // The mean of the totals of rounds, not the total of the means.
        self.by_round().totals_of_rounds(tasks).map(|totals| self.average_on_images(totals))
    }

    /// The totals of the columns of this grid; see [`Grid::totals`].
    fn totals_of_rounds(&self, tasks: &[usize]) -> Option<VariantValues> {
        let combine_tasks_of = |values: &[VariantValues], fold: Fold| {
            fold.total_name()?;
            Some(combine(values, tasks, |values| fold.combine(values).unwrap_or(f64::NAN)))
        };
        if self.metric.quotient_of.is_none() {
            return combine_tasks_of(&self.values, self.metric.over.tasks);
        }
        let [numerator, denominator] = self.quotient_parts.as_ref()?;
        let mut totals = combine_tasks_of(&numerator.values, numerator.fold)?;
        let divisors = combine_tasks_of(&denominator.values, denominator.fold)?;
        for (totals, divisors) in totals.iter_mut().zip(&divisors) {
            for (total, divisor) in totals.iter_mut().zip(divisors) {
                let quotient = self.metric.quotient([(*total, numerator.unit), (*divisor, denominator.unit)]);
                *total = quotient.unwrap_or(f64::NAN);
            }
        }
        Some(totals)
    }

    /// The geometric mean over some tasks, `means[variant][round]`. Each task has the same weight, however long it takes. NaN
    /// if the round lacks a task, or has a value of zero or less, which has no logarithm.
    pub fn geometric_means(&self, tasks: &[usize]) -> VariantValues {
        let weight = 1.0 / tasks.len() as f64;
        let log = |value: f64| if value > 0.0 { value.ln() } else { f64::NAN };
        let geometric_mean = |values: &mut dyn Iterator<Item = f64>| (values.map(log).sum::<f64>() * weight).exp();
        self.average_on_images(combine(&self.by_round().values, tasks, geometric_mean))
    }

    /// One value per variant and round for the whole work: the total over the comparable tasks, or their geometric mean if the
    /// metric has no total.
    pub fn combined(&self) -> VariantValues {
        let tasks = self.comparable_tasks();
        self.totals(&tasks).unwrap_or_else(|| self.geometric_means(&tasks))
    }
}

/// The values of one metric of a run, both without and with the dropped rounds.
#[derive(Debug, Clone)]
pub struct MetricSeries {
    /// The values without the dropped rounds.
    pub grid: Grid,
    /// The rounds that were dropped for all variants, ascending.
    pub dropped: Vec<u32>,
    /// The values with the dropped rounds; None if no round was dropped.
    pub with_dropped: Option<Grid>,
    /// The number of runs among which the error probability of one answer is split.
    pub error_split: usize,
}

impl MetricSeries {
    /// Collects the values of a metric or reading.
    ///
    /// # Errors
    /// The run has no metric of this name.
    pub fn of(record: &RunRecord, metric: &str) -> Result<MetricSeries, UnknownName> {
        let grid = Grid::find(record, metric)?;
        let dropped: Vec<u32> = dropped_rounds(record).into_iter().collect();
        let with_dropped =
            if dropped.is_empty() { None } else { Grid::without_rounds(record, metric, &warmup_rounds(record)) };
        Ok(MetricSeries { grid, dropped, with_dropped, error_split: record.plan.error_split() })
    }
}

/// The definition of a metric and its values over all comparable tasks together; see [`Grid::combined`].
///
/// # Errors
/// The run has no metric of this name.
pub fn combine_tasks(record: &RunRecord, metric: &str) -> Result<(MetricSpec, VariantValues), UnknownName> {
    let grid = Grid::find(record, metric)?;
    let values = grid.combined();
    Ok((grid.metric, values))
}

/// Applies `fold` to the values of some tasks in each round: `[variant][round]`. A missing task is NaN, and `fold` must return
/// NaN if any value is NaN.
fn combine(
    values: &[VariantValues],
    tasks: &[usize],
    fold: impl Fn(&mut dyn Iterator<Item = f64>) -> f64,
) -> VariantValues {
    let Some(first) = tasks.first() else { return vec![] };
    let mut combined = vec![];
    for (variant, rounds) in values[*first].iter().enumerate() {
        let value = |round: usize| fold(&mut tasks.iter().map(|task| values[*task][variant][round]));
        combined.push((0..rounds.len()).map(value).collect());
    }
    combined
}

/// The numerator and denominator of a metric that is a quotient; None for other metrics, or if the run lacks one of them.
fn quotient_parts(
    record: &RunRecord,
    metric: &MetricSpec,
    excluded_rounds: &BTreeSet<u32>,
) -> Option<[QuotientPart; 2]> {
    let part = |id: &str| {
        let (spec, rows) = record.metric(id)?;
        let values = values_by_task(record, &rows, excluded_rounds);
        Some(QuotientPart { values, fold: spec.over.tasks, unit: spec.unit })
    };
    let [numerator, denominator] = metric.quotient_of.as_ref()?;
    Some([part(numerator)?, part(denominator)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Direction, FoldRules};

    const MISSING: f64 = f64::NAN;

    fn grid(values: Vec<VariantValues>, fold: Fold) -> Grid {
        let metric = MetricSpec::new("x".into(), Unit::Seconds, Direction::Lower, String::new());
        let over = FoldRules { tasks: fold, ..metric.over };
        Grid {
            metric: MetricSpec { over, ..metric },
            tasks: vec![],
            rounds: vec![],
            values,
            excluded: BTreeMap::new(),
            incomparable: BTreeSet::new(),
            references: vec![],
            quotient_parts: None,
            ungrouped: None,
        }
    }

    #[test]
    fn totals_and_means_exist_only_for_rounds_with_every_task() {
        // Two tasks, two variants, three rounds; variant 1 lacks a task in round 1 and everything in round 2.
        let first = vec![vec![1.0, 1.0, 1.0], vec![2.0, 2.0, MISSING]];
        let second = vec![vec![4.0, 9.0, 16.0], vec![8.0, MISSING, MISSING]];
        let grid = grid(vec![first, second], Fold::Sum);
        let totals = grid.totals(&[0, 1]).unwrap();
        assert_eq!((&totals[0][..], totals[1][0]), (&[5.0, 10.0, 17.0][..], 10.0));
        assert!(totals[1][1].is_nan() && totals[1][2].is_nan());
        let means = grid.geometric_means(&[0, 1]);
        assert!((means[0][1] - 3.0).abs() < 1e-12 && (means[1][0] - 4.0).abs() < 1e-12);
        assert!(grid.geometric_means(&[]).is_empty());
    }

    #[test]
    fn a_value_of_zero_has_no_geometric_mean() {
        let grid = grid(vec![vec![vec![0.0, 1.0]]], Fold::Sum);
        assert!(grid.geometric_means(&[0])[0][0].is_nan());
        assert_eq!(grid.totals(&[0]).unwrap()[0][0], 0.0);
    }

    #[test]
    fn a_total_combines_tasks_as_the_metric_declares() {
        let values = vec![vec![vec![1.0, 2.0]], vec![vec![5.0, MISSING]]];
        let total = |fold| grid(values.clone(), fold).totals(&[0, 1]).map(|totals| totals[0][0]);
        let all = [Fold::Sum, Fold::Max, Fold::Min, Fold::Mean, Fold::None, Fold::Rate].map(total);
        assert_eq!(all, [Some(6.0), Some(5.0), Some(1.0), Some(3.0), None, None]);
        assert!(grid(values, Fold::Max).totals(&[0, 1]).unwrap()[0][1].is_nan());
    }
}
