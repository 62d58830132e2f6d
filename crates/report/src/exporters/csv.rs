//! The CSV exports: the raw samples, one row each, and the time series of loads, one row for each stretch of time.

use crate::{error::Error, exporter::Exporter, report::Report, time_series};
use fsarena_core::metric::{METRICS, readings_of};
use fsarena_core::record::{CellRecord, DerivedMetric, MetricSpec, RunRecord};
use fsarena_core::series::{LatencyPercentiles, MAX_SERIES_POINTS, SeriesPoint};
use fsarena_core::{cell::TaskId, factor};
use std::{collections::BTreeSet, io::Write};

/// The exporter of the raw samples, one row each.
pub const CSV: Exporter = Exporter {
    file_in_run_dir: |_| Some("samples.csv"),
    ..Exporter::new(
        "csv",
        "raw samples, one row each, with every reading and derived metric; rounds and positions count from 0",
        export_samples,
    )
};

fn export_samples(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    // Metrics are computed row by row: their columns would take several times the memory of the readings.
    let metrics: Vec<_> = METRICS.iter().filter_map(|def| record.derived_metric(def.spec.id)).collect();
    let (metrics, figure_names) = unique_figure_columns(record, metrics);
    let mut columns = SampleColumns::new(record);
    columns.add_warmup();
    columns.add_hosts();
    columns.add("workload", |cell, _| cell.workload.clone());
    columns.add("task", |_, task| task.to_string());
    columns.add_start();
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.names().chain(figure_names.iter().map(String::as_str)))?;
    let mut field = Vec::new();
    for row in 0..record.samples.len() {
        columns.write(&mut writer, row)?;
        let readings = record.samples.values.iter().map(|column| column[row]);
        for value in readings.chain(metrics.iter().map(|metric| metric.value(row))) {
            field.clear();
            // NaN stands for a value that was not measured: its field is empty.
            if !value.is_nan() {
                write!(field, "{value}")?;
            }
            writer.write_field(&field)?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(writer.flush()?)
}

/// Returns the metrics that get a column, and the unique names of the columns of figures: the readings, then these metrics.
///
/// A reading can have the name of a metric. If the metric is computed from that reading, or has no value in this run, it gets
/// no column and the reading keeps its name. Otherwise a command of the user printed the reading, and its column is called
/// `reading_NAME`.
fn unique_figure_columns<'a>(
    record: &RunRecord,
    metrics: Vec<DerivedMetric<'a>>,
) -> (Vec<DerivedMetric<'a>>, Vec<String>) {
    let readings = &record.readings;
    let column_name = |spec: &MetricSpec| spec.unit.with_suffix(&spec.id);
    let is_redundant = |metric: &DerivedMetric| {
        let Some(reading) = readings.iter().find(|reading| column_name(reading) == column_name(&metric.spec)) else {
            return false;
        };
        readings_of(&metric.spec.id).contains(&reading.id)
            || (0..record.samples.len()).all(|row| metric.value(row).is_nan())
    };
    let metrics: Vec<DerivedMetric> = metrics.into_iter().filter(|metric| !is_redundant(metric)).collect();
    let metric_names: Vec<String> = metrics.iter().map(|metric| column_name(&metric.spec)).collect();
    let mut names: Vec<String> = vec![];
    for reading in readings {
        let mut name = column_name(reading);
        while metric_names.contains(&name) || names.contains(&name) {
            name.insert_str(0, "reading_");
        }
        names.push(name);
    }
    names.extend(metric_names);
    (metrics, names)
}

/// A function that returns the text of a field, from a row of the samples with its cell and its task.
type FieldFunction<'a> = Box<dyn Fn(usize, &CellRecord, &TaskId) -> String + 'a>;

/// The columns of an export that describe the cell and the task of a sample.
pub(super) struct SampleColumns<'a> {
    record: &'a RunRecord,
    columns: Vec<(String, FieldFunction<'a>)>,
}

