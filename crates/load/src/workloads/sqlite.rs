//! `sqlite`: updates, reads, inserts and checkpoints by one connection to an SQLite database in this process. Each
//! insert or update is a transaction.

use crate::pace::{self, PacedLoad};
use crate::payload::{Noise, make_empty_dir, read_number, save_number};
use crate::task::{self, Action, Result, Task, TaskError};
use crate::workload::{Job, Place, Room, Survey, Workload, fairness_note, remark_note};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::setting_text::setting;
use fsarena_core::{event::Note, names::distinct, sample::TaskOutput, schedule::mix};
use fsarena_engine::custom_load::{self, CustomLoad};
use fsarena_engine::{Bound, EngineError};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rusqlite::{Connection, ErrorCode, PrepFlags, Statement, config::DbConfig, params};
use std::io;
use std::path::{Path, PathBuf};

/// The workload.
pub struct Sqlite;

/// Seconds of a task by scale.
const SECONDS_BY_SCALE: [f64; 3] = [10.0, 0.5, 0.05];
/// The number of rows at scale paper, and the least number at any scale.
const ROW_COUNTS: (u64, u64) = (1_000_000, 1000);

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
    /// The operation and its rate a second, or `None` for a checkpoint of the log.
    load: Option<(SqlOperation, i64)>,
}

impl DatabaseTask {
    /// The tasks of all combinations of settings, in order. Tasks that do not change the size of the database come
    /// first, so that their work is the same in all variants.
    fn combinations(job: &Job) -> Vec<DatabaseTask> {
        let rates = distinct(job.settings.ints(pace::RATES.id));
        let mut tasks = vec![];
        for journal in distinct(job.settings.words("journal")) {
            for synchronous in distinct(job.settings.words("synchronous")) {
                let task = |load| DatabaseTask { journal: journal.into(), synchronous: synchronous.into(), load };
                for operation in [UPDATE, READ, INSERT] {
                    tasks.extend(rates.iter().map(|rate| task(Some((operation, *rate)))));
                }
                tasks.extend((journal == "wal").then(|| task(None)));
            }
        }
        tasks
    }

    fn task_info(&self) -> TaskInfo {
        let mut info = match self.load {
            Some((SqlOperation { name, title, .. }, rate_per_s)) => {
                PacedLoad { clients: 1, rate_per_s }.task_info(name, title)
            }
            None => task::info("checkpoint", "Checkpoint: bring the log into the database", []),
        };
        // There is always one client, because SQLite allows one writer at a time.
        info.id.params.remove("clients");
        let modes = [("journal", &self.journal), ("synchronous", &self.synchronous)];
        info.id.params.extend(modes.map(|(name, value)| (name.to_string(), value.clone())));
        info
    }

    fn database(&self, job: &Job, place: &Place) -> Database {
        Database::new(&database_dir(place), table_settings(job), &self.journal, &self.synchronous)
    }

    fn create_database(&self, job: &Job, place: &Place) -> Result<TaskOutput> {
        save_number(&inserted_rows_file(place), 0)?;
        self.database(job, place).create().map(TaskOutput::from)
    }

    fn perform_work(&self, job: &Job, place: &Place) -> Result<TaskOutput> {
        let mut database = self.database(job, place);
        let Some((operation, rate_per_s)) = self.load else { return Ok(database.checkpoint()?) };
        database.operation = operation;
        let kinds = [if operation == READ { "read" } else { "commit" }];
        let config = PacedLoad { clients: 1, rate_per_s }.config(job, &kinds, pace::task_bound(job, SECONDS_BY_SCALE));
        let outcome = custom_load::run(&config, &database)?;
        if operation == INSERT {
            let file = inserted_rows_file(place);
            let new_rows = outcome.operations() * table_settings(job).batch_rows;
            save_number(&file, read_number(&file)? + new_rows)?;
        }
        Ok(outcome.task_output())
    }
}

