//! `sqlite`: updates, reads, inserts and checkpoints by one connection to an SQLite database in this process. Each insert or
//! update is a transaction.

mod database;

use crate::pace::{self, PacedLoad};
use crate::payload::{load_number, save_number};
use crate::task::{self, Action, Result, Task};
use crate::workload::{Job, Place, Room, Survey, Workload, fairness, remark};
use database::{Database, INSERT, Operation, READ, TableShape, UPDATE};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::setting_text::setting;
use fsarena_core::{event::Note, names::distinct, sample::TaskOutput};
use fsarena_engine::custom_load;
use std::path::PathBuf;

/// The workload.
pub struct Sqlite;

/// Seconds of a task by scale.
const SECONDS: [f64; 3] = [10.0, 0.5, 0.05];
/// The number of rows at scale paper, and the least number at any scale.
const ROWS: (u64, u64) = (1_000_000, 1000);

const DEF: WorkloadDef = WorkloadDef {
    id: "sqlite",
    help: "transactions and reads of an SQLite database: update, point reads, insert, checkpoint, by journal mode",
    metrics: &["commits_per_s", "latency_p50", "latency_p95", "latency_p99", "iops", "elapsed"],
    settings: &[
        SettingDef::modes("journal", &["wal", "delete", "truncate", "persist"], &["wal", "delete"])
            .help("journal modes, each adds a set of tasks: `wal` is a write-ahead log; `delete`, `truncate` and `persist` are what a commit does to the rollback journal"),
        SettingDef::modes("synchronous", &["full", "normal"], &["full"])
            .help("PRAGMA synchronous, each a set of tasks; normal with journal wal syncs at checkpoints only"),
        SettingDef::int("rows", 0..=1 << 40, 0)
            .help("rows of the table that is updated and read; 0 for 1,000,000 at scale paper, and fewer at quick and tiny"),
        SettingDef::size("value", 1..=1 << 20, 256).help("bytes of the value in a row"),
        SettingDef::int("batch", 1..=1_000_000, 1).help("rows that one transaction inserts or updates"),
        pace::RATES,
        pace::ARRIVALS,
        pace::SECONDS,
        pace::OPERATIONS,
    ],
};

/// One task on a database with a journal mode and a level of syncing.
#[derive(Debug, Clone)]
struct DatabaseTask {
    journal: String,
    synchronous: String,
    /// The operation and its rate, or `None` for a checkpoint of the log.
    load: Option<(Operation, i64)>,
}

impl DatabaseTask {
    /// Every task in order. Tasks that do not change the size of the database come first, so that their work is the same in
    /// all variants.
    fn all(job: &Job) -> Vec<DatabaseTask> {
        let rates = job.settings.ints(pace::RATES.id);
        let mut all = vec![];
        for journal in distinct(job.settings.words("journal")) {
            for synchronous in distinct(job.settings.words("synchronous")) {
                let task =
                    |load| DatabaseTask { journal: journal.into(), synchronous: synchronous.into(), load };
                for operation in [UPDATE, READ, INSERT] {
                    all.extend(rates.iter().map(|rate| task(Some((operation, *rate)))));
                }
                all.extend((journal == "wal").then(|| task(None)));
            }
        }
        all
    }

    fn info(&self) -> TaskInfo {
        let mut info = match self.load {
            Some((Operation { name, title, .. }, rate)) => PacedLoad { clients: 1, rate }.info(name, title),
            None => task::info("checkpoint", "Checkpoint: bring the log into the database", []),
        };
        // There is always one client, because SQLite allows one writer at a time.
        info.id.params.remove("clients");
        let own = [("journal", &self.journal), ("synchronous", &self.synchronous)];
        info.id.params.extend(own.map(|(name, value)| (name.to_string(), value.clone())));
        info
    }

    fn database(&self, job: &Job, place: &Place) -> Database {
        Database::new(&dir(place), shape(job), &self.journal, &self.synchronous)
    }

    fn create(&self, job: &Job, place: &Place) -> Result<TaskOutput> {
        save_number(&committed(place), 0)?;
        self.database(job, place).create().map(TaskOutput::from)
    }

    fn work(&self, job: &Job, place: &Place) -> Result<TaskOutput> {
        let mut database = self.database(job, place);
        let Some((operation, rate)) = self.load else { return Ok(database.checkpoint()?) };
        database.operation = operation;
        let kinds = [if operation == READ { "read" } else { "commit" }];
        let config = PacedLoad { clients: 1, rate }.config(job, &kinds, pace::bound(job, SECONDS));
        let outcome = custom_load::run(&config, &database)?;
        if operation == INSERT {
            let committed = committed(place);
            save_number(&committed, load_number(&committed)? + outcome.operations() * shape(job).batch)?;
        }
        Ok(outcome.task_output())
    }
}

fn dir(place: &Place) -> PathBuf {
    place.root.join("sqlite")
}

/// The file on the source disk with the number of rows that were inserted.
fn committed(place: &Place) -> PathBuf {
    place.other.join("committed")
}

fn shape(job: &Job) -> TableShape {
    let settings = &job.settings;
    TableShape {
        rows: job.count("rows", ROWS),
        value: settings.int("value") as usize,
        batch: settings.int("batch") as u64,
        seed: job.seed,
    }
}

