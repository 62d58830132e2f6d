//! The values of a run by task, variant and round, and the rounds and variants that comparisons use.

use crate::average::mean;
use crate::event::NoteKind;
use crate::metric;
use crate::record::RunRecord;
use crate::sample::{Fold, Unit};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Values by variant and round, `[variant][round]`; NaN for a missing value.
pub type VariantValues = Vec<Vec<f64>>;

/// Arranges `rows`, the values of one metric by sample, by task, variant and round: `[task][variant][column]`, without
/// `excluded_rounds`. A variant can have several values for a task in one round (workloads that share a task, or repeats
/// on one mkfs); their mean is the value.
pub fn values_by_task(record: &RunRecord, rows: &[f64], excluded_rounds: &BTreeSet<u32>) -> Vec<VariantValues> {
    let rounds = rounds(record, excluded_rounds);
    let of_task = vec![vec![f64::NAN; rounds.len()]; record.variants.len()];
    let values = vec![of_task; record.tasks.len()];
    place_values(record, rows, &rounds, values, |values, (task, variant, column)| &mut values[task][variant][column])
}

/// The same values as [`values_by_task`], but one flat list per variant with index `column * tasks + task`. Samples are stored
/// in this order, so filling the list is much faster.
pub(super) fn values_by_round(record: &RunRecord, rows: &[f64], excluded_rounds: &BTreeSet<u32>) -> VariantValues {
    let (rounds, tasks) = (rounds(record, excluded_rounds), record.tasks.len());
    let values = vec![vec![f64::NAN; rounds.len() * tasks]; record.variants.len()];
    place_values(record, rows, &rounds, values, |values, (task, variant, column)| {
        &mut values[variant][column * tasks + task]
    })
}

/// The indices of a task, a variant and a column.
type ValueIndex = (usize, usize, usize);

/// Writes each value that is not NaN to the slot of its task, variant and round. Several values of one slot become their mean.
fn place_values<V>(
    record: &RunRecord,
    rows: &[f64],
    rounds: &[u32],
    mut values: V,
    slot: impl Fn(&mut V, ValueIndex) -> &mut f64,
) -> V {
    // Computed once for each cell, because a cell has many samples.
    let variant_and_column: Vec<(usize, Option<usize>)> =
        record.cells.iter().map(|cell| (cell.variant, rounds.binary_search(&cell.round).ok())).collect();
    // The number of values in each slot that has more than one.
    let mut counts: BTreeMap<ValueIndex, f64> = BTreeMap::new();
    for ((cell, task), value) in record.samples.cell.iter().zip(&record.samples.task).zip(rows) {
        let (variant, Some(column)) = variant_and_column[*cell as usize] else { continue };
        if value.is_nan() {
            continue;
        }
        let index = (*task as usize, variant, column);
        let slot = slot(&mut values, index);
        if slot.is_nan() {
            *slot = *value;
        } else {
            let count = counts.entry(index).or_insert(1.0);
            *count += 1.0;
            *slot += (value - *slot) / *count;
        }
    }
    values
}

/// The indices of the variants that are the bare device.
pub fn bare_devices(record: &RunRecord) -> Vec<usize> {
    let variants = record.variants.iter().enumerate();
    variants.filter(|(_, variant)| variant.is_bare_device()).map(|(index, _)| index).collect()
}

/// The rounds of a run that have at least one cell, ascending, without `excluded_rounds`.
pub fn rounds(record: &RunRecord, excluded_rounds: &BTreeSet<u32>) -> Vec<u32> {
    let measured: BTreeSet<u32> = record.cells.iter().map(|cell| cell.round).collect();
    measured.difference(excluded_rounds).copied().collect()
}

/// Whether any variant of a task has a value in any round.
pub fn has_data(values: &[Vec<f64>]) -> bool {
    values.iter().flatten().any(|value| !value.is_nan())
}

/// The rounds that no comparison uses: the warm-up rounds and the dropped rounds.
pub fn rounds_left_out(record: &RunRecord) -> BTreeSet<u32> {
    &warmup_rounds(record) | &dropped_rounds(record)
}

/// The warm-up rounds.
pub(super) fn warmup_rounds(record: &RunRecord) -> BTreeSet<u32> {
    (0..record.plan.stop.warmup).collect()
}

/// The rounds after the warm-up that were dropped for all variants.
pub fn dropped_rounds(record: &RunRecord) -> BTreeSet<u32> {
    let dropped = record.notes_of(NoteKind::Dropped).filter_map(|(round, _)| round);
    dropped.filter(|round| *round >= record.plan.stop.warmup).collect()
}

/// For each of these rounds, the variants in the order in which they ran.
pub fn variant_orders(record: &RunRecord, rounds: &[u32]) -> Vec<Vec<usize>> {
    let mut by_position: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); rounds.len()];
    for cell in &record.cells {
        if let Ok(column) = rounds.binary_search(&cell.round) {
            by_position[column].insert(cell.position, cell.variant);
        }
    }
    let mut orders = vec![];
    for variants in by_position {
        let mut order: Vec<usize> = variants.into_values().collect();
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
    /// The mean of its values in each round; NaN for a round without values.
    pub values: Vec<f64>,
}

