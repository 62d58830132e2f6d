//! The CSV exports: the raw samples, one row each, and the time series of loads, one row for each stretch of time.

use crate::{error::Error, exporter::Exporter, report::Report, time_series};
use fsarena_core::factor;
use fsarena_core::metric::{METRICS, readings_of};
use fsarena_core::record::{CellRecord, Derived, MetricSpec, RunRecord};
use fsarena_core::series::{Latency, Point};
use std::{collections::BTreeSet, io::Write};

/// The exporter of the raw samples, one row each.
pub const CSV: Exporter = Exporter {
    kept_as: |_| Some("samples.csv"),
    ..Exporter::new(
        "csv",
        "raw samples, one row each, with every reading and derived metric; rounds and positions count from 0",
        export,
    )
};

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let factors = varying_factors(record);
    // Metrics are computed row by row: their columns would take several times the memory of the readings.
    let metrics: Vec<_> = METRICS.iter().filter_map(|def| record.derived(def.spec.id)).collect();
    let (metrics, names) = unique_columns(record, metrics);
    let mut writer = csv::Writer::from_writer(out);
    let mut header: Vec<String> = PLACE.iter().chain(&factors).map(|name| name.to_string()).collect();
    let warmup = record.plan.stop.warmup;
    header.extend((warmup > 0).then(|| "warmup".into()));
    header.extend(["host", "boot", "workload", "task", "started_at_s"].map(String::from));
    header.extend(names);
    writer.write_record(&header)?;
    let tasks: Vec<String> = record.tasks.iter().map(|task| task.id.to_string()).collect();
    let mut number = Vec::new();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        let host = &record.hosts[cell.host];
        write_place_fields(&mut writer, record, cell, &factors)?;
        if warmup > 0 {
            writer.write_field((cell.round < warmup).to_string())?;
        }
        for text in [&host.hostname, &host.boot_id, &cell.workload, &tasks[record.samples.task[row] as usize]]
        {
            writer.write_field(text)?;
        }
        writer.write_field(record.samples.started_at[row].to_string())?;
        let readings = record.samples.values.iter().map(|column| column[row]);
        for value in readings.chain(metrics.iter().map(|metric| metric.value(row))) {
            number.clear();
            if !value.is_nan() {
                write!(number, "{value}")?;
            }
            writer.write_field(&number)?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(writer.flush()?)
}

/// Returns the metrics that get a column, and the unique names of all columns: the readings, then these metrics. A command
/// can print a figure with the name of a metric. If the run lacks the metric, the figure keeps its name and the metric gets
/// no column; else the figure's column is renamed to `reading_NAME`.
fn unique_columns<'a>(record: &RunRecord, metrics: Vec<Derived<'a>>) -> (Vec<Derived<'a>>, Vec<String>) {
    let readings = &record.readings;
    let name = |info: &MetricSpec| info.unit.named(&info.id);
    let is_redundant = |metric: &Derived| {
        let Some(reading) = readings.iter().find(|reading| name(reading) == name(&metric.info)) else {
            return false;
        };
        readings_of(&metric.info.id).contains(&reading.id)
            || (0..record.samples.len()).all(|row| metric.value(row).is_nan())
    };
    let metrics: Vec<Derived> = metrics.into_iter().filter(|metric| !is_redundant(metric)).collect();
    let metric_names: Vec<String> = metrics.iter().map(|metric| name(&metric.info)).collect();
    let mut names: Vec<String> = vec![];
    for reading in readings {
        let mut unique = name(reading);
        while metric_names.contains(&unique) || names.contains(&unique) {
            unique.insert_str(0, "reading_");
        }
        names.push(unique);
    }
    names.extend(metric_names);
    (metrics, names)
}

/// The first columns, which identify the measurement of a row.
pub(super) const PLACE: [&str; 4] = ["run", "round", "position", "variant"];

/// Writes the fields of [`PLACE`] and the levels of these factors.
pub(super) fn write_place_fields<W: Write>(
    writer: &mut csv::Writer<W>,
    record: &RunRecord,
    cell: &CellRecord,
    factors: &[&str],
) -> csv::Result<()> {
    let variant = &record.variants[cell.variant];
    writer.write_field(&record.id)?;
    writer.write_field(cell.round.to_string())?;
    writer.write_field(cell.position.to_string())?;
    writer.write_field(&variant.name)?;
    factors.iter().try_for_each(|factor| writer.write_field(variant.level(factor)))
}

/// The factors whose level differs between variants.
pub(super) fn varying_factors(record: &RunRecord) -> Vec<&str> {
    let ids: BTreeSet<&str> =
        record.variants.iter().flat_map(|variant| variant.levels.keys().map(String::as_str)).collect();
    factor::in_order(ids.into_iter().filter(|factor| record.varies(factor)).collect(), |id| id)
}

/// The exporter of the time series of loads, one row for each stretch of time.
pub const SERIES: Exporter = Exporter {
    kept_as: |report| (!report.record.series.is_empty()).then_some("series.csv"),
    lacks: |report| time_series::left_out_note(&report.record.series),
    ..Exporter::new(
        "series",
        "CSV of what loads did over time: one row a stretch, at most 61 a task; warm_up is 1 where it counts for nothing",
        export_series,
    )
};

/// The name of a column, and the function that formats its value.
type SeriesColumn = (&'static str, fn(&Point) -> String);

const SERIES_COLUMNS: [SeriesColumn; 10] = [
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

/// A percentile of the latency of a stretch; empty if the load measured no latency.
fn latency(point: &Point, percentile: fn(&Latency) -> u64) -> String {
    point.latency.as_ref().map_or(String::new(), |latency| percentile(latency).to_string())
}

fn export_series(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let factors = varying_factors(record);
    let mut writer = csv::Writer::from_writer(out);
    let keys = PLACE.into_iter().chain(factors.iter().copied());
    writer.write_record(keys.chain(["workload", "task"]).chain(SERIES_COLUMNS.map(|(name, _)| name)))?;
    for (row, point) in record.series.row.iter().zip(&record.series.points) {
        let cell = &record.cells[record.samples.cell[*row as usize] as usize];
        write_place_fields(&mut writer, record, cell, &factors)?;
        writer.write_field(&cell.workload)?;
        writer.write_field(record.tasks[record.samples.task[*row as usize] as usize].id.to_string())?;
        writer.write_record(SERIES_COLUMNS.map(|(_, shown)| shown(point)))?;
    }
    Ok(writer.flush()?)
}
