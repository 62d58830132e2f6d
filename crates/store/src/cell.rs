//! One cell: kept in memory while it runs, written when it ends.

use crate::{Error, Result};
use fsarena_core::cell::{Cell, TaskInfo, Variant};
use fsarena_core::event::{Note, Outcome};
use fsarena_core::sample::{MetricSpec, ReadingDef, Sample};
use fsarena_core::series::{Latency, Point};
use fsarena_core::{event::SpentOn, state::CellState};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{collections::HashMap, path::Path};

/// A cell that has begun and not ended.
pub struct OpenCell {
    pub state: CellState,
    begun: Instant,
}

impl OpenCell {
    pub fn new(cell: Cell) -> OpenCell {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        OpenCell { state: CellState::new(at, cell), begun: Instant::now() }
    }

    /// Writes the cell with all that belongs to it, instead of an earlier try at it.
    pub fn write(
        self,
        db: &Connection,
        outcome: &Outcome,
        host: i64,
        metrics: &Metrics,
    ) -> rusqlite::Result<()> {
        let CellState { cell, begun_at, samples, notes, mut spent, .. } = self.state;
        spent.insert(0, (SpentOn::Total, self.begun.elapsed().as_nanos() as u64));
        let hash = cell.id().0;
        db.execute("DELETE FROM cell WHERE hash = ?1", [&hash])?;
        let (outcome, spent, variant) = (json(outcome), json(&spent), intern_variant(db, &cell.variant)?);
        let name = &cell.workload.name;
        let values = (&hash, cell.round, cell.position, variant, name, outcome, host, begun_at, spent);
        db.execute(
            "INSERT INTO cell(hash, round, position, variant, workload, outcome, host, started_at, spent)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            values,
        )?;
        let row = db.last_insert_rowid();
        for sample in &samples {
            write_sample(db, row, sample, metrics)?;
        }
        for note in &notes {
            write_note(db, Some(cell.round), Some(row), note)?;
        }
        Ok(())
    }
}

fn write_sample(db: &Connection, cell: i64, sample: &Sample, metrics: &Metrics) -> rusqlite::Result<()> {
    let task = intern_task(db, &sample.task)?;
    db.prepare_cached("INSERT INTO sample(cell, task, started_at) VALUES(?1, ?2, ?3)")?.execute((
        cell,
        task,
        sample.started_at,
    ))?;
    let id = db.last_insert_rowid();
    let mut insert = db.prepare_cached("INSERT INTO value(sample, metric, value) VALUES(?1, ?2, ?3)")?;
    for (name, value) in &sample.readings.0 {
        // A row that is not there means that the reading was not had, and NaN says no more than that.
        if let (Some(metric), true) = (metrics.0.get(name), value.is_finite()) {
            insert.execute(params![id, metric, value])?;
        }
    }
    if !sample.latencies.is_empty() {
        db.prepare_cached("INSERT INTO latencies VALUES(?1, ?2)")?
            .execute(params![id, json(&sample.latencies)])?;
    }
    write_series(db, id, &sample.series)
}

fn write_series(db: &Connection, sample: i64, points: &[Point]) -> rusqlite::Result<()> {
    let mut insert =
        db.prepare_cached("INSERT INTO series VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    // SQLite's numbers have a sign; no load counts that far.
    let signed = |number: u64| number.min(i64::MAX as u64) as i64;
    for (number, point) in points.iter().enumerate() {
        let latency = |of: fn(&Latency) -> u64| point.latency.as_ref().map(|latency| signed(of(latency)));
        let (p50, p99, p999) = (latency(|of| of.p50_ns), latency(|of| of.p99_ns), latency(|of| of.p999_ns));
        let Point { start_s, length_s, warm_up, .. } = point;
        let (operations, bytes) = (signed(point.operations), signed(point.bytes));
        insert.execute((
            sample,
            number as i64,
            start_s,
            length_s,
            warm_up,
            operations,
            bytes,
            p50,
            p99,
            p999,
        ))?;
    }
    Ok(())
}

/// Writes a note, unless a resumed run says it again.
pub fn write_note(
    db: &Connection,
    round: Option<u32>,
    cell: Option<i64>,
    note: &Note,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO note(round, cell, kind, variant, task, text, fix) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
         WHERE NOT EXISTS(SELECT 1 FROM note WHERE round IS ?1 AND cell IS ?2 AND kind = ?3
                          AND variant IS ?4 AND task IS ?5 AND text = ?6 AND fix IS ?7)",
    )?
    .execute(params![round, cell, word(&note.kind), note.variant, note.task, note.text, note.fix])?;
    Ok(())
}