fn database_dir(place: &Place) -> PathBuf {
    place.root.join("sqlite")
}

/// The file on the source disk with the number of rows that were inserted.
fn inserted_rows_file(place: &Place) -> PathBuf {
    place.source_dir.join("committed")
}

fn table_settings(job: &Job) -> TableSettings {
    let settings = &job.settings;
    TableSettings {
        rows: job.count_or_published("rows", ROW_COUNTS),
        value_bytes: settings.int("value") as usize,
        batch_rows: settings.int("batch") as u64,
        seed: job.seed,
    }
}

impl Workload for Sqlite {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        DatabaseTask::combinations(job).iter().map(DatabaseTask::task_info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let bound = pace::task_bound(job, SECONDS_BY_SCALE);
        let insert_tasks = distinct(job.settings.ints(pace::RATES.id)).len() as u64;
        let room = Room { bytes: table_settings(job).space_bytes(bound, insert_tasks), inodes: 8, source_bytes: 4096 };
        Ok(Survey { room, remarks: remarks(job), ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let database_tasks = DatabaseTask::combinations(job);
        let mut tasks = vec![];
        for (index, task) in database_tasks.iter().enumerate() {
            let input = (task.clone(), job.clone(), place.clone());
            // The words describe a call in the log of commands. SQLite is a library, so no program of that name runs.
            let call = |verb: &str, run: fn(&DatabaseTask, &Job, &Place) -> Result<TaskOutput>| {
                let logged_argv = ["sqlite3".to_string(), database_dir(place).display().to_string(), verb.into()];
                Action::call_with(&input, logged_argv, move |(task, job, place)| run(task, job, place))
            };
            // The first task of each combination of modes starts with a new database.
            let modes = |task: &DatabaseTask| (task.journal.clone(), task.synchronous.clone());
            let is_first = index == 0 || modes(task) != modes(&database_tasks[index - 1]);
            let mut preparation = Vec::from_iter(is_first.then(|| call("make", DatabaseTask::create_database)));
            if task.load.is_none() {
                preparation.push(call("fill the log", |task, job, place| Ok(task.database(job, place).fill_log()?)));
            }
            let verb = task.load.map_or("checkpoint", |(operation, _)| operation.name);
            let work = call(verb, DatabaseTask::perform_work);
            tasks.push(Task::new(task.task_info(), work).with_preparation(preparation));
        }
        Ok(tasks)
    }

    /// Runs SQLite's own check of the whole file and compares every row.
    fn check_actions(&self, job: &Job, place: &Place, task: &TaskId) -> Vec<Action> {
        if task.name == READ.name {
            return vec![];
        }
        let table = table_settings(job);
        let logged_argv =
            ["sqlite3".to_string(), database_dir(place).display().to_string(), "PRAGMA integrity_check".into()];
        vec![Action::call_with(place, logged_argv, move |place| {
            verify_database(&database_dir(place), &table, read_number(&inserted_rows_file(place))?)
        })]
    }
}

/// The notes on this workload in every report.
fn remarks(job: &Job) -> Vec<Note> {
    let table = table_settings(job);
    let text = format!(
        "sqlite {}: a table of {} rows of {} bytes, {} a transaction, one connection; SQLite checkpoints the log by itself \
         after 1000 pages; PRAGMA integrity_check and a comparison of all rows follow each task that writes",
        rusqlite::version(),
        table.rows,
        table.value_bytes,
        table.batch_rows
    );
    let mut notes = vec![remark_note(text)];
    if DatabaseTask::combinations(job).iter().any(|task| task.journal == "wal" && task.synchronous == "normal") {
        let text = "sqlite: with journal=wal and synchronous=normal SQLite syncs at checkpoints only: a power cut takes the \
                    last commits, so they are not durable";
        notes.push(fairness_note(text).fix(setting("set", "synchronous=full")));
    }
    notes
}

/// Largest number of inserted rows a second for which space is planned.
const MAX_ROWS_PER_S: u64 = 1_000_000;
/// Largest number of commits a second for which space is planned.
const MAX_COMMITS_PER_S: u64 = 50_000;
/// Bytes of a page in the log, with the header of its frame.
const LOG_PAGE_BYTES: u64 = 4096 + 24;

/// The operation of a transaction, or of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SqlOperation {
    /// The name of its task.
    name: &'static str,
    /// The title of its task.
    title: &'static str,
    sql: &'static str,
}

/// Updates rows, drawn uniformly.
const UPDATE: SqlOperation = SqlOperation {
    name: "update",
    title: "Update rows, each transaction committed",
    sql: "UPDATE data SET stamp = ?2, value = ?3 WHERE key = ?1",
};
/// Reads one row, drawn uniformly.
const READ: SqlOperation =
    SqlOperation { name: "read", title: "Read single rows", sql: "SELECT value FROM data WHERE key = ?1" };
/// Inserts rows into a second table.
const INSERT: SqlOperation = SqlOperation {
    name: "insert",
    title: "Insert rows, each transaction committed",
    sql: "INSERT INTO log (stamp, value) VALUES (?1, ?2)",
};

/// The resolved settings of a job for its tables.
#[derive(Debug, Clone, Copy)]
struct TableSettings {
    /// Rows of the table that is updated and read.
    rows: u64,
    /// Bytes of a value.
    value_bytes: usize,
    /// Rows of a transaction.
    batch_rows: u64,
    /// The seed of contents.
    seed: u64,
}

impl TableSettings {
    /// Largest size of the database and its journals in bytes, after this number of insert tasks, each with this bound.
    fn space_bytes(&self, bound: Bound, insert_tasks: u64) -> u64 {
        let rows_per_task = match bound {
            Bound::Operations(operations) => operations.saturating_mul(self.batch_rows),
            Bound::Seconds(seconds) => {
                (seconds * (self.batch_rows * MAX_COMMITS_PER_S).min(MAX_ROWS_PER_S) as f64) as u64
            }
            _ => 0,
        };
        let rows = self.rows.saturating_add(rows_per_task.saturating_mul(insert_tasks));
        // 32 bytes for a row's header, twice the rows because pages can be half empty, and the journals.
        let row_bytes = 2 * (self.value_bytes as u64 + 32);
        rows.saturating_mul(row_bytes).saturating_add(2 * LOG_PAGE_BYTES * (self.log_commits() + 2000))
    }

