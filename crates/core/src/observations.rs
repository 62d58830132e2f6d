//! The adapter from a stored run to statistics: values by task, variant and round.
//!
//! Statistics know no [`RunRecord`]. Whatever they compute from a run, they get from here: a [`Grid`] for each metric, and a
//! [`ClaimSeries`] for each claim.

mod claims;
mod totals;
mod validity;

pub use claims::{ClaimSeries, ComparedSeries, Rival, claim_series, claim_series_among};
pub use totals::{ReadingTotal, reading_totals};
pub use validity::{InvalidReason, invalid_figures, invalid_reason, never_steady};

use crate::cell::TaskInfo;
use crate::event::NoteKind;
use crate::names::{Unknown, unknown};
use crate::record::{MetricSpec, RunRecord};
use crate::sample::{Fold, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// Values by variant and round, `[variant][round]`; NaN where there is none.
pub type VariantValues = Vec<Vec<f64>>;

/// The values of one metric of a run, by task, variant and round.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The metric.
    pub metric: MetricSpec,
    /// The tasks of the run.
    pub tasks: Vec<TaskInfo>,
    /// The rounds that the columns stand for, ascending.
    pub rounds: Vec<u32>,
    /// `values[task][variant][column]`; NaN where there is none.
    pub values: Vec<VariantValues>,
    /// The tasks that rank no variant, because one of their figures did not measure what the task claims.
    pub excluded: BTreeMap<usize, InvalidReason>,
    /// The tasks whose figures do not combine with those of the others: reads beside commits.
    pub apart: BTreeSet<usize>,
    /// The variants that are the bare device: a reference for the others.
    pub references: Vec<usize>,
    /// Numerator and denominator of a metric that is a quotient.
    parts: Option<[QuotientPart; 2]>,
}

/// The numerator or the denominator of a metric, from which its totals are computed.
#[derive(Debug, Clone, PartialEq)]
struct QuotientPart {
    values: Vec<VariantValues>,
    fold: Fold,
    unit: Unit,
}

impl Grid {
    /// The values of a metric or reading, without warm-up rounds and dropped rounds. None if the run has no metric of this
    /// name.
    pub fn of(record: &RunRecord, metric: &str) -> Option<Grid> {
        Grid::without(record, metric, &left_out(record))
    }

    /// The same as [`Grid::of`], with an error that proposes a name.
    ///
    /// # Errors
    /// The run has no metric of this name.
    pub fn find(record: &RunRecord, metric: &str) -> Result<Grid, Unknown> {
        Grid::of(record, metric).ok_or_else(|| {
            unknown("metric", metric, record.metric_ids())
                .at(format!("in run {}", record.id))
                .list("fsarena list metrics")
        })
    }

    /// The values of a metric or reading without these rounds. Excludes the tasks of which a figure is invalid, for all
    /// variants, so that every sum has the same tasks. Invalid figures of a bare device exclude nothing. None if the run has
    /// no metric of this name.
    pub fn without(record: &RunRecord, metric: &str, leave_out: &BTreeSet<u32>) -> Option<Grid> {
        let (spec, rows) = record.metric(metric)?;
        let values = values_by_task(record, &rows, leave_out);
        let references = references(record);
        let mut excluded = BTreeMap::new();
        for ((task, variant), reason) in invalid_figures(record, metric) {
            if !references.contains(&variant) {
                excluded.insert(task, reason);
            }
        }
        Some(Grid {
            apart: validity::tasks_apart(record, &spec, &values),
            parts: quotient_parts(record, &spec, leave_out),
            metric: spec,
            tasks: record.tasks.clone(),
            rounds: rounds(record, leave_out),
            values,
            excluded,
            references,
        })
    }

    /// The tasks in the totals that have data, may rank and combine.
    pub fn comparable_tasks(&self) -> Vec<usize> {
        let comparable = |task: &usize| {
            self.tasks[*task].in_totals
                && has_data(&self.values[*task])
                && !self.excluded.contains_key(task)
                && !self.apart.contains(task)
        };
        (0..self.tasks.len()).filter(comparable).collect()
    }

