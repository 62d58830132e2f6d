//! A whole run, read back.

use crate::rows::{Cursor, Ids, Source};
use crate::{Error, Result, RunDir, latencies, log, order, schema, series, values};
use fsarena_core::cell::{TaskId, TaskInfo, Variant};
use fsarena_core::record::{
    CellRecord, LogLine, MOST_READINGS, MetricSpec, RunRecord, RunStatus, SampleTable,
};
use fsarena_core::{event::Note, host::Host, sample::Over};
use std::{collections::BTreeSet, ops::ControlFlow};

/// Reads everything a run's directory knows, while it is written as well as afterwards.
///
/// # Errors
/// Where a file is missing, damaged, not a run, or of another version; the message names the file.
pub fn read(run: &RunDir) -> Result<RunRecord> {
    let plan = run.plan()?;
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let source = Source { db: &db, path: &path };

    let (hosts, host_ids) =
        source.table("host", "SELECT id, hostname, boot_id, kernel, facts FROM host ORDER BY id", |row| {
            let (hostname, boot_id) = (row.text(1)?, row.text(2)?);
            Ok(Host { hostname, boot_id, kernel: row.text(3)?, facts: row.json(4)? })
        })?;
    let (variants, variant_ids) =
        source.table("variant", "SELECT id, name, levels FROM variant ORDER BY id", |row| {
            Ok(Variant { name: row.text(1)?, levels: row.json(2)? })
        })?;
    let (tasks, task_ids, task_places) = tasks(&source)?;
    let (readings, reading_ids) = readings(&source)?;
    let (cells, cell_ids) = cells(&source, &variant_ids, &host_ids)?;
    let (mut samples, sample_ids) = samples(&source, &cell_ids, (&task_ids, &task_places))?;
    places_fit(&source, [tasks.len(), variants.len(), samples.len()], &cells)?;
    samples.values = values::in_parts(&source, &sample_ids, &reading_ids, values::PART)?;
    let sql = "SELECT id, version, started, ended, complete, why, commands FROM run";
    let ([id, version, started, ended], status, commands) = source.one("run", sql, |row| {
        let status = status(row.int(4)? != 0, row.text(5)?, run.is_being_written());
        Ok(([row.text(0)?, row.text(1)?, row.text(2)?, row.text(3)?], status, row.number(6)?))
    })?;
    Ok(RunRecord {
        id,
        version,
        started,
        ended,
        status,
        series: series::up_to(&source, &sample_ids, series::MOST_POINTS)?,
        notes: notes(&source)?,
        latencies: latencies::pooled(&source, plan.stop.warmup, (&task_ids, &task_places), &variant_ids)?,
        plan,
        hosts,
        variants,
        tasks,
        readings,
        cells,
        samples,
        commands,
    })
}

/// Refuses a run whose tables are small and whose analysis would not be: it has a place for each task of each variant in
/// each round. Refuses times that no sum of them can hold.
fn places_fit(source: &Source, [tasks, variants, samples]: [usize; 3], cells: &[CellRecord]) -> Result<()> {
    let rounds = cells.iter().map(|cell| cell.round).collect::<BTreeSet<u32>>().len();
    let places = tasks.saturating_mul(variants).saturating_mul(rounds);
    if places > values::FEW_VALUES && places / values::SPARSE > samples {
        let what = format!(
            "damaged: {tasks} tasks of {variants} variants in {rounds} rounds are an absurd number for {samples} samples"
        );
        return Err(Error::damaged(source.path, what));
    }
    let mut spent = cells.iter().flat_map(|cell| &cell.spent).map(|(_, ns)| *ns);
    match spent.try_fold(0, u64::checked_add) {
        Some(_) => Ok(()),
        None => Err(Error::damaged(source.path, "damaged: more time was spent than there is in table cell")),
    }
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

/// The tasks as people read them, their ids, and for each id the place of its task.
fn tasks(source: &Source) -> Result<(Vec<TaskInfo>, Ids, Vec<u32>)> {
    let sql = "SELECT id, name, params, title, number, in_totals FROM task ORDER BY id";
    let (found, ids) = source.table("task", sql, |row| {
        Ok(TaskInfo {
            id: TaskId { name: row.text(1)?, params: row.json(2)? },
            title: row.text(3)?,
            number: row.optional(4, Cursor::text)?,
            in_totals: row.int(5)? != 0,
        })
    })?;
    let mut places = vec![0; found.len()];
    let ordered = order::siblings_together(found.into_iter().enumerate().collect(), |(_, task)| &task.id);
    let tasks = ordered.into_iter().enumerate().map(|(place, (written, task))| {
        places[written] = place as u32;
        task
    });
    Ok((tasks.collect(), ids, places))
}

/// The definition of a reading of this name, where the run has one.
///
/// # Errors
/// Those of [`read`].
pub fn reading(run: &RunDir, name: &str) -> Result<Option<MetricSpec>> {
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let (all, _) = readings(&Source { db: &db, path: &path })?;
    Ok(all.into_iter().find(|reading| reading.id == name))
}

fn readings(source: &Source) -> Result<(Vec<MetricSpec>, Ids)> {
    readings_of(source, "main")
}

/// The definitions of readings in a database that is attached under this name.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn metrics(source: &Source, of: &str) -> Result<Vec<MetricSpec>> {
    Ok(readings_of(source, of)?.0)
}

