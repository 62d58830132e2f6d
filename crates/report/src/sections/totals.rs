//! All that was measured, summed over the tasks of a round: CPU, device, memory.

use super::tasks::header;
use crate::document::{Cell, Table, labelled};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::typical;
use fsarena_core::metric::reading;
use fsarena_core::observations::{ReadingTotal, reading_totals};
use fsarena_core::sample::Fold;

/// The metrics to show, in this order. They are derived from the summed readings, so that a quotient is a quotient of
/// sums.
const SHOWN: [&str; 15] = [
    "elapsed",
    "synced",
    "user",
    "system",
    "cpu_utilization",
    "background_cpu",
    "iowait_ns",
    reading::WRITTEN,
    reading::DEVICE_WRITTEN,
    "write_amplification",
    reading::DEVICE_READ,
    reading::DEVICE_FLUSHES,
    "pressure_io_full_ns",
    "pressure_cpu_some_ns",
    reading::PEAK_MEMORY,
];

/// What the work cost.
pub const SECTION: Section = Section::full(Chapter::Data, add);

/// The table: the median over rounds of the sum over the tasks in the totals.
fn add(document: &mut Document, report: &Report, _: Detail) {
    let record = &report.record;
    let totals = reading_totals(record, &SHOWN);
    let largest: Vec<&str> =
        totals.iter().filter(|total| total.fold == Fold::Max).map(|total| total.id).collect();
    let largest = match &largest[..] {
        [] => String::new(),
        ids => format!(" {} is the largest of any task.", ids.join(", ")),
    };
    let row = |ReadingTotal { id, unit, values, .. }: ReadingTotal| {
        labelled(id, typical::cells(&values, unit, None))
    };
    let rows: Vec<Vec<Cell>> = totals.into_iter().map(row).collect();
    if !rows.is_empty() {
        document.heading(3, "Cost of all tasks");
        document.text(format!("Medians over rounds of the sum over all tasks.{largest}"));
        document.table(Table::figures(header(record, "over all tasks")).with(rows));
        document.text(typical::words(&report.analyses));
    }
}
