//! Writes the events of a run to its directory. A cell stays in memory while it runs and is written when it ends.

use crate::logs::{CommandLog, EventLog};
use crate::{Error, Result, RunDir, dir, schema};
use fsarena_core::cell::{Cell, CellId, TaskInfo, Variant};
use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, Outcome};
use fsarena_core::sample::{MetricSpec, ReadingDef, Sample};
use fsarena_core::series::{Latency, Point};
use fsarena_core::{host::Host, metric::readings_of, state::CellState};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The open run that the runner's events are written to. A cell is in the database only after its end event.
pub struct Writer {
    run: RunDir,
    db: Connection,
    path: PathBuf,
    log: CommandLog,
    events: EventLog,
    host: i64,
    metrics: Metrics,
    /// The cells that have started and not ended.
    open: HashMap<CellId, CellState>,
    clock: EventClock,
    round: Option<u32>,
    /// The number of commands in the log that the database does not count yet.
    uncounted: u64,
}

impl Writer {
    /// Opens a new or resumed run for writing. A run may be resumed on another host.
    ///
    /// `readings` has the definitions of all readings that samples may contain: of the timer, the probes, the executor and
    /// the workloads.
    ///
    /// # Errors
    /// Another process is writing the run, the run cannot be written, is damaged, or has another definition of one of these
    /// readings.
    pub fn open(run: &RunDir, host: &Host, readings: &[ReadingDef]) -> Result<Writer> {
        let log = CommandLog::open(&run.command_log())?;
        let events = EventLog::open(&run.event_log());
        let path = run.database();
        let mut db = schema::open_to_write(&path)?;
        let transaction = db.transaction().map_err(Error::write(&path))?;
        let host = intern_host(&transaction, host).map_err(Error::write(&path))?;
        let metrics = Metrics::intern(&transaction, &path, readings)?;
        transaction.commit().map_err(Error::write(&path))?;
        let (run, open, clock) = (run.clone(), HashMap::new(), EventClock::start());
        Ok(Writer { run, db, path, log, events, host, metrics, open, clock, round: None, uncounted: 0 })
    }

    /// Sets the metric whose readings the event log keeps: live views of the run compare its variants by that metric.
    #[must_use]
    pub fn followed_by(mut self, metric: &str) -> Writer {
        self.events.readings = readings_of(metric);
        self
    }

    /// The path of the file with the output of a cell's commands; None if they printed nothing.
    pub fn output_of(&self, cell: &Cell) -> Option<PathBuf> {
        Some(self.run.output_of(cell)).filter(|path| path.exists())
    }

    /// Applies one event: writes it to the database and the event log.
    ///
    /// # Errors
    /// The event cannot be written, or belongs to a cell that did not start.
    pub fn apply(&mut self, event: &Event) -> Result<()> {
        let at = self.clock.now();
        self.store(at, event)?;
        // The event log comes last, so that a process that reads there of a finished cell finds the cell in the database.
        self.events.append(at, event);
        Ok(())
    }

    /// Returns a note on why the event log is incomplete, once after a write to it failed. The run continues without it.
    pub fn take_failure_of_log(&mut self) -> Option<Note> {
        self.events.take_failure()
    }

    fn store(&mut self, at: f64, event: &Event) -> Result<()> {
        match event {
            Event::RunStarted { .. } => self.execute("UPDATE run SET complete = 0, why = ''", []),
            Event::RoundStarted { round, order } => {
                self.round = Some(*round);
                self.execute(
                    "INSERT OR REPLACE INTO round(number, host, variant_order) VALUES(?1, ?2, ?3)",
                    params![round, self.host, json(order)],
                )
            }
            Event::CellStarted { cell } => {
                self.open.insert(cell.id(), CellState::new(at, cell.clone()));
                dir::remove_output(&self.run, cell)
            }
            Event::Cell { cell, what } => self.apply_cell_event(cell, what),
            Event::CellFinished { cell, outcome } => self.finish_cell(at, cell, outcome),
            Event::RoundFinished { round } => {
                self.round = None;
                self.execute("UPDATE round SET finished = 1 WHERE number = ?1", [round])
            }
            // Both can be computed from the samples.
            Event::Claims { .. } | Event::Forecast { .. } => Ok(()),
            Event::Note(note) => {
                write_note(&self.db, self.round, None, note).map_err(Error::write(&self.path))
            }
            Event::Command(command) => self.log_command(None, command),
            Event::RunFinished { why, complete } => {
                self.execute("UPDATE run SET complete = ?1, why = ?2", params![complete, why])
            }
        }
    }

