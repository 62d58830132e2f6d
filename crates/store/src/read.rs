//! A whole run, read back.

use crate::rows::{Ids, Source};
use crate::scan::Table;
use crate::{Error, Result, RunDir, latencies, log, order, schema, series, values};
use fsarena_core::cell::{TaskId, TaskInfo, Variant};
use fsarena_core::event::Note;
use fsarena_core::host::Host;
use fsarena_core::record::{CellRecord, MetricInfo, RunRecord, RunStatus, SampleTable};
use std::ops::ControlFlow;

const SAMPLES: Table =
    Table { name: "sample", key: "id", whole: &["id", "cell", "task"], real: "started_at" };

/// The most readings that a run may have. Real runs have some forty; a damaged file may claim any number.
const MOST_READINGS: usize = 1_000;

/// Reads everything a run's directory knows, while it is written as well as afterwards.
///
/// # Errors
/// Where a file is missing, damaged, not a run, or of a newer version; the message names the file.
pub fn read(run: &RunDir) -> Result<RunRecord> {
    let plan = run.plan()?;
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let source = Source { db: &db, path: &path };

    let (hosts, host_ids) = hosts(&source)?;
    let (variants, variant_ids) = variants(&source)?;
    let (tasks, task_ids, task_places) = tasks(&source)?;
    let (readings, reading_ids) = readings(&source)?;
    let (cells, cell_ids) = cells(&source, &variant_ids, &host_ids)?;
    let (mut samples, sample_ids) = samples(&source, &cell_ids, (&task_ids, &task_places))?;
    samples.values = values::values(&source, &sample_ids, &reading_ids)?;
    let series = series::series(&source, &sample_ids)?;
    let notes = notes(&source)?;
    let latencies = latencies::pooled(&source, plan.stop.warmup, (&task_ids, &task_places), &variant_ids)?;

    let mut record = None;
    source.each("run", "SELECT id, version, started, ended, complete, why, commands FROM run", |row| {
        let running = log::is_locked(&run.command_log());
        record = Some((
            [row.text(0)?, row.text(1)?, row.text(2)?, row.text(3)?],
            status(row.int(4)? != 0, row.text(5)?, running),
            row.number(6)?,
        ));
        Ok(())
    })?;
    let Some(([id, version, started, ended], status, commands)) = record else {
        return Err(Error::damaged(&path, "damaged: table run is empty"));
    };
    Ok(RunRecord {
        id,
        version,
        started,
        ended,
        status,
        plan,
        hosts,
        variants,
        tasks,
        readings,
        cells,
        samples,
        series,
        latencies,
        notes,
        commands,
    })
}

/// How a run stands that noted this at its end, if it got there.
pub(crate) fn status(complete: bool, why: String, running: bool) -> RunStatus {
    let why = match why.as_str() {
        "" if running => "running".into(),
        "" => "interrupted".into(),
        _ => why,
    };
    RunStatus { complete, why }
}

fn hosts(source: &Source) -> Result<(Vec<Host>, Ids)> {
    let (mut hosts, mut ids) = (vec![], Ids::default());
    source.each("host", "SELECT id, hostname, boot_id, kernel, facts FROM host ORDER BY id", |row| {
        ids.push(row.int(0)?);
        hosts.push(Host {
            hostname: row.text(1)?,
            boot_id: row.text(2)?,
            kernel: row.text(3)?,
            facts: row.json(4)?,
        });
        Ok(())
    })?;
    Ok((hosts, ids))
}

fn variants(source: &Source) -> Result<(Vec<Variant>, Ids)> {
    let (mut variants, mut ids) = (vec![], Ids::default());
    source.each("variant", "SELECT id, name, levels FROM variant ORDER BY id", |row| {
        ids.push(row.int(0)?);
        variants.push(Variant { name: row.text(1)?, levels: row.json(2)? });
        Ok(())
    })?;
    Ok((variants, ids))
}

/// The tasks as people read them, their ids, and for each id the place of its task.
fn tasks(source: &Source) -> Result<(Vec<TaskInfo>, Ids, Vec<u32>)> {
    let (mut found, mut ids) = (vec![], Ids::default());
    let sql = "SELECT id, name, params, title, number, in_composite FROM task ORDER BY id";
    source.each("task", sql, |row| {
        let task = TaskInfo {
            id: TaskId { name: row.text(1)?, params: row.json(2)? },
            title: row.text(3)?,
            number: row.optional_text(4)?,
            in_composite: row.int(5)? != 0,
        };
        found.push((found.len(), task));
        ids.push(row.int(0)?);
        Ok(())
    })?;
    let mut places = vec![0; found.len()];
    let ordered = order::siblings_together(found, |(_, task)| &task.id).into_iter().enumerate();
    let tasks = ordered.map(|(place, (written, task))| {
        places[written] = place as u32;
        task
    });
    Ok((tasks.collect(), ids, places))
}

fn readings(source: &Source) -> Result<(Vec<MetricInfo>, Ids)> {
    let (mut readings, mut ids) = (vec![], Ids::default());
    source.each("metric", "SELECT id, name, unit, direction, help FROM metric ORDER BY id", |row| {
        if readings.len() == MOST_READINGS {
            return Err(row.damaged("an absurd number of readings"));
        }
        ids.push(row.int(0)?);
        readings.push(MetricInfo {
            id: row.text(1)?,
            unit: row.word(2)?,
            direction: row.word(3)?,
            help: row.text(4)?,
        });
        Ok(())
    })?;
    Ok((readings, ids))
}

fn cells(source: &Source, variants: &Ids, hosts: &Ids) -> Result<(Vec<CellRecord>, Ids)> {
    let (mut cells, mut ids) = (vec![], Ids::default());
    let sql = "SELECT id, hash, round, position, variant, workload, outcome, host, started_at, spent
               FROM cell ORDER BY id";
    source.each("cell", sql, |row| {
        ids.push(row.int(0)?);
        cells.push(CellRecord {
            id: row.text(1)?,
            round: row.number(2)?,
            position: row.number(3)?,
            variant: variants.index(row.int(4)?, row)?,
            workload: row.text(5)?,
            outcome: row.json(6)?,
            host: hosts.index(row.int(7)?, row)?,
            started_at: row.real(8)?,
            spent: row.json(9)?,
        });
        Ok(())
    })?;
    Ok((cells, ids))
}

fn samples(source: &Source, cells: &Ids, (tasks, places): (&Ids, &[u32])) -> Result<(SampleTable, Ids)> {
    let lost = || SAMPLES.lost(source);
    let (mut table, mut ids) = (SampleTable::default(), Ids::default());
    let mut cell = 0;
    SAMPLES.each(source, None, |row| {
        ids.push(row.int(0)?);
        // The samples of a cell stand together.
        cell = cells.near(row.int(1)?, cell).ok_or_else(lost)?;
        table.cell.push(cell as u32);
        table.task.push(places[tasks.place(row.int(2)?).ok_or_else(lost)?]);
        table.started_at.push(row.real(3)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((table, ids))
}

fn notes(source: &Source) -> Result<Vec<(Option<u32>, Note)>> {
    let mut notes = vec![];
    source.each("note", "SELECT round, kind, variant, task, text, fix FROM note ORDER BY id", |row| {
        let note = Note {
            kind: row.word(1)?,
            variant: row.optional_text(2)?,
            task: row.optional_text(3)?,
            text: row.text(4)?,
            fix: row.optional_text(5)?,
        };
        notes.push((row.optional_number(0)?, note));
        Ok(())
    })?;
    Ok(notes)
}

#[cfg(test)]
mod tests;
