//! CSV: the raw samples, one row each.

use crate::{error::Error, exporter::Exporter, report::Report};
use fsarena_core::factor;
use fsarena_core::metric::{METRICS, MetricDef};
use fsarena_core::record::{CellRecord, RunRecord};
use std::{collections::BTreeSet, io::Write};

/// The raw samples, one row each.
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
    let factors = varying(record);
    // Metrics are computed row by row: their columns would take several times the memory of the readings.
    // A command can have printed a figure with the name of a derived metric that the run lacks.
    let free = |def: &&MetricDef| record.reading(&def.spec.unit.named(def.spec.id)).is_none();
    let metrics: Vec<_> = METRICS.iter().filter(free).filter_map(|def| record.derived(def.spec.id)).collect();
    let mut writer = csv::Writer::from_writer(out);
    let mut header: Vec<String> = PLACE.iter().chain(&factors).map(|name| name.to_string()).collect();
    let warmup = record.plan.stop.warmup;
    header.extend((warmup > 0).then(|| "warmup".into()));
    header.extend(["host", "boot", "workload", "task", "started_at_s"].map(String::from));
    let infos = record.readings.iter().chain(metrics.iter().map(|metric| &metric.info));
    header.extend(infos.map(|info| info.unit.named(&info.id)));
    writer.write_record(&header)?;
    let tasks: Vec<String> = record.tasks.iter().map(|task| task.id.to_string()).collect();
    let mut number = Vec::new();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        let host = &record.hosts[cell.host];
        write_place(&mut writer, record, cell, &factors)?;
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

/// What tells where a row was measured, before its factors.
pub(super) const PLACE: [&str; 4] = ["run", "round", "position", "variant"];

/// Begins a row with [`PLACE`] and the levels of these factors.
pub(super) fn write_place<W: Write>(
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

/// The factors whose level is not the same in all variants.
pub(super) fn varying(record: &RunRecord) -> Vec<&str> {
    let ids: BTreeSet<&str> =
        record.variants.iter().flat_map(|variant| variant.levels.keys().map(String::as_str)).collect();
    factor::in_order(ids.into_iter().filter(|factor| record.varies(factor)).collect(), |id| id)
}
