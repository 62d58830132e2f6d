//! Writes the events of a run to its directory. A cell stays in memory while it runs and is written when it ends.

use crate::insert::{Metrics, intern_host, json, write_cell, write_note};
use crate::{Error, Result, RunDir, command_log::CommandLog, dir, event_log::EventLog, schema, views};
use fsarena_core::cell::{Cell, CellId};
use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, Outcome};
use fsarena_core::{host::Host, metric::readings_of, sample::ReadingDef, state::CellState};
use jiff::Timestamp;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::path::PathBuf;
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
        let transaction = db.transaction().map_err(Error::while_writing(&path))?;
        // An earlier version may have begun the run, without views.
        transaction.execute_batch(&views::views_sql(&run.plan()?)).map_err(Error::while_writing(&path))?;
        let host = intern_host(&transaction, host).map_err(Error::while_writing(&path))?;
        let metrics = Metrics::intern(&transaction, &path, readings)?;
        transaction.commit().map_err(Error::while_writing(&path))?;
        let (run, open, clock) = (run.clone(), HashMap::new(), EventClock::start());
        Ok(Writer { run, db, path, log, events, host, metrics, open, clock, round: None, uncounted: 0 })
    }

    /// Sets the metric whose readings the event log keeps: live views of the run compare its variants by that metric.
    #[must_use]
    pub fn with_live_metric(mut self, metric: &str) -> Writer {
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
        // Append to the event log last: a process that reads the end of a cell there must find the cell in the database.
        self.events.append(at, event);
        Ok(())
    }

    /// If a write to the event log has failed, the first call returns a note with the reason; other calls return `None`. The
    /// run continues without the event log.
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
                write_note(&self.db, self.round, None, note).map_err(Error::while_writing(&self.path))
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
        write().map_err(Error::while_writing(&self.path))?;
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
        self.db.execute(sql, params).map(|_| ()).map_err(Error::while_writing(&self.path))
    }
}

impl Drop for Writer {
    /// Leaves a single database file that can be read anywhere, without the `-wal` and `-shm` files. While another process is
    /// reading the run, these two files stay, and no data is lost.
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

#[cfg(test)]
mod tests;