    /// The total of the metric over some tasks, `totals[variant][round]`: their sum, the largest or the like as the metric
    /// defines, and for a quotient the total of the numerator divided by that of the denominator. NaN where the round lacks
    /// a task; None where the metric has no total.
    pub fn totals(&self, tasks: &[usize]) -> Option<VariantValues> {
        let of_tasks = |values: &[VariantValues], fold: Fold| {
            fold.name()?;
            Some(combine(values, tasks, |values| fold.of(values).unwrap_or(f64::NAN)))
        };
        if self.metric.of.is_none() {
            return of_tasks(&self.values, self.metric.over.tasks);
        }
        let [above, below] = self.parts.as_ref()?;
        let mut totals = of_tasks(&above.values, above.fold)?;
        let denominators = of_tasks(&below.values, below.fold)?;
        for (totals, denominators) in totals.iter_mut().zip(&denominators) {
            for (total, denominator) in totals.iter_mut().zip(denominators) {
                let quotient = self.metric.quotient([(*total, above.unit), (*denominator, below.unit)]);
                *total = quotient.unwrap_or(f64::NAN);
            }
        }
        Some(totals)
    }

    /// The geometric mean over some tasks, `means[variant][round]`: each task has the same weight, however long it takes. NaN
    /// where the round lacks a task, or has a value of zero or less, which has no logarithm.
    pub fn geometric_means(&self, tasks: &[usize]) -> VariantValues {
        let weight = 1.0 / tasks.len() as f64;
        let log = |value: f64| if value > 0.0 { value.ln() } else { f64::NAN };
        combine(&self.values, tasks, |values| (values.map(log).sum::<f64>() * weight).exp())
    }

    /// The values that the answer is about: the totals over the comparable tasks, or their geometric means if the metric has
    /// no total.
    pub fn combined(&self) -> VariantValues {
        let tasks = self.comparable_tasks();
        self.totals(&tasks).unwrap_or_else(|| self.geometric_means(&tasks))
    }
}

/// One metric of a run as the analysis compares it: without dropped rounds, and with them.
#[derive(Debug, Clone)]
pub struct MetricSeries {
    /// Its values.
    pub grid: Grid,
    /// The rounds that were dropped as a whole, ascending.
    pub dropped: Vec<u32>,
    /// The values with the dropped rounds; None if no round was dropped.
    pub with_dropped: Option<Grid>,
    /// The number of runs among which the error probability of one answer is split.
    pub error_split: usize,
}

impl MetricSeries {
    /// The values of a metric or reading.
    ///
    /// # Errors
    /// The run has no metric of this name.
    pub fn of(record: &RunRecord, metric: &str) -> Result<MetricSeries, Unknown> {
        let grid = Grid::find(record, metric)?;
        let dropped: Vec<u32> = dropped(record).into_iter().collect();
        let with_dropped =
            if dropped.is_empty() { None } else { Grid::without(record, metric, &warmup(record)) };
        Ok(MetricSeries { grid, dropped, with_dropped, error_split: record.plan.error_split() })
    }
}

/// The definition of a metric and its values over all comparable tasks together; see [`Grid::combined`].
///
/// # Errors
/// The run has no metric of this name.
pub fn combine_tasks(record: &RunRecord, metric: &str) -> Result<(MetricSpec, VariantValues), Unknown> {
    let grid = Grid::find(record, metric)?;
    let values = grid.combined();
    Ok((grid.metric, values))
}

/// Sorts one value a row by task, variant and round, without some rounds: `[task][variant][column]`. Several values of one
/// task in one round of a variant (workloads that share a task, or repeats on one mkfs) are one observation: their mean.
pub fn values_by_task(record: &RunRecord, rows: &[f64], leave_out: &BTreeSet<u32>) -> Vec<VariantValues> {
    let rounds = rounds(record, leave_out);
    let empty = vec![vec![f64::NAN; rounds.len()]; record.variants.len()];
    let empty = vec![empty; record.tasks.len()];
    spread(record, rows, &rounds, empty, |values, (task, variant, column)| &mut values[task][variant][column])
}