impl<'a> SampleColumns<'a> {
    /// The columns of every export: the run, the round, the position in the round, the variant, and each factor that varies.
    pub fn new(record: &'a RunRecord) -> SampleColumns<'a> {
        let mut columns = SampleColumns { record, columns: vec![] };
        columns.add("run", |_, _| record.id.clone());
        columns.add("round", |cell, _| cell.round.to_string());
        columns.add("position", |cell, _| cell.position.to_string());
        columns.add("variant", |cell, _| record.variant_name(cell.variant).to_string());
        let ids: BTreeSet<&str> =
            record.variants.iter().flat_map(|variant| variant.levels.keys().map(String::as_str)).collect();
        let varying = ids.into_iter().filter(|factor| record.varies(factor)).collect();
        for factor in factor::sorted_for_names(varying, |id| id) {
            columns.add(factor, move |cell, _| record.variants[cell.variant].level(factor).to_string());
        }
        columns
    }

    /// Adds a column. `field` returns its text for a cell and a task.
    pub fn add(&mut self, name: &str, field: impl Fn(&CellRecord, &TaskId) -> String + 'a) {
        self.columns.push((name.into(), Box::new(move |_, cell, task| field(cell, task))));
    }

    /// Adds a column that marks the samples of warm-up rounds, if the run has any.
    pub fn add_warmup(&mut self) {
        let warmup_rounds = self.record.plan.stop.warmup;
        if warmup_rounds > 0 {
            self.add("warmup", move |cell, _| (cell.round < warmup_rounds).to_string());
        }
    }

    /// Adds the columns of the machine and its boot.
    pub fn add_hosts(&mut self) {
        let hosts = &self.record.hosts;
        self.add("host", |cell, _| hosts[cell.host].hostname.clone());
        self.add("boot", |cell, _| hosts[cell.host].boot_id.clone());
    }

    /// Adds the column of the time at which the task started.
    pub fn add_start(&mut self) {
        let started_at = &self.record.samples.started_at;
        self.columns.push(("started_at_s".into(), Box::new(|row, _, _| started_at[row].to_string())));
    }

    /// The names of the columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// Writes the fields of a row of the samples, and leaves the record open for further fields.
    pub fn write<W: Write>(&self, writer: &mut csv::Writer<W>, row: usize) -> csv::Result<()> {
        let cell = &self.record.cells[self.record.samples.cell[row] as usize];
        let task = &self.record.tasks[self.record.samples.task[row] as usize].id;
        self.columns.iter().try_for_each(|(_, field)| writer.write_field(field(row, cell, task)))
    }
}

// The help text of the exporter has this number.
const _: () = assert!(MAX_SERIES_POINTS + 1 == 61, "the largest number of points of a task");

/// The exporter of the time series of loads, one row for each stretch of time.
pub const SERIES: Exporter = Exporter {
    file_in_run_dir: |report| (!report.record.series.is_empty()).then_some("series.csv"),
    describe_omissions: |report| time_series::left_out_note(&report.record.series),
    ..Exporter::new(
        "series",
        "CSV of the time series of loads: one row for each stretch of time, at most 61 rows for a task; warm_up is 1 in \
         stretches of a load's warm-up, which no figure counts",
        export_series,
    )
};

/// The name of a column, and the function that formats its value.
type SeriesColumn = (&'static str, fn(&SeriesPoint) -> String);

const SERIES_COLUMNS: [SeriesColumn; 10] = [
    ("start_s", |point| point.start_s.to_string()),
    ("length_s", |point| point.length_s.to_string()),
    ("warm_up", |point| u8::from(point.warm_up).to_string()),
    ("operations_count", |point| point.operations.to_string()),
    ("bytes", |point| point.bytes.to_string()),
    ("operations_per_s", |point| point.operations_per_s().to_string()),
    ("bandwidth_bytes_per_s", |point| point.bytes_per_s().to_string()),
    ("latency_p50_ns", |point| format_percentile(point, |latency| latency.p50_ns)),
    ("latency_p99_ns", |point| format_percentile(point, |latency| latency.p99_ns)),
    ("latency_p999_ns", |point| format_percentile(point, |latency| latency.p999_ns)),
];

/// A percentile of the latency of a stretch; empty if the load measured no latency.
fn format_percentile(point: &SeriesPoint, percentile: fn(&LatencyPercentiles) -> u64) -> String {
    point.latency.as_ref().map_or(String::new(), |latency| percentile(latency).to_string())
}

fn export_series(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let mut columns = SampleColumns::new(record);
    columns.add_warmup();
    columns.add("workload", |cell, _| cell.workload.clone());
    columns.add("task", |_, task| task.to_string());
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.names().chain(SERIES_COLUMNS.map(|(name, _)| name)))?;
    for (row, point) in record.series.sample_row.iter().zip(&record.series.points) {
        columns.write(&mut writer, *row as usize)?;
        writer.write_record(SERIES_COLUMNS.map(|(_, format)| format(point)))?;
    }
    Ok(writer.flush()?)
}