/// The id of a variant, which is written where it is new.
pub fn intern_variant(db: &Connection, variant: &Variant) -> rusqlite::Result<i64> {
    db.execute(
        "INSERT OR IGNORE INTO variant(name, levels) VALUES(?1, ?2)",
        params![variant.name, json(&variant.levels)],
    )?;
    db.query_row("SELECT id FROM variant WHERE name = ?1", [&variant.name], |row| row.get(0))
}

fn intern_task(db: &Connection, task: &TaskInfo) -> rusqlite::Result<i64> {
    let params = json(&task.id.params);
    let known = db
        .prepare_cached("SELECT id FROM task WHERE name = ?1 AND params = ?2")?
        .query_row(params![task.id.name, params], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    db.execute(
        "INSERT INTO task(name, params, title, number, in_totals) VALUES(?1, ?2, ?3, ?4, ?5)",
        params![task.id.name, params, task.title, task.number, task.in_totals],
    )?;
    Ok(db.last_insert_rowid())
}

/// The readings that a run knows, by name.
pub struct Metrics(HashMap<String, i64>);

impl Metrics {
    /// Writes the definitions that are new, and takes over all that the run has: commands of an earlier part printed some.
    ///
    /// # Errors
    /// Where the run has a reading of that name with another meaning: its values would be mixed up.
    pub fn intern(db: &Connection, path: &Path, defs: &[ReadingDef]) -> Result<Metrics> {
        for def in defs {
            let def = def.into();
            let (_, same) = define(db, &def).map_err(Error::write(path))?;
            if !same {
                let what = format!(
                    "this run has another definition of {}, which is `{def}` in this fsarena; resume it with the version \
                     that began it",
                    def.id
                );
                return Err(Error::damaged(path, what));
            }
        }
        let all = || -> rusqlite::Result<HashMap<String, i64>> {
            let mut found = db.prepare("SELECT name, id FROM metric")?;
            found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        Ok(Metrics(all().map_err(Error::read(path))?))
    }

    /// Takes over a reading that a command printed.
    ///
    /// # Errors
    /// Where the run has one of that name with another meaning.
    pub fn add(&mut self, db: &Connection, path: &Path, info: &MetricSpec) -> Result<()> {
        let (id, same) = define(db, info).map_err(Error::write(path))?;
        if !same {
            return Err(Error::unfit(
                path,
                format!("a command printed `{info}`, which contradicts the run's own definition"),
            ));
        }
        self.0.insert(info.id.clone(), id);
        Ok(())
    }

    /// Refuses a sample with an undefined reading: its values would be lost in silence.
    pub fn check(&self, path: &Path, sample: &Sample) -> Result<()> {
        let Some(name) = sample.readings.0.keys().find(|name| !self.0.contains_key(*name)) else {
            return Ok(());
        };
        let what = format!("task {} reports {name}, which is not a defined reading", sample.task.id);
        Err(Error::unfit(path, what))
    }
}

/// Writes a definition where it is new. Its row, and whether the run's definition of that name means the same.
fn define(db: &Connection, def: &MetricSpec) -> rusqlite::Result<(i64, bool)> {
    let MetricSpec { id, unit, direction, scope, over, of, help } = def;
    let [above, below] = match of {
        Some([above, below]) => [Some(above), Some(below)],
        None => [None, None],
    };
    let folds = [over.tasks, over.ranks, over.hosts].map(|fold| fold.word());
    let (unit, direction, scope, [tasks, ranks, hosts]) = (word(unit), word(direction), word(scope), folds);
    db.prepare_cached(
        "INSERT OR IGNORE INTO metric(name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![id, unit, direction, scope, tasks, ranks, hosts, above, below, help])?;
    db.prepare_cached(
        "SELECT id, unit = ?2 AND direction = ?3 AND scope = ?4 AND over_tasks = ?5 AND over_ranks = ?6 AND over_hosts = ?7
                AND numerator IS ?8 AND denominator IS ?9
         FROM metric WHERE name = ?1",
    )?
    .query_row(params![id, unit, direction, scope, tasks, ranks, hosts, above, below], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// Plain data as JSON.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys always becomes JSON")
}

/// The bare word that serde gives a unit, a direction, a kind of note.
pub fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').to_string()
}