/// The same values as [`values_by_task`], for each variant one column behind the other, with every task in it: the order in
/// which rows come, so that it takes far less time.
fn values_by_round(record: &RunRecord, rows: &[f64], leave_out: &BTreeSet<u32>) -> VariantValues {
    let (rounds, tasks) = (rounds(record, leave_out), record.tasks.len());
    let empty = vec![vec![f64::NAN; rounds.len() * tasks]; record.variants.len()];
    spread(record, rows, &rounds, empty, |values, (task, variant, column)| {
        &mut values[variant][column * tasks + task]
    })
}

/// A task, a variant and a column.
type Place = (usize, usize, usize);

/// Puts the values that exist into their places among these rounds. Several values of one place become their mean.
fn spread<V>(
    record: &RunRecord,
    rows: &[f64],
    rounds: &[u32],
    mut values: V,
    slot: impl Fn(&mut V, Place) -> &mut f64,
) -> V {
    // There are far more rows than cells.
    let of_cell: Vec<(usize, Option<usize>)> =
        record.cells.iter().map(|cell| (cell.variant, rounds.binary_search(&cell.round).ok())).collect();
    // The number of values of each place that has more than one.
    let mut counts: BTreeMap<Place, f64> = BTreeMap::new();
    for ((cell, task), value) in record.samples.cell.iter().zip(&record.samples.task).zip(rows) {
        let (variant, Some(column)) = of_cell[*cell as usize] else { continue };
        if value.is_nan() {
            continue;
        }
        let place = (*task as usize, variant, column);
        let slot = slot(&mut values, place);
        if slot.is_nan() {
            *slot = *value;
        } else {
            let count = counts.entry(place).or_insert(1.0);
            *count += 1.0;
            *slot += (value - *slot) / *count;
        }
    }
    values
}

/// Applies `of` to the values of some tasks in each round, `[variant][round]`. A missing task is NaN, which every `of` passes
/// on.
fn combine(
    values: &[VariantValues],
    tasks: &[usize],
    of: impl Fn(&mut dyn Iterator<Item = f64>) -> f64,
) -> VariantValues {
    let Some(first) = tasks.first() else { return vec![] };
    let mut combined = vec![];
    for (variant, rounds) in values[*first].iter().enumerate() {
        let value = |round: usize| of(&mut tasks.iter().map(|task| values[*task][variant][round]));
        combined.push((0..rounds.len()).map(value).collect());
    }
    combined
}

fn quotient_parts(
    record: &RunRecord,
    metric: &MetricSpec,
    leave_out: &BTreeSet<u32>,
) -> Option<[QuotientPart; 2]> {
    let part = |id: &str| {
        let (spec, rows) = record.metric(id)?;
        let values = values_by_task(record, &rows, leave_out);
        Some(QuotientPart { values, fold: spec.over.tasks, unit: spec.unit })
    };
    let [numerator, denominator] = metric.of.as_ref()?;
    Some([part(numerator)?, part(denominator)?])
}

/// The variants that are the bare device.
pub fn references(record: &RunRecord) -> Vec<usize> {
    let variants = record.variants.iter().enumerate();
    variants.filter(|(_, variant)| variant.is_bare_device()).map(|(at, _)| at).collect()
}

/// The rounds that a run has begun, ascending, without those to leave out.
pub fn rounds(record: &RunRecord, leave_out: &BTreeSet<u32>) -> Vec<u32> {
    let begun: BTreeSet<u32> = record.cells.iter().map(|cell| cell.round).collect();
    begun.difference(leave_out).copied().collect()
}

/// Whether any variant of a task has a value in any round.
pub fn has_data(values: &[Vec<f64>]) -> bool {
    values.iter().flatten().any(|value| !value.is_nan())
}

