//! Metrics summed over the tasks of a round.

use crate::grid::{by_round, left_out, rounds};
use fsarena_core::metric::{self, reading::PEAK_MEMORY};
use fsarena_core::{record::RunRecord, sample::Unit};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A metric or reading, summed over the tasks of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// Its name.
    pub id: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// For each variant, its value in every round in which the variant did all tasks.
    pub values: Vec<Vec<f64>>,
}

/// The totals of these metrics and readings; those that no round has are left out.
pub fn of(record: &RunRecord, ids: &[&'static str]) -> Vec<Total> {
    let leave_out = left_out(record);
    let rounds = rounds(record, &leave_out).len();
    let known: RefCell<BTreeMap<String, Sums>> = RefCell::default();
    let sum = |reading: &str, variant: usize, round: usize| {
        let mut known = known.borrow_mut();
        let sums = known.entry(reading.into()).or_insert_with(|| sums(record, reading, &leave_out));
        sums.as_ref().map(|variants| variants[variant][round]).filter(|sum| !sum.is_nan())
    };
    let total = |id: &&'static str| {
        let own = record.reading(id).map(|column| record.readings[column].unit);
        let def = if own.is_some() { None } else { metric::find(id) };
        let unit = own.or(def.map(|def| def.unit))?;
        let value = |variant, round| match def {
            Some(def) => (def.from)(&|name| sum(name, variant, round)),
            None => sum(id, variant, round),
        };
        let of_variant = |variant| (0..rounds).filter_map(|round| value(variant, round)).collect();
        let values: Vec<Vec<f64>> = (0..record.variants.len()).map(of_variant).collect();
        values.iter().any(|rounds| !rounds.is_empty()).then_some(Total { id, unit, values })
    };
    ids.iter().filter_map(total).collect()
}

/// A reading summed over the tasks of each round, `[variant][round]`: NaN where the variant did not do all tasks of the round;
/// none where no task has it.
type Sums = Option<Vec<Vec<f64>>>;

fn sums(record: &RunRecord, reading: &str, leave_out: &BTreeSet<u32>) -> Sums {
    let rows = &record.samples.values[record.reading(reading)?];
    let variants = by_round(record, rows, leave_out);
    let count = record.tasks.len().max(1);
    let done =
        |task: usize| variants.iter().flat_map(|variant| variant.chunks(count)).any(|of| !of[task].is_nan());
    let tasks = record.tasks.iter().enumerate().filter(|(at, task)| task.in_totals && done(*at));
    let tasks: Vec<usize> = tasks.map(|(at, _)| at).collect();
    let of_variant =
        |variant: &Vec<f64>| variant.chunks(count).map(|round| sum(reading, round, &tasks)).collect();
    (!tasks.is_empty()).then(|| variants.iter().map(of_variant).collect())
}

/// NaN marks a task that the variant did not do; a sum passes it on, `f64::max` would not.
fn sum(reading: &str, round: &[f64], tasks: &[usize]) -> f64 {
    let values = tasks.iter().map(|task| round[*task]);
    let sum: f64 = values.clone().sum();
    if reading == PEAK_MEMORY && !sum.is_nan() { values.fold(0.0, f64::max) } else { sum }
}
