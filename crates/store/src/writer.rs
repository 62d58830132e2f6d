//! The sink of a run's events.

use crate::cell::{Metrics, OpenCell, json, write_note};
use crate::{Error, Result, RunDir, events::EventLog, log::CommandLog, output, schema};
use fsarena_core::cell::{Cell, CellId};
use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, Outcome};
use fsarena_core::{host::Host, metric::readings_of, sample::ReadingDef};
use jiff::Timestamp;
use rusqlite::{Connection, params};
use std::{collections::HashMap, path::PathBuf};

/// Writes what the runner says. A cell is in the database from the moment that its end was applied, and
/// not at all before.
pub struct Writer {
    run: RunDir,
    db: Connection,
    path: PathBuf,
    log: CommandLog,
    events: EventLog,
    host: i64,
    metrics: Metrics,
    open: HashMap<CellId, OpenCell>,
    round: Option<u32>,
    /// Commands that the log has and the database does not count yet.
    uncounted: u64,
}

impl Writer {
    /// Opens a run to add to it, be it new or resumed, on this host or another.
    ///
    /// `readings` defines every reading that samples may bring: the timer's, the probes', the executor's and
    /// the workloads'.
    ///
    /// # Errors
    /// Where the run is being written by another process, cannot be written, is damaged, or has a reading
    /// of one of these names with another meaning.
    pub fn open(run: &RunDir, host: &Host, readings: &[ReadingDef]) -> Result<Writer> {
        let log = CommandLog::open(&run.command_log())?;
        let events = EventLog::open(&run.event_log());
        let path = run.database();
        let mut db = schema::open_to_write(&path)?;
        let transaction = db.transaction().map_err(Error::write(&path))?;
        let host = intern_host(&transaction, host).map_err(Error::write(&path))?;
        let metrics = Metrics::intern(&transaction, &path, readings)?;
        transaction.commit().map_err(Error::write(&path))?;
        let (run, open) = (run.clone(), HashMap::new());
        Ok(Writer { run, db, path, log, events, host, metrics, open, round: None, uncounted: 0 })
    }

    /// Keeps the readings of a metric in the event log: those who follow the run compare its variants by that.
    #[must_use]
    pub fn followed_by(mut self, metric: &str) -> Writer {
        self.events.readings = readings_of(metric);
        self
    }

    /// The file with the output of a cell's commands, where they printed anything.
    pub fn output_of(&self, cell: &Cell) -> Option<PathBuf> {
        Some(self.run.output_of(cell)).filter(|path| path.exists())
    }

    /// Takes over one event.
    ///
    /// # Errors
    /// Where it cannot be written, or makes no sense: something inside a cell that did not begin.
    pub fn apply(&mut self, event: &Event) -> Result<()> {
        self.store(event)?;
        // Last, so that a follower that reads of a cell finds it in the database.
        self.events.append(event);
        Ok(())
    }

    /// A note on why the event log is incomplete: once after it could not be written, which ends no run.
    pub fn take_failure_of_log(&mut self) -> Option<Note> {
        self.events.take_failure()
    }

    fn store(&mut self, event: &Event) -> Result<()> {
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
                self.open.insert(cell.id(), OpenCell::new(cell.clone()));
                output::begin(&self.run, cell)
            }
            Event::Cell { cell, what } => self.inside(cell, what),
            Event::CellFinished { cell, outcome } => self.finish(cell, outcome),
            Event::RoundFinished { round } => {
                self.round = None;
                self.execute("UPDATE round SET finished = 1 WHERE number = ?1", [round])
            }
            // Both follow from the samples.
            Event::Claims { .. } | Event::Forecast { .. } => Ok(()),
            Event::Note(note) => {
                write_note(&self.db, self.round, None, note).map_err(Error::write(&self.path))
            }
            Event::Command(command) => self.command(None, command),
            Event::RunFinished { why, complete } => {
                self.execute("UPDATE run SET complete = ?1, why = ?2", params![complete, why])
            }
        }
    }

    fn inside(&mut self, id: &CellId, what: &CellEvent) -> Result<()> {
        if let CellEvent::Command(command) = what {
            return self.command(Some(id), command);
        }
        if let CellEvent::Reading(info) = what {
            return self.metrics.add(&self.db, &self.path, info);
        }
        let cell = self.open.get_mut(id).ok_or_else(|| not_begun(&self.path, id))?;
        if let CellEvent::Sample(sample) = what {
            self.metrics.check(&self.path, sample)?;
        }
        cell.state.apply(what);
        Ok(())
    }

    /// One transaction: all of the cell or nothing. An interrupted cell says nothing of its variant and is
    /// forgotten; a failed one keeps the tasks that it finished.
    fn finish(&mut self, id: &CellId, outcome: &Outcome) -> Result<()> {
        let cell = self.open.remove(id).ok_or_else(|| not_begun(&self.path, id))?;
        if *outcome == Outcome::Interrupted {
            return Ok(());
        }
        let (db, host, metrics, commands) = (&mut self.db, self.host, &self.metrics, self.uncounted as i64);
        let write = || -> rusqlite::Result<()> {
            let transaction = db.transaction()?;
            cell.write(&transaction, outcome, host, metrics)?;
            let ended = format!("{:.3}", Timestamp::now());
            transaction
                .execute("UPDATE run SET ended = ?1, commands = commands + ?2", params![ended, commands])?;
            transaction.commit()
        };
        write().map_err(Error::write(&self.path))?;
        self.uncounted = 0;
        Ok(())
    }

    fn command(&mut self, cell: Option<&CellId>, command: &CommandRecord) -> Result<()> {
        self.uncounted += command.times;
        let open = cell.and_then(|id| self.open.get(id));
        if let (Some(open), Some(output)) = (open, &command.output) {
            output::append(&self.run, &open.state.cell, command, output)?;
        }
        self.log.append(cell, &CommandRecord { output: None, ..command.clone() })
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<()> {
        self.db.execute(sql, params).map(|_| ()).map_err(Error::write(&self.path))
    }
}

impl Drop for Writer {
    /// Leaves one plain file that can be read anywhere, without the two that WAL keeps beside it. Where
    /// someone is reading just now they stay, and the run is whole all the same.
    fn drop(&mut self) {
        let count = "UPDATE run SET commands = commands + ?1";
        let _ = self.db.execute(count, [self.uncounted as i64]);
        let _ = self.db.busy_timeout(std::time::Duration::ZERO);
        let _ = self.db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()));
    }
}

fn not_begun(path: &std::path::Path, id: &CellId) -> Error {
    Error::unfit(path, format!("something happened in cell {id}, which did not begin"))
}

fn intern_host(db: &Connection, host: &Host) -> rusqlite::Result<i64> {
    let facts = json(&host.facts);
    let key = params![host.hostname, host.boot_id, host.kernel, facts];
    db.execute("INSERT OR IGNORE INTO host(hostname, boot_id, kernel, facts) VALUES(?1, ?2, ?3, ?4)", key)?;
    let find = "SELECT id FROM host WHERE hostname = ?1 AND boot_id = ?2 AND kernel = ?3 AND facts = ?4";
    db.query_row(find, key, |row| row.get(0))
}

#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;
