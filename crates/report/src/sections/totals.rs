//! All that was measured, summed over the tasks of a block: CPU, device, memory.

use super::tasks::header;
use super::typical;
use crate::document::source::Source;
use crate::document::{Cell, Document, Table};
use crate::report::Report;
use fsarena_core::metric::{Lookup, reading};
use fsarena_core::record::RunRecord;
use fsarena_core::sample::Unit;
use fsarena_stats::grid::{blocks, by_block, dropped};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What is shown, in this order. Metrics are derived from the summed readings, so that a quotient is
/// that of the sums.
const SHOWN: [&str; 15] = [
    "elapsed",
    "durable",
    "user",
    "system",
    "cpu_utilization",
    "background_cpu",
    "iowait_ns",
    reading::WRITTEN,
    reading::DEVICE_WRITTEN,
    "write_amplification",
    reading::DEVICE_READ,
    "device_flushes_count",
    "pressure_io_full_ns",
    "pressure_cpu_some_ns",
    PEAK_MEMORY,
];
/// A peak is not summed: that of a block is that of its hungriest task.
const PEAK_MEMORY: &str = "peak_memory_bytes";

/// The table: the median over blocks of the sum over the composite's tasks.
pub fn add(document: &mut Document, report: &Report) {
    let record = &report.record;
    let mut table = Table::figures(header(record, "over all tasks"));
    for Total { id, unit, values } in of(record, &SHOWN) {
        let mut row: Vec<Cell> = vec![id.into()];
        let figure =
            |(arm, blocks): (usize, &Vec<f64>)| typical::cell(blocks, unit).made_of(Source::of(None, [arm]));
        row.extend(values.iter().enumerate().map(figure));
        table.rows.push(row);
    }
    if !table.rows.is_empty() {
        document.heading(2, "What it cost");
        document.text(
            "Medians over blocks of the sum over all tasks; of peak_memory_bytes, the largest of any task.",
        );
        document.table(table);
        document.text(typical::words(report));
    }
}

/// A metric or reading, summed over the tasks of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// Its name.
    pub id: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// For each arm, its value in every block in which the arm did all tasks.
    pub values: Vec<Vec<f64>>,
}

/// The totals of these metrics and readings; those that no block has are left out.
pub fn of(record: &RunRecord, ids: &[&'static str]) -> Vec<Total> {
    let sums = Sums::of(record);
    let total = |id: &&'static str| {
        let (unit, of) = formula(record, id)?;
        let of_arm = |arm: usize| {
            let blocks = 0..sums.blocks;
            blocks.filter_map(|block| of(&|name| sums.get(name, arm, block))).collect::<Vec<f64>>()
        };
        let values: Vec<Vec<f64>> = (0..record.arms.len()).map(of_arm).collect();
        values.iter().any(|blocks| !blocks.is_empty()).then_some(Total { id, unit, values })
    };
    ids.iter().filter_map(total).collect()
}

type Formula = Box<dyn Fn(Lookup) -> Option<f64>>;

/// How a metric or reading comes from summed readings, and its unit.
fn formula(record: &RunRecord, id: &'static str) -> Option<(Unit, Formula)> {
    if let Some(column) = record.reading(id) {
        return Some((record.readings[column].unit, Box::new(move |get| get(id))));
    }
    let def = fsarena_core::metric::find(id)?;
    Some((def.unit, Box::new(def.from)))
}

/// Readings summed over the tasks of each block, those that somebody asks for.
struct Sums<'a> {
    record: &'a RunRecord,
    leave_out: BTreeSet<u32>,
    blocks: usize,
    /// For each reading `[arm][block]`, NaN where the arm did not do all tasks of the block; none where no task has it.
    known: RefCell<BTreeMap<String, Option<Vec<Vec<f64>>>>>,
}

impl<'a> Sums<'a> {
    fn of(record: &'a RunRecord) -> Sums<'a> {
        let leave_out = dropped(record);
        let blocks = blocks(record, &leave_out).len();
        Sums { record, leave_out, blocks, known: RefCell::default() }
    }

    fn get(&self, reading: &str, arm: usize, block: usize) -> Option<f64> {
        let mut known = self.known.borrow_mut();
        if !known.contains_key(reading) {
            known.insert(reading.to_string(), self.sums(reading));
        }
        known[reading].as_ref().map(|arms| arms[arm][block]).filter(|sum| !sum.is_nan())
    }

    fn sums(&self, reading: &str) -> Option<Vec<Vec<f64>>> {
        let rows = &self.record.samples.values[self.record.reading(reading)?];
        let arms = by_block(self.record, rows, &self.leave_out);
        let steps = self.record.steps.len().max(1);
        let done = |step: usize| arms.iter().flat_map(|arm| arm.chunks(steps)).any(|of| !of[step].is_nan());
        let tasks = self.record.steps.iter().enumerate().filter(|(at, step)| step.in_composite && done(*at));
        let tasks: Vec<usize> = tasks.map(|(at, _)| at).collect();
        let of_arm = |arm: &Vec<f64>| arm.chunks(steps).map(|block| sum(reading, block, &tasks)).collect();
        (!tasks.is_empty()).then(|| arms.iter().map(of_arm).collect())
    }
}

/// NaN marks a task that the arm did not do; a sum passes it on, `f64::max` would not.
fn sum(reading: &str, block: &[f64], tasks: &[usize]) -> f64 {
    let values = tasks.iter().map(|step| block[*step]);
    let sum: f64 = values.clone().sum();
    if reading == PEAK_MEMORY && !sum.is_nan() { values.fold(0.0, f64::max) } else { sum }
}
