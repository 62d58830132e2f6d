//! The sink of a run's events.

use crate::cell::{Metrics, OpenCell, json, write_note};
use crate::events::EventLog;
use crate::log::CommandLog;
use crate::{Error, Result, RunDir, schema};
use fsarena_core::cell::CellId;
use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, Outcome};
use fsarena_core::host::Host;
use fsarena_core::sample::ReadingDef;
use jiff::Timestamp;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::path::PathBuf;

/// Writes what the runner says. A cell is in the database from the moment that its end was applied, and
/// not at all before.
pub struct Writer {
    db: Connection,
    path: PathBuf,
    log: CommandLog,
    events: EventLog,
    host: i64,
    metrics: Metrics,
    open: HashMap<CellId, OpenCell>,
    block: Option<u32>,
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
    /// of one of these names in another unit.
    pub fn open(run: &RunDir, host: &Host, readings: &[ReadingDef]) -> Result<Writer> {
        let log = CommandLog::open(&run.command_log())?;
        let events = EventLog::open(&run.event_log());
        let path = run.database();
        let mut db = schema::open_to_write(&path)?;
        let transaction = db.transaction().map_err(Error::write(&path))?;
        let host = intern_host(&transaction, host).map_err(Error::write(&path))?;
        let metrics = Metrics::intern(&transaction, &path, readings)?;
        transaction.commit().map_err(Error::write(&path))?;
        Ok(Writer { db, path, log, events, host, metrics, open: HashMap::new(), block: None, uncounted: 0 })
    }

    /// Takes over one event.
    ///
    /// # Errors
    /// Where it cannot be written, or makes no sense: something inside a cell that did not begin.
    pub fn apply(&mut self, event: &Event) -> Result<()> {
        self.store(event)?;
        // Last, so that whoever hears of a cell finds it in the database.
        self.events.append(event);
        Ok(())
    }

    fn store(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::RunStarted { .. } => self.execute("UPDATE run SET complete = 0, why = ''", []),
            Event::BlockStarted { block, order } => {
                self.block = Some(*block);
                self.execute(
                    "INSERT OR REPLACE INTO block(number, host, arm_order) VALUES(?1, ?2, ?3)",
                    params![block, self.host, json(order)],
                )
            }
            Event::CellStarted { cell } => {
                self.open.insert(cell.id(), OpenCell::new(cell.clone()));
                Ok(())
            }
            Event::Cell { cell, what } => self.inside(cell, what),
            Event::CellFinished { cell, outcome } => self.finish(cell, outcome),
            Event::BlockFinished { block } => {
                self.block = None;
                self.execute("UPDATE block SET finished = 1 WHERE number = ?1", [block])
            }
            // Both follow from the samples.
            Event::Claims { .. } | Event::Forecast { .. } => Ok(()),
            Event::Note(note) => self.note(note),
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
        let Some(cell) = self.open.get_mut(id) else {
            return Err(not_begun(&self.path, id));
        };
        match what {
            CellEvent::Phase { .. } | CellEvent::Command(_) | CellEvent::Profile { .. } => {}
            CellEvent::Sample(sample) => {
                self.metrics.check(&self.path, sample)?;
                cell.samples.push(sample.clone());
            }
            CellEvent::Note(note) => cell.notes.push(note.clone()),
            CellEvent::Spent { what, ns } => cell.spend(what, *ns),
        }
        Ok(())
    }

    /// One transaction: all of the cell or nothing. An interrupted cell says nothing of its arm and is
    /// forgotten; a failed one keeps the steps that it finished.
    fn finish(&mut self, id: &CellId, outcome: &Outcome) -> Result<()> {
        let Some(cell) = self.open.remove(id) else {
            return Err(not_begun(&self.path, id));
        };
        if *outcome == Outcome::Interrupted {
            return Ok(());
        }
        let (db, host, metrics, commands) = (&mut self.db, self.host, &self.metrics, self.uncounted as i64);
        let write = || -> rusqlite::Result<()> {
            let transaction = db.transaction()?;
            cell.write(&transaction, outcome, host, metrics)?;
            transaction
                .execute("UPDATE run SET ended = ?1, commands = commands + ?2", params![now(), commands])?;
            transaction.commit()
        };
        write().map_err(Error::write(&self.path))?;
        self.uncounted = 0;
        Ok(())
    }

    fn note(&self, note: &Note) -> Result<()> {
        write_note(&self.db, self.block, None, note).map_err(Error::write(&self.path))
    }