/// The rounds that belong to no comparison: warm-up rounds and dropped rounds.
pub fn left_out(record: &RunRecord) -> BTreeSet<u32> {
    &warmup(record) | &dropped(record)
}

/// The warm-up rounds.
fn warmup(record: &RunRecord) -> BTreeSet<u32> {
    (0..record.plan.stop.warmup).collect()
}

/// The rounds after the warm-up that were dropped as a whole.
pub fn dropped(record: &RunRecord) -> BTreeSet<u32> {
    let dropped = record.notes_of(NoteKind::Dropped).filter_map(|(round, _)| round);
    dropped.filter(|round| *round >= record.plan.stop.warmup).collect()
}

/// The variants of each of these rounds, in the order in which they ran.
pub fn orders(record: &RunRecord, rounds: &[u32]) -> Vec<Vec<usize>> {
    let mut places: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); rounds.len()];
    for cell in &record.cells {
        if let Ok(column) = rounds.binary_search(&cell.round) {
            places[column].insert(cell.position, cell.variant);
        }
    }
    let mut orders = vec![];
    for places in places {
        let mut order: Vec<usize> = places.into_values().collect();
        order.dedup(); // cells of several workloads
        orders.push(order);
    }
    orders
}

/// A raw reading of one task and variant, by round.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadingSeries {
    /// Its name.
    pub id: String,
    /// Its unit.
    pub unit: Unit,
    /// The mean of its values in each round; NaN where there is none.
    pub values: Vec<f64>,
}

/// Every raw reading of one task and variant in some rounds.
pub fn reading_series(record: &RunRecord, task: usize, variant: usize, rounds: &[u32]) -> Vec<ReadingSeries> {
    let samples = &record.samples;
    let mut rows: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for row in (0..samples.len()).filter(|row| samples.task[*row] as usize == task) {
        let cell = &record.cells[samples.cell[row] as usize];
        if cell.variant == variant {
            rows.entry(cell.round).or_default().push(row);
        }
    }
    let mut series = vec![];
    for (reading, column) in record.readings.iter().zip(&samples.values) {
        let mean = |round: &u32| {
            let rows = rows.get(round).map_or(&[][..], Vec::as_slice);
            let sum = rows.iter().fold(0.0, |sum, row| sum + column[*row]);
            sum / rows.len() as f64
        };
        let values = rounds.iter().map(mean).collect();
        series.push(ReadingSeries { id: reading.id.clone(), unit: reading.unit, values });
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Direction, Over};

    const GONE: f64 = f64::NAN;

    fn grid(values: Vec<VariantValues>, fold: Fold) -> Grid {
        let metric = MetricSpec::new("x".into(), Unit::Seconds, Direction::Lower, String::new());
        let over = Over { tasks: fold, ..metric.over };
        Grid {
            metric: MetricSpec { over, ..metric },
            tasks: vec![],
            rounds: vec![],
            values,
            excluded: BTreeMap::new(),
            apart: BTreeSet::new(),
            references: vec![],
            parts: None,
        }
    }

    #[test]
    fn totals_and_means_exist_only_for_rounds_with_every_task() {
        // Two tasks, two variants, three rounds; variant 1 lacks a task in round 1 and everything in round 2.
        let first = vec![vec![1.0, 1.0, 1.0], vec![2.0, 2.0, GONE]];
        let second = vec![vec![4.0, 9.0, 16.0], vec![8.0, GONE, GONE]];
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
        let values = vec![vec![vec![1.0, 2.0]], vec![vec![5.0, GONE]]];
        let total = |fold| grid(values.clone(), fold).totals(&[0, 1]).map(|totals| totals[0][0]);
        let all = [Fold::Sum, Fold::Max, Fold::Min, Fold::Mean, Fold::None, Fold::Rate].map(total);
        assert_eq!(all, [Some(6.0), Some(5.0), Some(1.0), Some(3.0), None, None]);
        assert!(grid(values, Fold::Max).totals(&[0, 1]).unwrap()[0][1].is_nan());
    }
}