impl Workload for Sqlite {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        DatabaseTask::all(job).iter().map(DatabaseTask::info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let room = Room { bytes: shape(job).room(pace::bound(job, SECONDS)), inodes: 8, other_bytes: 4096 };
        Ok(Survey { room, remarks: remarks(job), ..Survey::default() })
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let all = DatabaseTask::all(job);
        let task = |(at, task): (usize, &DatabaseTask)| {
            let needed = (task.clone(), job.clone(), place.clone());
            // The words describe a call in the log of commands. SQLite is a library, so no program of that name runs.
            let call = |what: &str, run: fn(&DatabaseTask, &Job, &Place) -> Result<TaskOutput>| {
                let words = ["sqlite3".to_string(), dir(place).display().to_string(), what.into()];
                Action::with(&needed, words, move |(task, job, place)| run(task, job, place))
            };
            let mode = |task: &DatabaseTask| (task.journal.clone(), task.synchronous.clone());
            let is_fresh = at == 0 || mode(task) != mode(&all[at - 1]);
            let mut prepare = Vec::from_iter(is_fresh.then(|| call("make", DatabaseTask::create)));
            if task.load.is_none() {
                let fill = |task: &DatabaseTask, job: &Job, place: &Place| {
                    Ok(task.database(job, place).fill_log()?)
                };
                prepare.push(call("fill the log", fill));
            }
            let work =
                call(task.load.map_or("checkpoint", |(operation, _)| operation.name), DatabaseTask::work);
            Task::new(task.info(), work).after(prepare)
        };
        Ok(all.iter().enumerate().map(task).collect())
    }

    /// Runs SQLite's own check of the whole file and compares every row.
    fn checks(&self, job: &Job, place: &Place, task: &TaskId) -> Vec<Action> {
        if task.name == READ.name {
            return vec![];
        }
        let shape = shape(job);
        let words =
            ["sqlite3".to_string(), dir(place).display().to_string(), "PRAGMA integrity_check".into()];
        vec![Action::with(place, words, move |place| {
            database::verify(&dir(place), &shape, load_number(&committed(place))?)
        })]
    }
}

/// The notes on this workload in every report.
fn remarks(job: &Job) -> Vec<Note> {
    let shape = shape(job);
    let text = format!(
        "sqlite {}: a table of {} rows of {} bytes, {} a transaction, one connection; SQLite checkpoints the log by itself \
         after 1000 pages; PRAGMA integrity_check and a comparison of all rows follow each task that writes",
        rusqlite::version(),
        shape.rows,
        shape.value,
        shape.batch
    );
    let mut notes = vec![remark(text)];
    if DatabaseTask::all(job).iter().any(|task| task.journal == "wal" && task.synchronous == "normal") {
        let text = "sqlite: with journal=wal and synchronous=normal SQLite syncs at checkpoints only: a power cut takes the \
                    last commits, so they are not durable";
        notes.push(fairness(text).fix(setting("set", "synchronous=full")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, ids, perform, place};
    use fsarena_core::event::NoteKind;

    fn job(set: &[(&str, &str)]) -> Job {
        testing::job(&DEF, 3, set)
    }

    #[test]
    fn every_mode_runs_every_task_and_keeps_every_row() {
        let set = [("synchronous", "full,normal"), ("operations", "5"), ("rows", "100"), ("batch", "3")];
        let job = job(&set);
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let outline = ids(&Sqlite.outline(&job));
        assert_eq!(outline.len(), 2 * 4 + 2 * 3);
        assert_eq!(outline[0], "update[journal=wal,rate=max,synchronous=full]");
        assert_eq!(outline[3], "checkpoint[journal=wal,synchronous=full]");
        let mut done = vec![];
        for task in Sqlite.steps(&job, &place).unwrap() {
            let id = task.info.id;
            let log = || dir.path().join("sqlite/data.db-wal").metadata().map_or(0, |meta| meta.len());
            perform(task.prepare);
            let logged = log();
            let found = perform(task.work);
            match id.name.as_str() {
                "checkpoint" => assert!(logged > 100 * 4096 && log() == 0, "{logged} {}", log()),
                name => {
                    let kind = if name == "read" { "read" } else { "commit" };
                    assert_eq!(found.readings.get(&format!("{kind}_operations_count")), Some(5.0));
                }
            }
            perform(Sqlite.checks(&job, &place, &id));
            done.push(id.to_string());
        }
        assert_eq!(done, outline);
    }

    #[test]
    fn a_row_that_is_lost_or_damaged_is_a_violation() {
        let dir = tempfile::tempdir().unwrap();
        let shape = shape(&job(&[("rows", "50")]));
        Database::new(dir.path(), shape, "delete", "full").create().unwrap();
        database::verify(dir.path(), &shape, 0).unwrap();
        let check_error = |inserted| database::verify(dir.path(), &shape, inserted).unwrap_err().to_string();
        assert!(check_error(1).ends_with("table log has 0 rows instead of 1"), "{}", check_error(1));
        let path = dir.path().join("data.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute("UPDATE data SET value = x'00' WHERE key = 7", []).unwrap();
        drop(connection);
        assert!(
            check_error(0).starts_with("DATA LOSS")
                && check_error(0).contains("row 7 of table data is damaged")
        );
        std::fs::write(&path, &std::fs::read(&path).unwrap()[..8192]).unwrap();
        assert!(check_error(0).contains("data.db"), "{}", check_error(0));
    }

    #[test]
    fn a_mode_that_can_lose_commits_in_a_power_cut_gets_a_fairness_note() {
        let has_fairness_note = |synchronous: &str| {
            let job = job(&[("synchronous", synchronous)]);
            remarks(&job).iter().any(|note| note.kind == NoteKind::Fairness)
        };
        assert!(has_fairness_note("normal") && !has_fairness_note("full"));
    }
}
