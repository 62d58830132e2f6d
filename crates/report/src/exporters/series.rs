//! CSV of what loads did over time, one row a stretch.

use super::csv::{PLACE, varying, write_place};
use crate::{error::Error, exporter::Exporter, report::Report, time_series};
use fsarena_core::series::{Latency, Point};
use std::io::Write;

/// What loads did over time, one row a stretch.
pub const SERIES: Exporter = Exporter {
    kept_as: |report| (!report.record.series.is_empty()).then_some("series.csv"),
    lacks: |report| time_series::left_out(&report.record.series),
    ..Exporter::new(
        "series",
        "CSV of what loads did over time: one row a stretch, at most 61 a task; warm_up is 1 where it counts for nothing",
        export,
    )
};

/// A column of a stretch.
type Column = (&'static str, fn(&Point) -> String);

const COLUMNS: [Column; 10] = [
    ("start_s", |point| point.start_s.to_string()),
    ("length_s", |point| point.length_s.to_string()),
    ("warm_up", |point| u8::from(point.warm_up).to_string()),
    ("operations_count", |point| point.operations.to_string()),
    ("bytes", |point| point.bytes.to_string()),
    ("operations_per_s", |point| point.operations_per_s().to_string()),
    ("bandwidth_bytes_per_s", |point| point.bytes_per_s().to_string()),
    ("latency_p50_ns", |point| latency(point, |one| one.p50_ns)),
    ("latency_p99_ns", |point| latency(point, |one| one.p99_ns)),
    ("latency_p999_ns", |point| latency(point, |one| one.p999_ns)),
];

fn latency(point: &Point, of: fn(&Latency) -> u64) -> String {
    point.latency.as_ref().map_or(String::new(), |one| of(one).to_string())
}

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let factors = varying(record);
    let mut writer = csv::Writer::from_writer(out);
    let keys = PLACE.into_iter().chain(factors.iter().copied());
    writer.write_record(keys.chain(["workload", "task"]).chain(COLUMNS.map(|(name, _)| name)))?;
    for (row, point) in record.series.row.iter().zip(&record.series.points) {
        let cell = &record.cells[record.samples.cell[*row as usize] as usize];
        write_place(&mut writer, record, cell, &factors)?;
        writer.write_field(&cell.workload)?;
        writer.write_field(record.tasks[record.samples.task[*row as usize] as usize].id.to_string())?;
        writer.write_record(COLUMNS.map(|(_, shown)| shown(point)))?;
    }
    Ok(writer.flush()?)
}
