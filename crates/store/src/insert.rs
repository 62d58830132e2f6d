//! Inserts the rows of a run into its database.

use crate::{Error, Result};
use fsarena_core::cell::{TaskInfo, Variant};
use fsarena_core::event::{Note, Outcome};
use fsarena_core::sample::{MetricSpec, ReadingDef, Sample};
use fsarena_core::series::{LatencyPercentiles, SeriesPoint};
use fsarena_core::{host::Host, state::CellState};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::{collections::HashMap, path::Path};

/// The row id of a host; writes the host if it is new.
pub fn intern_host(db: &Connection, host: &Host) -> rusqlite::Result<i64> {
    let facts = to_json(&host.facts);
    let key = params![host.hostname, host.boot_id, host.kernel, facts];
    db.execute("INSERT OR IGNORE INTO host(hostname, boot_id, kernel, facts) VALUES(?1, ?2, ?3, ?4)", key)?;
    let select = "SELECT id FROM host WHERE hostname = ?1 AND boot_id = ?2 AND kernel = ?3 AND facts = ?4";
    db.query_row(select, key, |row| row.get(0))
}

/// Writes a cell that ended at `ended_at` (seconds since 1970), with its samples and notes. Replaces an earlier attempt of the
/// same cell.
pub fn write_cell(
    db: &Connection,
    state: CellState,
    ended_at: f64,
    outcome: &Outcome,
    host_id: i64,
    reading_ids: &ReadingIds,
) -> rusqlite::Result<()> {
    let spent = state.spent_until(ended_at);
    let CellState { cell, started_at, samples, notes, .. } = state;
    let hash = cell.id().0;
    // The schema deletes the samples and notes of the cell with it (ON DELETE CASCADE).
    db.execute("DELETE FROM cell WHERE hash = ?1", [&hash])?;
    let (outcome, spent, variant) = (to_json(outcome), to_json(&spent), intern_variant(db, &cell.variant)?);
    let name = &cell.workload.name;
    let row = (&hash, cell.round, cell.position, variant, name, outcome, host_id, started_at, spent);
    db.execute(
        "INSERT INTO cell(hash, round, position, variant, workload, outcome, host, started_at, spent)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        row,
    )?;
    let cell_id = db.last_insert_rowid();
    for sample in &samples {
        write_sample(db, cell_id, sample, reading_ids)?;
    }
    for note in &notes {
        write_note_once(db, Some(cell.round), Some(cell_id), note)?;
    }
    Ok(())
}

fn write_sample(db: &Connection, cell_id: i64, sample: &Sample, reading_ids: &ReadingIds) -> rusqlite::Result<()> {
    let task = intern_task(db, &sample.task)?;
    db.prepare_cached("INSERT INTO sample(cell, task, started_at) VALUES(?1, ?2, ?3)")?.execute((
        cell_id,
        task,
        sample.started_at,
    ))?;
    let id = db.last_insert_rowid();
    let mut insert = db.prepare_cached("INSERT INTO value(sample, metric, value) VALUES(?1, ?2, ?3)")?;
    for (name, value) in &sample.readings.0 {
        // A missing row means that the sample lacks the reading, and so does NaN.
        if let (Some(reading_id), true) = (reading_ids.0.get(name), value.is_finite()) {
            insert.execute(params![id, reading_id, value])?;
        }
    }
    if !sample.latencies.is_empty() {
        db.prepare_cached("INSERT INTO latencies VALUES(?1, ?2)")?.execute(params![id, to_json(&sample.latencies)])?;
    }
    write_series(db, id, &sample.series)
}

fn write_series(db: &Connection, sample: i64, points: &[SeriesPoint]) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT INTO series VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    // SQLite's integers are signed. No load reaches the limit.
    let to_signed = |number: u64| number.min(i64::MAX as u64) as i64;
    for (number, point) in points.iter().enumerate() {
        let percentile =
            |read: fn(&LatencyPercentiles) -> u64| point.latency.as_ref().map(|latency| to_signed(read(latency)));
        insert.execute((
            sample,
            number as i64,
            point.start_s,
            point.length_s,
            point.warm_up,
            to_signed(point.operations),
            to_signed(point.bytes),
            percentile(|latency| latency.p50_ns),
            percentile(|latency| latency.p99_ns),
            percentile(|latency| latency.p999_ns),
        ))?;
    }
    Ok(())
}

/// Writes a note, unless the run has the same note already: a resumed run repeats notes.
pub fn write_note_once(db: &Connection, round: Option<u32>, cell: Option<i64>, note: &Note) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO note(round, cell, kind, variant, task, text, fix) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
         WHERE NOT EXISTS(SELECT 1 FROM note WHERE round IS ?1 AND cell IS ?2 AND kind = ?3
                          AND variant IS ?4 AND task IS ?5 AND text = ?6 AND fix IS ?7)",
    )?
    .execute(params![round, cell, serde_name(&note.kind), note.variant, note.task, note.text, note.fix])?;
    Ok(())
}

