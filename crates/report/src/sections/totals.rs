//! All that was measured, summed over the tasks of a block: CPU, device, memory.

use super::tasks::{absolute, header};
use crate::document::{Cell, Document, Table};
use crate::report::Report;
use fsarena_core::metric::reading;
use fsarena_core::record::RunRecord;
use fsarena_core::sample::Unit;
use fsarena_stats::comparison::median;
use fsarena_stats::grid::{dropped, grid};
use std::collections::BTreeMap;

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

/// Readings of one arm in one block.
type Sums = BTreeMap<String, f64>;

/// The table: the median over blocks of the sum over the composite's tasks.
pub fn add(document: &mut Document, report: &Report) {
    let record = &report.record;
    let mut table = Table::figures(header(record, "over all tasks"));
    for Total { id, unit, values } in of(record, &SHOWN) {
        let mut row: Vec<Cell> = vec![id.into()];
        row.extend(values.iter().map(|blocks| Cell::from(absolute(median(blocks), unit))));
        table.rows.push(row);
    }
    if !table.rows.is_empty() {
        document.heading(2, "What it cost");
        document.text(
            "Medians over blocks of the sum over all tasks; of peak_memory_bytes, the largest of any task.",
        );
        document.table(table);
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
    let sums = sums(record);
    let total = |id: &&'static str| {
        let (unit, of) = formula(record, id)?;
        let values: Vec<Vec<f64>> =
            sums.iter().map(|blocks| blocks.iter().filter_map(&*of).collect()).collect();
        values.iter().any(|blocks| !blocks.is_empty()).then_some(Total { id, unit, values })
    };
    ids.iter().filter_map(total).collect()
}

/// How a metric or reading comes from summed readings, and its unit.
#[allow(clippy::type_complexity)]
fn formula(record: &RunRecord, id: &'static str) -> Option<(Unit, Box<dyn Fn(&Sums) -> Option<f64>>)> {
    if let Some(column) = record.reading(id) {
        return Some((record.readings[column].unit, Box::new(move |sums| sums.get(id).copied())));
    }
    let def = fsarena_core::metric::find(id)?;
    Some((def.unit, Box::new(move |sums| (def.from)(&|name| sums.get(name).copied()))))
}

/// For each arm, the summed readings of every block in which it did all tasks.
fn sums(record: &RunRecord) -> Vec<Vec<Sums>> {
    let leave_out = dropped(record);
    let mut sums: Vec<Vec<Sums>> = vec![vec![]; record.arms.len()];
    for (info, rows) in record.readings.iter().zip(&record.samples.values) {
        let grid = grid(record, rows, &leave_out);
        let tasks: Vec<_> = record
            .steps
            .iter()
            .zip(&grid.values)
            .filter(|(step, values)| step.in_composite && values.iter().flatten().any(|v| !v.is_nan()))
            .map(|(_, values)| values)
            .collect();
        for (arm, sums) in sums.iter_mut().enumerate().filter(|_| !tasks.is_empty()) {
            sums.resize(grid.blocks.len(), Sums::new());
            for (block, sums) in sums.iter_mut().enumerate() {
                let values = tasks.iter().map(|task| task[arm][block]);
                // NaN marks a task that the arm did not do; a sum passes it on, f64::max would not.
                let sum: f64 = values.clone().sum();
                let value =
                    if info.id == PEAK_MEMORY && !sum.is_nan() { values.fold(0.0, f64::max) } else { sum };
                if !value.is_nan() {
                    sums.insert(info.id.clone(), value);
                }
            }
        }
    }
    sums
}