fn readings_of(source: &Source, of: &str) -> Result<(Vec<MetricSpec>, Ids)> {
    let sql = format!(
        "SELECT id, name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help
         FROM {of}.metric ORDER BY id"
    );
    let (readings, ids) = source.table("metric", &sql, |row| {
        let parts = [row.optional(8, Cursor::text)?, row.optional(9, Cursor::text)?];
        Ok(MetricSpec {
            id: row.text(1)?,
            unit: row.word(2)?,
            direction: row.word(3)?,
            scope: row.word(4)?,
            over: Over { tasks: row.word(5)?, ranks: row.word(6)?, hosts: row.word(7)? },
            of: if let [Some(above), Some(below)] = parts { Some([above, below]) } else { None },
            help: row.text(10)?,
        })
    })?;
    if readings.len() > MOST_READINGS {
        return Err(Error::damaged(source.path, "damaged: an absurd number of readings in table metric"));
    }
    Ok((readings, ids))
}

fn cells(source: &Source, variants: &Ids, hosts: &Ids) -> Result<(Vec<CellRecord>, Ids)> {
    let sql = "SELECT id, hash, round, position, variant, workload, outcome, host, started_at, spent
               FROM cell ORDER BY id";
    source.table("cell", sql, |row| {
        Ok(CellRecord {
            id: row.text(1)?,
            round: row.round(2)?,
            position: row.number(3)?,
            variant: variants.index(row.int(4)?, row)?,
            workload: row.text(5)?,
            outcome: row.json(6)?,
            host: hosts.index(row.int(7)?, row)?,
            started_at: row.moment(8)?,
            spent: row.json(9)?,
        })
    })
}

fn samples(source: &Source, cells: &Ids, (tasks, places): (&Ids, &[u32])) -> Result<(SampleTable, Ids)> {
    let (mut table, mut ids) = (SampleTable::default(), Ids::default());
    let mut cell = 0;
    source.in_order("sample", "SELECT id, cell, task, started_at FROM sample ORDER BY id", |row| {
        ids.0.push(row.int(0)?);
        // The samples of a cell stand together.
        cell = cells.near(row.int(1)?, cell, row)?;
        table.cell.push(cell as u32);
        table.task.push(places[tasks.index(row.int(2)?, row)?]);
        table.started_at.push(row.moment(3)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((table, ids))
}

fn notes(source: &Source) -> Result<Vec<(Option<u32>, Note)>> {
    let sql = "SELECT id, round, kind, variant, task, text, fix FROM note ORDER BY id";
    let (notes, _) = source.table("note", sql, |row| {
        let note = Note {
            kind: row.word(2)?,
            variant: row.optional(3, Cursor::text)?,
            task: row.optional(4, Cursor::text)?,
            text: row.text(5)?,
            fix: row.optional(6, Cursor::text)?,
        };
        Ok((row.optional(1, Cursor::round)?, note))
    })?;
    Ok(notes)
}

/// Calls `each` with every command of a run's log, in order. Skips lines that are not commands, such as one that a crash
/// cut off. A run without a log has no commands.
///
/// # Errors
/// Where the log cannot be read.
pub fn commands(run: &RunDir, each: &mut dyn FnMut(&LogLine)) -> Result<()> {
    log::read(&run.command_log(), each)
}

#[cfg(test)]
mod tests;