    /// Number of commits that fill the log before the task `checkpoint`.
    fn log_commits(&self) -> u64 {
        (self.rows / 8).clamp(100, 20_000)
    }
}

/// A database, whose transactions are a load of the engine.
struct Database {
    dir: PathBuf,
    table: TableSettings,
    journal: String,
    synchronous: String,
    /// The operation of its transactions.
    operation: SqlOperation,
    noise: Noise,
}

self_cell::self_cell! {
    /// A connection and the statement of its transactions, which is prepared once.
    struct PreparedConnection {
        owner: Connection,
        #[covariant]
        dependent: Statement,
    }
}

/// The state of a thread: its connection, its random numbers, and the buffer of reads.
struct Session {
    prepared: PreparedConnection,
    rng: Xoshiro256PlusPlus,
    buffer: Vec<u8>,
}

impl Database {
    /// Describes a database in a directory, with a journal mode and a level of syncing. Creates no file.
    fn new(dir: &Path, table: TableSettings, journal: &str, synchronous: &str) -> Database {
        let [journal, synchronous] = [journal, synchronous].map(String::from);
        let (dir, noise) = (dir.into(), Noise::new(table.seed, table.value_bytes));
        Database { dir, table, journal, synchronous, operation: UPDATE, noise }
    }

    /// Converts an error of SQLite. `doing` is the operation, such as `opening`.
    fn error_while(&self, doing: &'static str) -> impl FnOnce(rusqlite::Error) -> EngineError {
        database_error(doing, database_path(&self.dir))
    }

