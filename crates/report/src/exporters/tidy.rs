//! The tidy CSV export: one value of one metric a row, for programs that group and pivot, such as DuckDB, pandas and R.

use super::csv::{PLACE, varying_factors, write_place_fields};
use crate::{error::Error, exporter::Exporter, report::Report};
use fsarena_core::metric::METRICS;
use fsarena_core::observations::dropped;
use fsarena_core::record::{Derived, MetricSpec, RunRecord};
use std::collections::BTreeSet;
use std::io::Write;

/// The exporter of one observation a row: one value of one metric or reading of a task, in one round on one variant.
pub const TIDY_CSV: Exporter = Exporter::new(
    "tidy-csv",
    "one value a row, with only the columns that the run uses; rounds and positions count from 0",
    export,
);

/// The columns after those of a place that only some runs need.
struct UsedColumns<'a> {
    factors: Vec<&'a str>,
    /// The rounds that were dropped; empty if the run has no column for them.
    dropped: BTreeSet<u32>,
    hosts: bool,
    workloads: bool,
    /// The parameters of tasks: `bs`, `threads`.
    params: Vec<&'a str>,
}

impl UsedColumns<'_> {
    fn of(record: &RunRecord) -> UsedColumns<'_> {
        let params = record.tasks.iter().flat_map(|task| task.id.params.keys().map(String::as_str));
        let workloads: BTreeSet<&str> = record.cells.iter().map(|cell| cell.workload.as_str()).collect();
        UsedColumns {
            factors: varying_factors(record),
            dropped: dropped(record),
            hosts: record.hosts.len() > 1,
            workloads: workloads.len() > 1,
            params: params.collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    /// The names of all columns. A parameter with the name of another column begins with `task_`.
    fn names(&self, record: &RunRecord) -> Vec<String> {
        let mut names: Vec<String> = PLACE.iter().chain(&self.factors).map(ToString::to_string).collect();
        let some = [
            (record.plan.stop.warmup > 0, "warmup"),
            (!self.dropped.is_empty(), "dropped"),
            (self.hosts, "host"),
            (self.hosts, "boot"),
            (self.workloads, "workload"),
            (true, "task"),
        ];
        names.extend(some.iter().filter(|(used, _)| *used).map(|(_, name)| name.to_string()));
        let last = ["started_at_s", "metric", "unit", "direction", "value"];
        for param in &self.params {
            let taken = last.contains(param) || names.iter().any(|name| name == param);
            names.push(if taken { format!("task_{param}") } else { param.to_string() });
        }
        names.extend(last.map(String::from));
        names
    }
}

/// A metric or reading of a run.
enum Column<'a> {
    Reading(&'a MetricSpec, &'a [f64]),
    Metric(Derived<'a>),
}

impl Column<'_> {
    fn spec(&self) -> &MetricSpec {
        match self {
            Column::Reading(spec, _) => spec,
            Column::Metric(metric) => &metric.info,
        }
    }

    /// The value in a row of the samples; NaN if it has none.
    fn value(&self, row: usize) -> f64 {
        match self {
            Column::Reading(_, values) => values[row],
            Column::Metric(metric) => metric.value(row),
        }
    }
}

/// The metrics of a run, then its readings. A reading with the name of a metric replaces it, as in claims.
fn columns(record: &RunRecord) -> Vec<Column<'_>> {
    let metrics = METRICS.iter().filter(|def| record.reading(def.spec.id).is_none());
    let metrics = metrics.filter_map(|def| record.derived(def.spec.id)).map(Column::Metric);
    let readings = record.readings.iter().zip(&record.samples.values);
    metrics.chain(readings.map(|(spec, values)| Column::Reading(spec, values))).collect()
}

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let (used, columns) = (UsedColumns::of(record), columns(record));
    let warmup = record.plan.stop.warmup;
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(used.names(record))?;
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        let host = &record.hosts[cell.host];
        let task = &record.tasks[record.samples.task[row] as usize].id;
        for column in &columns {
            let (spec, value) = (column.spec(), column.value(row));
            if value.is_nan() {
                continue;
            }
            write_place_fields(&mut writer, record, cell, &used.factors)?;
            if warmup > 0 {
                writer.write_field((cell.round < warmup).to_string())?;
            }
            if !used.dropped.is_empty() {
                writer.write_field(used.dropped.contains(&cell.round).to_string())?;
            }
            if used.hosts {
                writer.write_field(&host.hostname)?;
                writer.write_field(&host.boot_id)?;
            }
            if used.workloads {
                writer.write_field(&cell.workload)?;
            }
            writer.write_field(&task.name)?;
            for param in &used.params {
                writer.write_field(task.params.get(*param).map_or("", String::as_str))?;
            }
            writer.write_field(record.samples.started_at[row].to_string())?;
            writer.write_record([&spec.id, spec.unit.suffix(), spec.direction.word(), &value.to_string()])?;
        }
    }
    Ok(writer.flush()?)
}