/// Every raw reading of one task and variant in these rounds.
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
        let mean_of_round = |round: &u32| {
            let values = rows.get(round).into_iter().flatten().map(|row| column[*row]);
            mean(values.filter(|value| !value.is_nan()))
        };
        let values = rounds.iter().map(mean_of_round).collect();
        series.push(ReadingSeries { id: reading.id.clone(), unit: reading.unit, values });
    }
    series
}

/// A metric or reading, combined over all tasks of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadingTotal {
    /// Its name.
    pub id: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// How the values of several tasks were combined; [`Fold::Sum`] for a metric that is computed from readings.
    pub fold: Fold,
    /// For each variant, one value for each round that has all tasks.
    pub values: VariantValues,
}

/// The totals of these metrics and readings. Leaves out a metric if no round has all its tasks.
pub fn reading_totals(record: &RunRecord, ids: &[&'static str]) -> Vec<ReadingTotal> {
    let combiner = ReadingCombiner { record, excluded_rounds: rounds_left_out(record), cache: RefCell::default() };
    ids.iter().filter_map(|id| combiner.total(id)).collect()
}

/// A reading combined over the tasks of each round; NaN if the round lacks a task. None if no task has the reading, or it
/// has no total.
type CombinedReading = Option<VariantValues>;

/// Combines readings over the tasks of each round. It caches the results, because several metrics use the same reading.
struct ReadingCombiner<'a> {
    record: &'a RunRecord,
    excluded_rounds: BTreeSet<u32>,
    cache: RefCell<BTreeMap<String, CombinedReading>>,
}

impl ReadingCombiner<'_> {
    /// The total of a metric or reading; None if the run lacks it or no round has all its tasks.
    fn total(&self, id: &'static str) -> Option<ReadingTotal> {
        let reading = self.record.reading_column(id).map(|column| &self.record.readings[column]);
        let formula = if reading.is_some() { None } else { metric::find(id) };
        let unit = reading.map(|reading| reading.unit).or(formula.map(|metric| metric.spec.unit))?;
        let fold = reading.map_or(Fold::Sum, |reading| reading.over.tasks);
        let rounds = rounds(self.record, &self.excluded_rounds).len();
        let mut values: VariantValues = vec![];
        for variant in 0..self.record.variants.len() {
            let value = |round| match formula {
                Some(metric) => (metric.formula)(&|reading| self.combined_value(reading, variant, round)),
                None => self.combined_value(id, variant, round),
            };
            values.push((0..rounds).filter_map(value).collect());
        }
        let has_values = values.iter().any(|rounds| !rounds.is_empty());
        has_values.then_some(ReadingTotal { id, unit, fold, values })
    }

    /// The combined value of a reading in one round; None if the round lacks a task.
    fn combined_value(&self, reading: &str, variant: usize, round: usize) -> Option<f64> {
        let mut cache = self.cache.borrow_mut();
        let combined = cache.entry(reading.into()).or_insert_with(|| self.combine_tasks_of(reading));
        combined.as_ref().map(|variants| variants[variant][round]).filter(|value| !value.is_nan())
    }

    /// Combines a reading over the tasks of each round, in the way that the reading defines.
    fn combine_tasks_of(&self, reading: &str) -> CombinedReading {
        let record = self.record;
        let column = record.reading_column(reading)?;
        let fold = record.readings[column].over.tasks;
        fold.total_name()?;
        let variants = values_by_round(record, &record.samples.values[column], &self.excluded_rounds);
        let tasks_per_round = record.tasks.len().max(1);
        let has_values = |task: usize| {
            variants.iter().flat_map(|variant| variant.chunks(tasks_per_round)).any(|round| !round[task].is_nan())
        };
        let is_included = |task: &usize| record.tasks[*task].in_totals && has_values(*task);
        let tasks: Vec<usize> = (0..record.tasks.len()).filter(is_included).collect();
        if tasks.is_empty() {
            return None;
        }
        // A task that the variant did not do is NaN, and makes the result NaN.
        let combine_round = |round: &[f64]| fold.combine(tasks.iter().map(|task| round[*task])).unwrap_or(f64::NAN);
        Some(variants.iter().map(|variant| variant.chunks(tasks_per_round).map(combine_round).collect()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CellRecord, SampleTable};
    use crate::sample::{Direction, MetricSpec};

    #[test]
    fn a_reading_that_one_of_two_samples_lacks_has_the_value_of_the_other() {
        let mut record = RunRecord::default();
        record.define_reading(MetricSpec::new("x_count".into(), Unit::Count, Direction::Neutral, String::new()));
        for round in 0..2 {
            record.cells.push(CellRecord::done(round, 0));
        }
        // Round 0 has three samples of the task, and round 1 has one without the reading.
        let values = vec![vec![2.0, f64::NAN, 4.0, f64::NAN]];
        record.samples = SampleTable { cell: vec![0, 0, 0, 1], task: vec![0; 4], started_at: vec![0.0; 4], values };
        let series = reading_series(&record, 0, 0, &[0, 1]);
        assert_eq!(series[0].values[0], 3.0);
        assert!(series[0].values[1].is_nan());
    }
}