    fn apply_cell_event(&mut self, id: &CellId, what: &CellEvent) -> Result<()> {
        if let CellEvent::Command(command) = what {
            return self.log_command(Some(id), command);
        }
        if let CellEvent::Reading(info) = what {
            return self.metrics.add(&self.db, &self.path, info);
        }
        let cell = self.open.get_mut(id).ok_or_else(|| cell_not_started(&self.path, id))?;
        if let CellEvent::Sample(sample) = what {
            self.metrics.check(&self.path, sample)?;
        }
        cell.apply(what);
        Ok(())
    }

    /// Writes a finished cell in one transaction. An interrupted cell is dropped, because the interruption is not the fault
    /// of its variant. A failed cell keeps the samples of the tasks that it finished.
    fn finish_cell(&mut self, at: f64, id: &CellId, outcome: &Outcome) -> Result<()> {
        let cell = self.open.remove(id).ok_or_else(|| cell_not_started(&self.path, id))?;
        if *outcome == Outcome::Interrupted {
            return Ok(());
        }
        let (db, host, metrics, commands) = (&mut self.db, self.host, &self.metrics, self.uncounted as i64);
        let write = || -> rusqlite::Result<()> {
            let transaction = db.transaction()?;
            write_cell(&transaction, cell, at, outcome, host, metrics)?;
            let ended = format!("{:.3}", Timestamp::now());
            transaction
                .execute("UPDATE run SET ended = ?1, commands = commands + ?2", params![ended, commands])?;
            transaction.commit()
        };
        write().map_err(Error::write(&self.path))?;
        self.uncounted = 0;
        Ok(())
    }

    /// Appends a command to the command log, and its output to the output file of its cell.
    fn log_command(&mut self, cell: Option<&CellId>, command: &CommandRecord) -> Result<()> {
        self.uncounted += command.times;
        let open = cell.and_then(|id| self.open.get(id));
        if let (Some(open), Some(output)) = (open, &command.output) {
            dir::append_output(&self.run, &open.cell, command, output)?;
        }
        self.log.append(cell, &CommandRecord { output: None, ..command.clone() })
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<()> {
        self.db.execute(sql, params).map(|_| ()).map_err(Error::write(&self.path))
    }
}

impl Drop for Writer {
    /// Leaves a single database file that can be read anywhere, without the `-wal` and `-shm` files. These stay while another
    /// process is reading the run, which loses nothing.
    fn drop(&mut self) {
        let count = "UPDATE run SET commands = commands + ?1";
        let _ = self.db.execute(count, [self.uncounted as i64]);
        let _ = self.db.busy_timeout(std::time::Duration::ZERO);
        let _ = self.db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()));
    }
}

fn cell_not_started(path: &std::path::Path, id: &CellId) -> Error {
    Error::unfit(path, format!("event for cell {id} before its start event"))
}

/// The row id of a host; writes the host if it is new.
fn intern_host(db: &Connection, host: &Host) -> rusqlite::Result<i64> {
    let facts = json(&host.facts);
    let key = params![host.hostname, host.boot_id, host.kernel, facts];
    db.execute("INSERT OR IGNORE INTO host(hostname, boot_id, kernel, facts) VALUES(?1, ?2, ?3, ?4)", key)?;
    let find = "SELECT id FROM host WHERE hostname = ?1 AND boot_id = ?2 AND kernel = ?3 AND facts = ?4";
    db.query_row(find, key, |row| row.get(0))
}

/// The clock of events, in seconds since 1970. It advances with a monotonic clock, so a change of the system time during a run
/// changes no duration.
struct EventClock {
    started_at: f64,
    started: Instant,
}

impl EventClock {
    fn start() -> EventClock {
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        EventClock { started_at, started: Instant::now() }
    }