/// The row id of a variant; writes the variant if it is new.
pub fn intern_variant(db: &Connection, variant: &Variant) -> rusqlite::Result<i64> {
    db.execute(
        "INSERT OR IGNORE INTO variant(name, levels) VALUES(?1, ?2)",
        params![variant.name, to_json(&variant.levels)],
    )?;
    db.query_row("SELECT id FROM variant WHERE name = ?1", [&variant.name], |row| row.get(0))
}

/// The row id of a task; writes the task if it is new.
fn intern_task(db: &Connection, task: &TaskInfo) -> rusqlite::Result<i64> {
    let params = to_json(&task.id.params);
    let known_id = db
        .prepare_cached("SELECT id FROM task WHERE name = ?1 AND params = ?2")?
        .query_row(params![task.id.name, params], |row| row.get(0))
        .optional()?;
    if let Some(id) = known_id {
        return Ok(id);
    }
    db.execute(
        "INSERT INTO task(name, params, title, number, in_totals) VALUES(?1, ?2, ?3, ?4, ?5)",
        params![task.id.name, params, task.title, task.number, task.in_totals],
    )?;
    Ok(db.last_insert_rowid())
}

/// The row ids of the readings that a run defines, by name. Their definitions are in the table `metric`.
pub struct ReadingIds(HashMap<String, i64>);

impl ReadingIds {
    /// Writes the definitions that are new, then reads the ids of all definitions of the run, including readings that commands
    /// printed earlier.
    ///
    /// # Errors
    /// The run has another definition of one of these readings: values with different meanings would be mixed.
    pub fn intern(db: &Connection, path: &Path, defs: &[ReadingDef]) -> Result<ReadingIds> {
        for def in defs {
            let def = def.into();
            let (_, is_same) = define_reading(db, &def).map_err(Error::while_writing(path))?;
            if !is_same {
                let reason = format!(
                    "this run has another definition of {} than this fsarena (`{def}`); resume it with the version that \
                     started it",
                    def.id
                );
                return Err(Error::damaged(path, reason));
            }
        }
        let read_ids = || -> rusqlite::Result<HashMap<String, i64>> {
            let mut statement = db.prepare("SELECT name, id FROM metric")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        Ok(ReadingIds(read_ids().map_err(Error::while_reading(path))?))
    }

    /// Adds a reading that a command printed.
    ///
    /// # Errors
    /// The run has another definition of a reading with that name.
    pub fn add(&mut self, db: &Connection, path: &Path, def: &MetricSpec) -> Result<()> {
        let (id, is_same) = define_reading(db, def).map_err(Error::while_writing(path))?;
        if !is_same {
            return Err(Error::invalid_data(
                path,
                format!("a command printed `{def}`, which contradicts the run's own definition"),
            ));
        }
        self.0.insert(def.id.clone(), id);
        Ok(())
    }

    /// Returns an error for a sample with an undefined reading, whose value would be lost silently.
    pub fn check_sample(&self, path: &Path, sample: &Sample) -> Result<()> {
        let Some(name) = sample.readings.0.keys().find(|name| !self.0.contains_key(*name)) else {
            return Ok(());
        };
        let reason = format!("task {} reports {name}, which is not a defined reading", sample.task.id);
        Err(Error::invalid_data(path, reason))
    }
}

/// Writes the definition of a reading if the run has none with that name. Returns the row id, and whether the run's definition
/// is the same, apart from the help text, which does not change the meaning of values.
fn define_reading(db: &Connection, def: &MetricSpec) -> rusqlite::Result<(i64, bool)> {
    let MetricSpec { id, unit, direction, scope, over, quotient_of, help } = def;
    let [numerator, denominator] = match quotient_of {
        Some([numerator, denominator]) => [Some(numerator), Some(denominator)],
        None => [None, None],
    };
    let folds = [over.tasks, over.ranks, over.hosts].map(|fold| fold.name());
    let (unit, direction, scope, [tasks, ranks, hosts]) =
        (serde_name(unit), serde_name(direction), serde_name(scope), folds);
    db.prepare_cached(
        "INSERT OR IGNORE INTO metric(name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![id, unit, direction, scope, tasks, ranks, hosts, numerator, denominator, help])?;
    db.prepare_cached(
        "SELECT id, unit = ?2 AND direction = ?3 AND scope = ?4 AND over_tasks = ?5 AND over_ranks = ?6 AND over_hosts = ?7
                AND numerator IS ?8 AND denominator IS ?9
         FROM metric WHERE name = ?1",
    )?
    .query_row(params![id, unit, direction, scope, tasks, ranks, hosts, numerator, denominator], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// Serializes plain data as JSON.
pub fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys always becomes JSON")
}

/// The name that serde gives a unit, a direction or a kind of note, without quotes.
pub fn serde_name(value: &impl Serialize) -> String {
    to_json(value).trim_matches('"').to_string()
}