    fn command(&mut self, cell: Option<&CellId>, command: &CommandRecord) -> Result<()> {
        self.uncounted += command.times;
        self.log.append(cell, command)
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

fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

fn intern_host(db: &Connection, host: &Host) -> rusqlite::Result<i64> {
    let facts = json(&host.facts);
    let key = params![host.hostname, host.boot_id, host.kernel, facts];
    db.execute("INSERT OR IGNORE INTO host(hostname, boot_id, kernel, facts) VALUES(?1, ?2, ?3, ?4)", key)?;
    let find = "SELECT id FROM host WHERE hostname = ?1 AND boot_id = ?2 AND kernel = ?3 AND facts = ?4";
    db.query_row(find, key, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{begin_cell, cells, command, host, plan, run_cell, sample, writer};
    use crate::{dead_arms, done_cells, read};
    use fsarena_core::event::NoteKind;
    use fsarena_core::metric::TIMER;

    fn inside(id: &CellId, what: CellEvent) -> Event {
        Event::Cell { cell: id.clone(), what }
    }

    /// Copies a run as a crash at this moment would leave it.
    fn crashed(run: &RunDir, root: &std::path::Path) -> RunDir {
        let path = root.join("20260101-000000-crashed-2222");
        std::fs::create_dir(&path).unwrap();
        for entry in std::fs::read_dir(run.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), path.join(entry.file_name())).unwrap();
        }
        RunDir::open(&path).unwrap()
    }

    #[test]
    fn every_event_comes_back() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = writer(root.path(), &plan);
        let cell = cells(&plan, 0).remove(0);
        let id = cell.id();
        let arms = vec!["ext4".to_string(), "xfs".to_string()];
        let note = Note::new(NoteKind::SettleTimeout, "slow").arm(&cell.arm.name).step("untar").fix("wait");
        let events = [
            Event::RunStarted {
                blocks: 8,
                arms: arms.clone(),
                steps_per_cell: 1,
                already_done: 0,
                budget_s: None,
            },
            Event::Note(Note::new(NoteKind::Fairness, "unfair")),
            Event::Command(command("losetup")),
            Event::BlockStarted { block: 0, order: arms },
            Event::Note(Note::new(NoteKind::Remark, "in the block")),
            Event::CellStarted { cell: cell.clone() },
            inside(&id, CellEvent::Phase { name: "mkfs".into() }),
            inside(&id, CellEvent::Command(CommandRecord { times: 3, ..command("touch") })),
            inside(&id, CellEvent::Sample(sample("untar", 1.5e9))),
            inside(&id, CellEvent::Note(note.clone())),
            inside(&id, CellEvent::Spent { what: "timed".into(), ns: 5 }),
            inside(&id, CellEvent::Spent { what: "settle".into(), ns: 7 }),
            inside(&id, CellEvent::Spent { what: "timed".into(), ns: 6 }),
            Event::CellFinished { cell: id.clone(), outcome: Outcome::Done },
            Event::BlockFinished { block: 0 },
            Event::RunFinished { why: "all blocks done".into(), complete: true },
        ];
        for event in &events {
            writer.apply(event).unwrap();
        }
        drop(writer);

        let record = read(&run).unwrap();
        assert_eq!((record.id, record.version, record.plan), (run.id(), "0.1.0".into(), plan));
        assert_eq!((record.status.complete, record.status.why.as_str()), (true, "all blocks done"));
        assert!(record.started.ends_with('Z') && record.ended >= record.started);
        assert_eq!(record.commands, 4);
        assert_eq!(record.hosts, [host("b1")]);
        assert_eq!(record.arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>(), ["ext4", "xfs"]);
        assert_eq!(record.steps, [sample("untar", 0.0).step]);
        let stored = &record.cells[0];
        assert_eq!((&stored.id, stored.block, stored.position), (&id.0, 0, 0));
        assert_eq!(record.arms[stored.arm], cell.arm);
        assert_eq!((stored.workload.as_str(), &stored.outcome, stored.host), ("tasks", &Outcome::Done, 0));
        assert!(stored.started_at > 1.7e9);
        assert_eq!(stored.spent[0].0, "total");
        assert_eq!(stored.spent[1..], [("timed".into(), 11), ("settle".into(), 7)]);
        assert_eq!(
            (record.samples.cell, record.samples.step, record.samples.started_at),
            (vec![0], vec![0], vec![1e9])
        );
        let ids: Vec<_> = record.readings.iter().map(|reading| reading.id.as_str()).collect();
        assert_eq!(ids, ["elapsed_ns", "durable_ns"]);
        assert_eq!(record.readings[0].help, TIMER[0].help);
        assert_eq!(record.samples.values[0], [1.5e9]);
        assert!(record.samples.values[1][0].is_nan(), "a reading that was not taken is NaN");
        let expected = [
            (None, Note::new(NoteKind::Fairness, "unfair")),
            (Some(0), Note::new(NoteKind::Remark, "in the block")),
            (Some(0), note),
        ];
        assert_eq!(record.notes, expected);
        assert!(!run.path().join("run.db-wal").exists(), "a run that ended is one plain file");
    }

    #[test]
    fn a_crash_loses_one_cell_and_never_half_of_one() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = writer(root.path(), &plan);
        let [first, second] = [0, 1].map(|i| cells(&plan, 0)[i].clone());
        run_cell(&mut writer, &first, Outcome::Done);
        begin_cell(&mut writer, &second);
        writer.apply(&inside(&second.id(), CellEvent::Command(command("cp")))).unwrap();
        let after = crashed(&run, root.path());
        let record = read(&after).unwrap();
        assert_eq!((record.cells.len(), record.samples.len()), (1, 2));
        assert_eq!(record.status.why, "interrupted");
        assert_eq!(done_cells(&after).unwrap(), [first.id()].into());
        let log = std::fs::read_to_string(after.command_log()).unwrap();
        assert!(log.contains("\"cp\""), "commands are logged at once: {log}");

