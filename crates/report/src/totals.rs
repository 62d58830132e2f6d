//! Metrics summed over the tasks of a round.

use fsarena_core::metric::{self, Lookup};
use fsarena_core::record::RunRecord;
use fsarena_core::sample::Unit;
use fsarena_stats::grid::{by_round, left_out, rounds};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A peak is not summed: that of a round is that of its hungriest task.
pub const PEAK_MEMORY: &str = "peak_memory_bytes";

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
    let sums = Sums::of(record);
    let total = |id: &&'static str| {
        let (unit, of) = formula(record, id)?;
        let of_variant = |variant: usize| {
            let rounds = 0..sums.rounds;
            rounds.filter_map(|round| of(&|name| sums.get(name, variant, round))).collect::<Vec<f64>>()
        };
        let values: Vec<Vec<f64>> = (0..record.variants.len()).map(of_variant).collect();
        values.iter().any(|rounds| !rounds.is_empty()).then_some(Total { id, unit, values })
    };
    ids.iter().filter_map(total).collect()
}

type Formula = Box<dyn Fn(Lookup) -> Option<f64>>;

/// How a metric or reading comes from summed readings, and its unit.
fn formula(record: &RunRecord, id: &'static str) -> Option<(Unit, Formula)> {
    if let Some(column) = record.reading(id) {
        return Some((record.readings[column].unit, Box::new(move |get| get(id))));
    }
    let def = metric::find(id)?;
    Some((def.unit, Box::new(def.from)))
}

/// Readings summed over the tasks of each round, computed on demand.
struct Sums<'a> {
    record: &'a RunRecord,
    leave_out: BTreeSet<u32>,
    rounds: usize,
    /// For each reading `[variant][round]`, NaN where the variant did not do all tasks of the round; none where no task has it.
    known: RefCell<BTreeMap<String, Option<Vec<Vec<f64>>>>>,
}

impl<'a> Sums<'a> {
    fn of(record: &'a RunRecord) -> Sums<'a> {
        let leave_out = left_out(record);
        let rounds = rounds(record, &leave_out).len();
        Sums { record, leave_out, rounds, known: RefCell::default() }
    }

    fn get(&self, reading: &str, variant: usize, round: usize) -> Option<f64> {
        let mut known = self.known.borrow_mut();
        if !known.contains_key(reading) {
            known.insert(reading.to_string(), self.sums(reading));
        }
        known[reading].as_ref().map(|variants| variants[variant][round]).filter(|sum| !sum.is_nan())
    }

    fn sums(&self, reading: &str) -> Option<Vec<Vec<f64>>> {
        let rows = &self.record.samples.values[self.record.reading(reading)?];
        let variants = by_round(self.record, rows, &self.leave_out);
        let count = self.record.tasks.len().max(1);
        let done = |task: usize| {
            variants.iter().flat_map(|variant| variant.chunks(count)).any(|of| !of[task].is_nan())
        };
        let tasks = self.record.tasks.iter().enumerate().filter(|(at, task)| task.in_composite && done(*at));
        let tasks: Vec<usize> = tasks.map(|(at, _)| at).collect();
        let of_variant =
            |variant: &Vec<f64>| variant.chunks(count).map(|round| sum(reading, round, &tasks)).collect();
        (!tasks.is_empty()).then(|| variants.iter().map(of_variant).collect())
    }
}

/// NaN marks a task that the variant did not do; a sum passes it on, `f64::max` would not.
fn sum(reading: &str, round: &[f64], tasks: &[usize]) -> f64 {
    let values = tasks.iter().map(|task| round[*task]);
    let sum: f64 = values.clone().sum();
    if reading == PEAK_MEMORY && !sum.is_nan() { values.fold(0.0, f64::max) } else { sum }
}
