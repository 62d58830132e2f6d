//! The totals of metrics over all tasks of a round.

use crate::grid::{by_round, left_out, rounds};
use fsarena_core::sample::{Fold, Unit};
use fsarena_core::{metric, record::RunRecord};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A metric or reading, combined over all tasks of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// Its name.
    pub id: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// How it combines tasks. A metric that is derived by a formula is computed from the sums of the readings.
    pub fold: Fold,
    /// For each variant, the values of the rounds that have all tasks.
    pub values: Vec<Vec<f64>>,
}

/// The totals of metrics and readings; those that no round has are left out.
pub fn of(record: &RunRecord, ids: &[&'static str]) -> Vec<Total> {
    let leave_out = left_out(record);
    let rounds = rounds(record, &leave_out).len();
    // The sums of readings that several metrics use are computed once.
    let cache: RefCell<BTreeMap<String, Sums>> = RefCell::default();
    let sum = |reading: &str, variant: usize, round: usize| {
        let mut cache = cache.borrow_mut();
        let sums = cache.entry(reading.into()).or_insert_with(|| sums(record, reading, &leave_out));
        sums.as_ref().map(|variants| variants[variant][round]).filter(|sum| !sum.is_nan())
    };
    let total = |id: &&'static str| {
        let own = record.reading(id).map(|column| &record.readings[column]);
        let def = if own.is_some() { None } else { metric::find(id) };
        let unit = own.map(|own| own.unit).or(def.map(|def| def.spec.unit))?;
        let fold = own.map_or(Fold::Sum, |own| own.over.tasks);
        let value = |variant, round| match def {
            Some(def) => (def.from)(&|name| sum(name, variant, round)),
            None => sum(id, variant, round),
        };
        let of_variant = |variant| (0..rounds).filter_map(|round| value(variant, round)).collect();
        let values: Vec<Vec<f64>> = (0..record.variants.len()).map(of_variant).collect();
        values.iter().any(|rounds| !rounds.is_empty()).then_some(Total { id, unit, fold, values })
    };
    ids.iter().filter_map(total).collect()
}

/// The combined values of a reading, `[variant][round]`: NaN where the round lacks a task. None where no task has the
/// reading, or it has no total.
type Sums = Option<Vec<Vec<f64>>>;

/// Combines a reading over the tasks of each round, in the way that the reading defines.
fn sums(record: &RunRecord, reading: &str, leave_out: &BTreeSet<u32>) -> Sums {
    let column = record.reading(reading)?;
    let (rows, fold) = (&record.samples.values[column], record.readings[column].over.tasks);
    fold.name()?;
    let variants = by_round(record, rows, leave_out);
    let count = record.tasks.len().max(1);
    let has_values = |task: usize| {
        variants.iter().flat_map(|variant| variant.chunks(count)).any(|round| !round[task].is_nan())
    };
    let tasks = record.tasks.iter().enumerate().filter(|(at, task)| task.in_totals && has_values(*at));
    let tasks: Vec<usize> = tasks.map(|(at, _)| at).collect();
    let of_variant =
        |variant: &Vec<f64>| variant.chunks(count).map(|round| fold_tasks(fold, round, &tasks)).collect();
    (!tasks.is_empty()).then(|| variants.iter().map(of_variant).collect())
}

/// Combines the values of some tasks of a round. A task that the variant did not do is NaN, and makes the result NaN.
fn fold_tasks(fold: Fold, round: &[f64], tasks: &[usize]) -> f64 {
    fold.of(tasks.iter().map(|task| round[*task])).unwrap_or(f64::NAN)
}