        let mut resumed = Writer::open(&after, &host("b2"), TIMER).unwrap();
        run_cell(&mut resumed, &second, Outcome::Done);
        drop(resumed);
        let record = read(&after).unwrap();
        assert_eq!((record.cells.len(), record.samples.len()), (2, 4));
        assert_eq!(record.cells.iter().map(|cell| cell.host).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(record.hosts[1].boot_id, "b2");
    }

    #[test]
    fn interrupted_cells_are_forgotten_and_failed_ones_keep_their_samples() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = writer(root.path(), &plan);
        let [first, second] = [0, 1].map(|i| cells(&plan, 0)[i].clone());
        run_cell(&mut writer, &first, Outcome::Interrupted);
        run_cell(&mut writer, &second, Outcome::Failed { why: "cp said no".into() });
        let record = read(&run).unwrap();
        assert_eq!(record.status.why, "running");
        assert_eq!((record.cells.len(), record.samples.len()), (1, 2));
        assert_eq!(record.cells[0].outcome, Outcome::Failed { why: "cp said no".into() });
        assert_eq!(done_cells(&run).unwrap().len(), 0);
        assert_eq!(dead_arms(&run).unwrap(), [(second.arm.name.clone(), 0)].into());
        writer.apply(&Event::Note(Note::new(NoteKind::ArmFailed, "gone").arm(&first.arm.name))).unwrap();
        assert_eq!(dead_arms(&run).unwrap().len(), 2);
    }

    #[test]
    fn a_cell_that_is_run_again_takes_the_place_of_the_first_try() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let (run, mut writer) = writer(root.path(), &plan);
        let cell = cells(&plan, 0).remove(0);
        run_cell(&mut writer, &cell, Outcome::Failed { why: "full".into() });
        run_cell(&mut writer, &cell, Outcome::Done);
        let record = read(&run).unwrap();
        assert_eq!((record.cells.len(), record.samples.len()), (1, 2));
        assert_eq!(record.cells[0].outcome, Outcome::Done);
    }

    #[test]
    fn a_resumed_run_does_not_say_things_twice() {
        let root = tempfile::tempdir().unwrap();
        let (run, mut writer) = writer(root.path(), &plan(&["ext4"]));
        for _ in 0..2 {
            writer.apply(&Event::Note(Note::new(NoteKind::Fairness, "unfair"))).unwrap();
            drop(writer);
            writer = Writer::open(&run, &host("b1"), TIMER).unwrap();
        }
        let record = read(&run).unwrap();
        assert_eq!((record.notes.len(), record.hosts.len(), record.readings.len()), (1, 1, 2));
    }

    #[test]
    fn a_resumed_run_is_not_complete_any_more() {
        let root = tempfile::tempdir().unwrap();
        let (run, mut writer) = writer(root.path(), &plan(&["ext4"]));
        writer.apply(&Event::RunFinished { why: "time is up".into(), complete: false }).unwrap();
        let started =
            Event::RunStarted { blocks: 1, arms: vec![], steps_per_cell: 0, already_done: 0, budget_s: None };
        writer.apply(&started).unwrap();
        drop(writer);
        assert_eq!(read(&run).unwrap().status.why, "interrupted");
    }

    #[test]
    fn two_writers_do_not_meet() {
        let root = tempfile::tempdir().unwrap();
        let (run, writer) = writer(root.path(), &plan(&["ext4"]));
        assert!(matches!(Writer::open(&run, &host("b1"), TIMER), Err(Error::Busy { .. })));
        drop(writer);
        Writer::open(&run, &host("b1"), TIMER).unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let (run, mut writer) = writer(root.path(), &plan);
        let cell = cells(&plan, 0).remove(0);
        let id = cell.id();
        assert!(writer.apply(&inside(&id, CellEvent::Sample(sample("untar", 1.0)))).is_err());
        assert!(writer.apply(&Event::CellFinished { cell: id.clone(), outcome: Outcome::Done }).is_err());
        writer.apply(&Event::CellStarted { cell }).unwrap();
        let mut odd = sample("untar", 1.0);
        odd.readings.set("moonlight", 1.0);
        let error = writer.apply(&inside(&id, CellEvent::Sample(odd))).unwrap_err();
        assert!(error.to_string().contains("the reading moonlight, which nobody defined"), "{error}");
        drop(writer);
        let other = ReadingDef { unit: fsarena_core::sample::Unit::Bytes, ..TIMER[0] };
        let error = Writer::open(&run, &host("b1"), &[other]).err().unwrap();
        assert!(error.to_string().contains("elapsed_ns"), "{error}");
    }
}
