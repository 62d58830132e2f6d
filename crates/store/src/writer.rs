//! Writes the events of a run to its directory. A cell stays in memory while it runs and is written when it ends.

use crate::insert::{ReadingIds, intern_host, to_json, write_cell, write_note_once};
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
    db_path: PathBuf,
    command_log: CommandLog,
    event_log: EventLog,
    host_id: i64,
    reading_ids: ReadingIds,
    /// The cells that have started and not ended.
    open_cells: HashMap<CellId, CellState>,
    clock: EventClock,
    /// The round that has started and not ended.
    open_round: Option<u32>,
    /// The number of commands in the log that the database does not count yet.
    uncounted_commands: u64,
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
        let command_log = CommandLog::open(&run.command_log_file())?;
        let event_log = EventLog::open(&run.event_log_file());
        let db_path = run.database_file();
        let mut db = schema::open_to_write(&db_path)?;
        let transaction = db.transaction().map_err(Error::while_writing(&db_path))?;
        // An earlier version may have begun the run, without views.
        transaction.execute_batch(&views::views_sql(&run.plan()?)).map_err(Error::while_writing(&db_path))?;
        let host_id = intern_host(&transaction, host).map_err(Error::while_writing(&db_path))?;
        let reading_ids = ReadingIds::intern(&transaction, &db_path, readings)?;
        transaction.commit().map_err(Error::while_writing(&db_path))?;
        let (run, open_cells, clock) = (run.clone(), HashMap::new(), EventClock::start());
        Ok(Writer {
            run,
            db,
            db_path,
            command_log,
            event_log,
            host_id,
            reading_ids,
            open_cells,
            clock,
            open_round: None,
            uncounted_commands: 0,
        })
    }

    /// Sets the metric whose readings the event log keeps: live views of the run compare its variants by that metric.
    #[must_use]
    pub fn with_live_metric(mut self, metric: &str) -> Writer {
        self.event_log.readings = readings_of(metric);
        self
    }

    /// The path of the file with the output of a cell's commands; None if they printed nothing.
    pub fn output_file(&self, cell: &Cell) -> Option<PathBuf> {
        Some(self.run.output_file(cell)).filter(|path| path.exists())
    }

    /// Writes one event to the database and the event log.
    ///
    /// # Errors
    /// The event cannot be written, or belongs to a cell that did not start.
    pub fn apply(&mut self, event: &Event) -> Result<()> {
        let time_s = self.clock.now();
        self.write_event(time_s, event)?;
        // Append to the event log last: a process that reads the end of a cell there must find the cell in the database.
        self.event_log.append(time_s, event);
        Ok(())
    }

    /// If a write to the event log has failed, the first call returns a note with the reason; other calls return `None`. The
    /// run continues without the event log.
    pub fn take_event_log_failure(&mut self) -> Option<Note> {
        self.event_log.take_failure()
    }

    fn write_event(&mut self, time_s: f64, event: &Event) -> Result<()> {
        match event {
            Event::RunStarted { .. } => self.execute("UPDATE run SET complete = 0, why = ''", []),
            Event::RoundStarted { round, order } => {
                self.open_round = Some(*round);
                self.execute(
                    "INSERT OR REPLACE INTO round(number, host, variant_order) VALUES(?1, ?2, ?3)",
                    params![round, self.host_id, to_json(order)],
                )
            }
            Event::CellStarted { cell } => {
                self.open_cells.insert(cell.id(), CellState::new(time_s, cell.clone()));
                dir::remove_output(&self.run, cell)
            }
            Event::Cell { cell, event } => self.apply_cell_event(cell, event),
            Event::CellFinished { cell, outcome } => self.finish_cell(time_s, cell, outcome),
            Event::RoundFinished { round } => {
                self.open_round = None;
                self.execute("UPDATE round SET finished = 1 WHERE number = ?1", [round])
            }
            // Both can be computed from the samples.
            Event::Claims { .. } | Event::Forecast { .. } => Ok(()),
            Event::Note(note) => {
                write_note_once(&self.db, self.open_round, None, note).map_err(Error::while_writing(&self.db_path))
            }
            Event::Command(command) => self.log_command(None, command),
            Event::RunFinished { why, complete } => {
                if *complete {
                    // A crash may have lost the event of the end of a round whose cells are all stored, and a resumed run
                    // does not repeat such a round.
                    self.execute("UPDATE round SET finished = 1", [])?;
                }
                self.execute("UPDATE run SET complete = ?1, why = ?2", params![complete, why])
            }
        }
    }

    fn apply_cell_event(&mut self, id: &CellId, event: &CellEvent) -> Result<()> {
        if let CellEvent::Command(command) = event {
            return self.log_command(Some(id), command);
        }
        if let CellEvent::Reading(definition) = event {
            return self.reading_ids.add(&self.db, &self.db_path, definition);
        }
        let cell = self.open_cells.get_mut(id).ok_or_else(|| cell_not_started_error(&self.db_path, id))?;
        if let CellEvent::Sample(sample) = event {
            self.reading_ids.check_sample(&self.db_path, sample)?;
        }
        cell.apply(event);
        Ok(())
    }

    /// Writes a finished cell in one transaction. An interrupted cell is dropped, because the interruption is not the fault
    /// of its variant. A failed cell keeps the samples of the tasks that it finished.
    fn finish_cell(&mut self, ended_at: f64, id: &CellId, outcome: &Outcome) -> Result<()> {
        let cell = self.open_cells.remove(id).ok_or_else(|| cell_not_started_error(&self.db_path, id))?;
        if *outcome == Outcome::Interrupted {
            return Ok(());
        }
        let (db, host_id, reading_ids, commands) =
            (&mut self.db, self.host_id, &self.reading_ids, self.uncounted_commands as i64);
        let write = || -> rusqlite::Result<()> {
            let transaction = db.transaction()?;
            write_cell(&transaction, cell, ended_at, outcome, host_id, reading_ids)?;
            let run_ended_at = format!("{:.3}", Timestamp::now());
            transaction
                .execute("UPDATE run SET ended = ?1, commands = commands + ?2", params![run_ended_at, commands])?;
            transaction.commit()
        };
        write().map_err(Error::while_writing(&self.db_path))?;
        self.uncounted_commands = 0;
        Ok(())
    }

    /// Appends a command to the command log, and its output to the output file of its cell.
    fn log_command(&mut self, cell: Option<&CellId>, command: &CommandRecord) -> Result<()> {
        self.uncounted_commands += command.times;
        let open_cell = cell.and_then(|id| self.open_cells.get(id));
        if let (Some(open_cell), Some(output)) = (open_cell, &command.output) {
            dir::append_output(&self.run, &open_cell.cell, command, output)?;
        }
        self.command_log.append(cell, &CommandRecord { output: None, ..command.clone() })
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<()> {
        self.db.execute(sql, params).map(|_| ()).map_err(Error::while_writing(&self.db_path))
    }
}

impl Drop for Writer {
    /// Leaves a single database file that can be read anywhere, without the `-wal` and `-shm` files. While another process is
    /// reading the run, these two files stay, and no data is lost.
    fn drop(&mut self) {
        let count = "UPDATE run SET commands = commands + ?1";
        let _ = self.db.execute(count, [self.uncounted_commands as i64]);
        let _ = self.db.busy_timeout(std::time::Duration::ZERO);
        let _ = self.db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()));
    }
}

fn cell_not_started_error(path: &std::path::Path, id: &CellId) -> Error {
    Error::invalid_data(path, format!("event for cell {id} before its start event"))
}

/// The clock of events, in seconds since 1970. It advances with a monotonic clock, so a change of the system time during a run
/// changes no duration.
struct EventClock {
    /// The system time at the start.
    start_s: f64,
    start: Instant,
}

impl EventClock {
    fn start() -> EventClock {
        let start_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        EventClock { start_s, start: Instant::now() }
    }

    fn now(&self) -> f64 {
        self.start_s + self.start.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