    /// Opens the database with its journal mode and a level of syncing.
    fn connect(&self, synchronous: &str) -> Result<Connection, EngineError> {
        let connection = Connection::open(database_path(&self.dir)).map_err(self.error_while("opening"))?;
        let actual_journal: String = connection
            .pragma_update_and_check(None, "journal_mode", &self.journal, |row| row.get(0))
            .map_err(self.error_while("setting the journal mode of"))?;
        if actual_journal != self.journal {
            return Err(EngineError::Job(format!(
                "SQLite has journal mode `{actual_journal}` here instead of `{}`; leave it out: {}",
                self.journal,
                setting("set", &format!("journal={actual_journal}"))
            )));
        }
        connection.pragma_update(None, "synchronous", synchronous).map_err(self.error_while("setting up"))?;
        Ok(connection)
    }

    /// Creates the database with all rows, in an empty directory.
    ///
    /// # Errors
    /// If SQLite or the filesystem returns an error.
    fn create(&self) -> Result<()> {
        make_empty_dir(&self.dir)?;
        let mut connection = self.connect("off")?;
        Ok(self.create_tables(&mut connection).map_err(self.error_while("filling"))?)
    }

    /// Creates the tables with all rows, in one transaction.
    fn create_tables(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        transaction.execute_batch(
            "CREATE TABLE data (key INTEGER PRIMARY KEY, stamp INTEGER NOT NULL, value BLOB NOT NULL);
             CREATE TABLE log (number INTEGER PRIMARY KEY, stamp INTEGER NOT NULL, value BLOB NOT NULL);",
        )?;
        let mut insert = transaction.prepare("INSERT INTO data VALUES (?1, ?2, ?3)")?;
        for key in 0..self.table.rows {
            insert.execute(params![key as i64, key as i64, self.value_of(key)])?;
        }
        drop(insert);
        transaction.commit()
    }

    /// Commits updates that stay in the log, for a later checkpoint.
    ///
    /// # Errors
    /// If SQLite or the filesystem returns an error.
    fn fill_log(&self) -> Result<TaskOutput, EngineError> {
        let connection = self.connect("off")?;
        self.commit_updates(&connection).map_err(self.error_while("filling the log of"))?;
        Ok(TaskOutput::default())
    }

    /// Commits updates on a connection that never checkpoints.
    fn commit_updates(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(self.table.seed, 4));
        let mut update = connection.prepare(UPDATE.sql)?;
        for _ in 0..self.table.log_commits() {
            let stamp: u64 = rng.random();
            let key = stamp % self.table.rows;
            update.execute(params![key as i64, stamp as i64, self.value_of(stamp)])?;
        }
        Ok(())
    }

    /// Writes the log back to the database, and empties it.
    ///
    /// # Errors
    /// If SQLite or the filesystem returns an error, or another process has the database open.
    fn checkpoint(&self) -> Result<TaskOutput, EngineError> {
        let connection = self.connect(&self.synchronous)?;
        let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        if is_busy.map_err(self.error_while("checkpointing"))? {
            Err(EngineError::Job("another process has the database open".into()))
        } else {
            Ok(TaskOutput::default())
        }
    }

    /// The value for a stamp. Different stamps have different values, because SQLite does not write a row that an
    /// update leaves unchanged.
    fn value_of(&self, stamp: u64) -> &[u8] {
        self.noise.contents(stamp, self.table.value_bytes)
    }

