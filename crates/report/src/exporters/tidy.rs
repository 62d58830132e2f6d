//! The tidy CSV export: one value of one metric a row, for programs that group and pivot, such as DuckDB, pandas and R.

use super::csv::SampleColumns;
use crate::{error::Error, exporter::Exporter, report::Report};
use fsarena_core::record::{CellRecord, MetricSpec, RunRecord};
use fsarena_core::{cell::TaskId, metric::METRICS, observations::dropped_rounds};
use std::{collections::BTreeSet, io::Write};

/// The exporter of one observation a row: one value of one metric or reading of a task, in one round on one variant.
pub const TIDY_CSV: Exporter = Exporter::new(
    "tidy-csv",
    "one value a row, with only the columns that the run uses; rounds and positions count from 0",
    export_tidy,
);

/// The last columns, which contain the figure.
const FIGURE_COLUMNS: [&str; 4] = ["metric", "unit", "direction", "value"];

/// The columns before the figure: only those that the run uses. A parameter of tasks with the name of another column begins
/// with `task_`.
fn used_sample_columns(record: &RunRecord) -> SampleColumns<'_> {
    let mut columns = SampleColumns::new(record);
    columns.add_warmup();
    let dropped = dropped_rounds(record);
    if !dropped.is_empty() {
        columns.add("dropped", move |cell, _| dropped.contains(&cell.round).to_string());
    }
    if record.hosts.len() > 1 {
        columns.add_hosts();
    }
    let workloads: BTreeSet<&str> = record.cells.iter().map(|cell| cell.workload.as_str()).collect();
    if workloads.len() > 1 {
        columns.add("workload", |cell, _| cell.workload.clone());
    }
    columns.add("task", |_, task| task.name.clone());
    let params = record.tasks.iter().flat_map(|task| task.id.params.keys().map(String::as_str));
    for param in params.collect::<BTreeSet<_>>() {
        let other_names = columns.names().chain(FIGURE_COLUMNS).chain(["started_at_s"]);
        let prefix = if other_names.into_iter().any(|name| name == param) { "task_" } else { "" };
        let field = |_: &CellRecord, task: &TaskId| task.params.get(param).cloned().unwrap_or_default();
        columns.add(&format!("{prefix}{param}"), field);
    }
    columns.add_start();
    columns
}

/// The definition of a metric or reading, and a function that returns its value in a row of the samples, or NaN if it has none.
type FigureColumn<'a> = (MetricSpec, Box<dyn Fn(usize) -> f64 + 'a>);

/// The metrics of a run, then its readings. A reading with the name of a metric replaces it, as in claims.
fn figure_columns(record: &RunRecord) -> Vec<FigureColumn<'_>> {
    let mut columns: Vec<FigureColumn> = vec![];
    let metrics = METRICS.iter().filter(|def| record.reading_column(def.spec.id).is_none());
    for metric in metrics.filter_map(|def| record.derived_metric(def.spec.id)) {
        columns.push((metric.spec.clone(), Box::new(move |row| metric.value(row))));
    }
    for (spec, values) in record.readings.iter().zip(&record.samples.values) {
        columns.push((spec.clone(), Box::new(move |row| values[row])));
    }
    columns
}

fn export_tidy(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let (sample_columns, figure_columns) = (used_sample_columns(record), figure_columns(record));
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(sample_columns.names().chain(FIGURE_COLUMNS))?;
    for row in 0..record.samples.len() {
        for (spec, value_in) in &figure_columns {
            let value = value_in(row);
            if !value.is_nan() {
                sample_columns.write(&mut writer, row)?;
                writer.write_record([&spec.id, spec.unit.suffix(), spec.direction.name(), &value.to_string()])?;
            }
        }
    }
    Ok(writer.flush()?)
}