    fn now(&self) -> f64 {
        self.started_at + self.started.elapsed().as_secs_f64()
    }
}

/// Writes a cell that ended at `ended_at` (seconds since 1970), with its samples and notes. Replaces an earlier attempt of the
/// same cell.
fn write_cell(
    db: &Connection,
    state: CellState,
    ended_at: f64,
    outcome: &Outcome,
    host: i64,
    metrics: &Metrics,
) -> rusqlite::Result<()> {
    let spent = state.spent_until(ended_at);
    let CellState { cell, begun_at, samples, notes, .. } = state;
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
        // A missing row means that the sample lacks the reading, and so does NaN.
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
    // SQLite's integers are signed. No load reaches the limit.
    let signed = |number: u64| number.min(i64::MAX as u64) as i64;
    for (number, point) in points.iter().enumerate() {
        let percentile = |of: fn(&Latency) -> u64| point.latency.as_ref().map(|latency| signed(of(latency)));
        insert.execute((
            sample,
            number as i64,
            point.start_s,
            point.length_s,
            point.warm_up,
            signed(point.operations),
            signed(point.bytes),
            percentile(|latency| latency.p50_ns),
            percentile(|latency| latency.p99_ns),
            percentile(|latency| latency.p999_ns),
        ))?;
    }
    Ok(())
}

/// Writes a note, unless the run has the same note already: a resumed run repeats notes.
fn write_note(db: &Connection, round: Option<u32>, cell: Option<i64>, note: &Note) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO note(round, cell, kind, variant, task, text, fix) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
         WHERE NOT EXISTS(SELECT 1 FROM note WHERE round IS ?1 AND cell IS ?2 AND kind = ?3
                          AND variant IS ?4 AND task IS ?5 AND text = ?6 AND fix IS ?7)",
    )?
    .execute(params![round, cell, word(&note.kind), note.variant, note.task, note.text, note.fix])?;
    Ok(())
}

/// The row id of a variant; writes the variant if it is new.
pub(crate) fn intern_variant(db: &Connection, variant: &Variant) -> rusqlite::Result<i64> {
    db.execute(
        "INSERT OR IGNORE INTO variant(name, levels) VALUES(?1, ?2)",
        params![variant.name, json(&variant.levels)],
    )?;
    db.query_row("SELECT id FROM variant WHERE name = ?1", [&variant.name], |row| row.get(0))
}

/// The row id of a task; writes the task if it is new.
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

/// The row ids of the readings that a run defines, by name.
struct Metrics(HashMap<String, i64>);

impl Metrics {
    /// Writes the definitions that are new, then reads the ids of all definitions of the run, including readings that commands
    /// printed earlier.
    ///
    /// # Errors
    /// The run has another definition of one of these readings: values with different meanings would be mixed.
    fn intern(db: &Connection, path: &Path, defs: &[ReadingDef]) -> Result<Metrics> {
        for def in defs {
            let def = def.into();
            let (_, same) = define(db, &def).map_err(Error::write(path))?;
            if !same {
                let what = format!(
                    "this run has another definition of {} than this fsarena (`{def}`); resume it with the version that \
                     started it",
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

    /// Adds a reading that a command printed.
    ///
    /// # Errors
    /// The run has another definition of a reading with that name.
    fn add(&mut self, db: &Connection, path: &Path, info: &MetricSpec) -> Result<()> {
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

    /// Returns an error for a sample with an undefined reading, whose value would be lost silently.
    fn check(&self, path: &Path, sample: &Sample) -> Result<()> {
        let Some(name) = sample.readings.0.keys().find(|name| !self.0.contains_key(*name)) else {
            return Ok(());
        };
        let what = format!("task {} reports {name}, which is not a defined reading", sample.task.id);
        Err(Error::unfit(path, what))
    }
}

/// Writes the definition of a reading if the run has none with that name. Returns the row id, and whether the run's definition
/// is the same.
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

/// Serializes plain data as JSON.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys always becomes JSON")
}

/// The name that serde gives a unit, a direction or a kind of note, without quotes.
fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').to_string()
}

#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;
