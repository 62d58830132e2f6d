//! The totals of metrics and readings over all tasks of a round.

use super::values::{VariantValues, left_out, rounds, values_by_round};
use crate::metric;
use crate::record::RunRecord;
use crate::sample::{Fold, Unit};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

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
    let sums = ReadingSums { record, leave_out: left_out(record), known: RefCell::default() };
    ids.iter().filter_map(|id| sums.total(id)).collect()
}

/// The combined values of a reading; NaN if the round lacks a task. None if no task has the reading, or it has no total.
type Sums = Option<VariantValues>;

/// Computes and caches the sums of readings, because several metrics use the same reading.
struct ReadingSums<'a> {
    record: &'a RunRecord,
    leave_out: BTreeSet<u32>,
    known: RefCell<BTreeMap<String, Sums>>,
}

impl ReadingSums<'_> {
    fn total(&self, id: &'static str) -> Option<ReadingTotal> {
        let reading = self.record.reading(id).map(|column| &self.record.readings[column]);
        let formula = if reading.is_some() { None } else { metric::find(id) };
        let unit = reading.map(|reading| reading.unit).or(formula.map(|metric| metric.spec.unit))?;
        let fold = reading.map_or(Fold::Sum, |reading| reading.over.tasks);
        let rounds = rounds(self.record, &self.leave_out).len();
        let mut values: VariantValues = vec![];
        for variant in 0..self.record.variants.len() {
            let value = |round| match formula {
                Some(metric) => (metric.from)(&|reading| self.sum(reading, variant, round)),
                None => self.sum(id, variant, round),
            };
            values.push((0..rounds).filter_map(value).collect());
        }
        let known = values.iter().any(|rounds| !rounds.is_empty());
        known.then_some(ReadingTotal { id, unit, fold, values })
    }

    fn sum(&self, reading: &str, variant: usize, round: usize) -> Option<f64> {
        let mut known = self.known.borrow_mut();
        let sums = known.entry(reading.into()).or_insert_with(|| self.sums(reading));
        sums.as_ref().map(|variants| variants[variant][round]).filter(|sum| !sum.is_nan())
    }

    /// Combines a reading over the tasks of each round, in the way that the reading defines.
    fn sums(&self, reading: &str) -> Sums {
        let record = self.record;
        let column = record.reading(reading)?;
        let fold = record.readings[column].over.tasks;
        fold.name()?;
        let variants = values_by_round(record, &record.samples.values[column], &self.leave_out);
        let count = record.tasks.len().max(1);
        let has_values = |task: usize| {
            variants.iter().flat_map(|variant| variant.chunks(count)).any(|round| !round[task].is_nan())
        };
        let in_totals = |task: &usize| record.tasks[*task].in_totals && has_values(*task);
        let tasks: Vec<usize> = (0..record.tasks.len()).filter(in_totals).collect();
        if tasks.is_empty() {
            return None;
        }
        // A task that the variant did not do is NaN, and makes the result NaN.
        let folded = |round: &[f64]| fold.of(tasks.iter().map(|task| round[*task])).unwrap_or(f64::NAN);
        Some(variants.iter().map(|variant| variant.chunks(count).map(folded).collect()).collect())
    }
}