    /// Performs one transaction, or one read. The rows of a transaction have consecutive stamps.
    fn transact(&self, session: &mut Session, first_stamp: u64) -> rusqlite::Result<()> {
        let Session { prepared, buffer, .. } = session;
        prepared.with_dependent_mut(|connection, statement| {
            let mut execute_one = |number| {
                let stamp = first_stamp.wrapping_add(number);
                let key = stamp % self.table.rows;
                match self.operation {
                    READ => statement.query_row(params![key as i64], |row| {
                        buffer.clear();
                        buffer.extend_from_slice(row.get_ref(0)?.as_blob()?);
                        Ok(())
                    }),
                    INSERT => statement.execute(params![stamp as i64, self.value_of(stamp)]).map(drop),
                    _ => statement.execute(params![key as i64, stamp as i64, self.value_of(stamp)]).map(drop),
                }
            };
            if self.operation == READ || self.table.batch_rows == 1 {
                return execute_one(0);
            }
            connection.execute_batch("BEGIN IMMEDIATE")?;
            for number in 0..self.table.batch_rows {
                execute_one(number)?;
            }
            connection.execute_batch("COMMIT")
        })
    }
}

impl CustomLoad for Database {
    type ThreadState = Session;
    type Request = u64;

    fn thread_state(&self, thread: u32) -> Result<Session, EngineError> {
        let rng = Xoshiro256PlusPlus::seed_from_u64(mix(self.table.seed, thread.into()));
        let connection = self.connect(&self.synchronous)?;
        let prepared = PreparedConnection::try_new(connection, |connection| {
            connection.prepare_with_flags(self.operation.sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)
        });
        let prepared = prepared.map_err(self.error_while("preparing statements of"))?;
        Ok(Session { prepared, rng, buffer: vec![] })
    }

    fn draw(&self, session: &mut Session) -> u64 {
        session.rng.random()
    }

    fn perform(&self, session: &mut Session, first_stamp: u64) -> Result<usize, EngineError> {
        self.transact(session, first_stamp).map(|()| 0).map_err(|error| self.error_while(self.operation.name)(error))
    }
}

fn database_path(dir: &Path) -> PathBuf {
    dir.join("data.db")
}

fn database_error(doing: &'static str, path: PathBuf) -> impl FnOnce(rusqlite::Error) -> EngineError {
    move |error| {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
            _ => io::ErrorKind::Other,
        };
        EngineError::Io { doing, path, source: io::Error::new(kind, error) }
    }
}

/// Checks the database with SQLite's integrity check, and compares every row with its expected contents.
///
/// # Errors
/// [`TaskError::Violation`] with the damaged or missing part.
fn verify_database(dir: &Path, settings: &TableSettings, inserted_rows: u64) -> Result<()> {
    let path = database_path(dir);
    let damage = match find_damage(&path, settings, inserted_rows) {
        // SQLite reports damage that keeps it from reading a page as an error.
        Err(error) if is_caused_by_damage(&error) => Some(error.to_string()),
        result => result.map_err(database_error("checking", path.clone()))?,
    };
    match damage {
        None => Ok(()),
        Some(damage) => Err(TaskError::Violation(format!("DATA LOSS: {}: {damage}", path.display()))),
    }
}

/// Whether SQLite returned an error because the contents of a file are not those of a database.
fn is_caused_by_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Describes the first damaged or missing part of a database, or returns `None` if it is intact.
fn find_damage(path: &Path, settings: &TableSettings, inserted_rows: u64) -> rusqlite::Result<Option<String>> {
    if !path.exists() {
        return Ok(Some("missing".into()));
    }
    let connection = Connection::open(path)?;
    let check_result: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if check_result != "ok" {
        return Ok(Some(check_result));
    }
    let noise = Noise::new(settings.seed, settings.value_bytes);
    for (table, expected_rows) in [("data", settings.rows), ("log", inserted_rows)] {
        let mut statement = connection.prepare(&format!("SELECT rowid, stamp, value FROM {table}"))?;
        let mut rows = statement.query([])?;
        let mut row_count = 0;
        while let Some(row) = rows.next()? {
            row_count += 1;
            if row.get_ref(2)?.as_blob()? != noise.contents(row.get::<_, i64>(1)? as u64, settings.value_bytes) {
                return Ok(Some(format!("row {} of table {table} is damaged", row.get::<_, i64>(0)?)));
            }
        }
        if row_count != expected_rows {
            return Ok(Some(format!("table {table} has {row_count} rows instead of {expected_rows}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, perform_all, place, task_ids};
    use fsarena_core::event::NoteKind;

    fn job(changed_settings: &[(&str, &str)]) -> Job {
        testing::job(&DEF, 3, changed_settings)
    }

    #[test]
    fn every_mode_runs_every_task_and_keeps_every_row() {
        let changed_settings = [("synchronous", "full,normal"), ("operations", "5"), ("rows", "100"), ("batch", "3")];
        let job = job(&changed_settings);
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let outline = task_ids(&Sqlite.outline(&job));
        assert_eq!(outline.len(), 2 * 4 + 2 * 3);
        assert_eq!(outline[0], "update[journal=wal,rate=max,synchronous=full]");
        assert_eq!(outline[3], "checkpoint[journal=wal,synchronous=full]");
        let repeated = self::job(&[&changed_settings[..], &[("rates", "0,0")]].concat());
        assert_eq!(task_ids(&Sqlite.outline(&repeated)), outline);
        let mut performed_ids = vec![];
        for task in Sqlite.tasks(&job, &place).unwrap() {
            let id = task.info.id;
            let log_bytes = || dir.path().join("sqlite/data.db-wal").metadata().map_or(0, |meta| meta.len());
            perform_all(task.preparation);
            let bytes_before = log_bytes();
            let output = perform_all(task.work);
            match id.name.as_str() {
                "checkpoint" => {
                    assert!(bytes_before > 100 * 4096 && log_bytes() == 0, "{bytes_before} {}", log_bytes());
                }
                name => {
                    let kind = if name == "read" { "read" } else { "commit" };
                    assert_eq!(output.readings.get(&format!("{kind}_operations_count")), Some(5.0));
                }
            }
            perform_all(Sqlite.check_actions(&job, &place, &id));
            performed_ids.push(id.to_string());
        }
        assert_eq!(performed_ids, outline);
    }

    #[test]
    fn the_room_holds_the_rows_of_the_insert_tasks_of_all_rates() {
        let bytes = |rates| {
            let changed_settings = [("rates", rates), ("operations", "1000"), ("batch", "10"), ("value", "68")];
            Sqlite.survey(&job(&changed_settings)).unwrap().room.bytes
        };
        // Each insert task adds 10,000 rows of 100 bytes with their headers, in pages that are half empty.
        assert_eq!(bytes("0,10,20") - bytes("0"), 2 * 2 * 10_000 * 100);
    }

    #[test]
    fn a_row_that_is_lost_or_damaged_is_a_violation() {
        let dir = tempfile::tempdir().unwrap();
        let table = table_settings(&job(&[("rows", "50")]));
        Database::new(dir.path(), table, "delete", "full").create().unwrap();
        verify_database(dir.path(), &table, 0).unwrap();
        let check_error = |inserted| verify_database(dir.path(), &table, inserted).unwrap_err().to_string();
        assert!(check_error(1).ends_with("table log has 0 rows instead of 1"), "{}", check_error(1));
        let path = dir.path().join("data.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute("UPDATE data SET value = x'00' WHERE key = 7", []).unwrap();
        drop(connection);
        assert!(check_error(0).starts_with("DATA LOSS") && check_error(0).contains("row 7 of table data is damaged"));
        std::fs::write(&path, &std::fs::read(&path).unwrap()[..8192]).unwrap();
        assert!(check_error(0).starts_with("DATA LOSS"), "{}", check_error(0));
        std::fs::write(&path, [b'x'; 8192]).unwrap();
        assert!(check_error(0).starts_with("DATA LOSS"), "{}", check_error(0));
        std::fs::remove_file(&path).unwrap();
        assert!(check_error(0).ends_with("data.db: missing"), "{}", check_error(0));
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
