//! An SQLite database: its tables, its transactions, and its checks.

use crate::payload::{Noise, fresh_dir};
use crate::task;
use fsarena_core::setting_text::setting;
use fsarena_core::{sample::TaskOutput, schedule::mix};
use fsarena_engine::{Bound, EngineError, custom_load::CustomLoad};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rusqlite::{Connection, ErrorCode, PrepFlags, Statement, config::DbConfig, params};
use std::io;
use std::path::{Path, PathBuf};

/// Largest number of inserted rows a second for which space is planned.
const MAX_ROWS_PER_S: u64 = 1_000_000;
/// Largest number of commits a second for which space is planned.
const MAX_COMMITS_PER_S: u64 = 50_000;
/// Bytes of a page in the log, with the header of its frame.
const PAGE_BYTES: u64 = 4096 + 24;

/// The operation of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The name of its task.
    pub name: &'static str,
    /// The title of its task.
    pub title: &'static str,
    sql: &'static str,
}

/// Updates rows, drawn uniformly.
pub const UPDATE: Operation = Operation {
    name: "update",
    title: "Update rows, each transaction committed",
    sql: "UPDATE data SET stamp = ?2, value = ?3 WHERE key = ?1",
};
/// Reads one row, drawn uniformly.
pub const READ: Operation =
    Operation { name: "read", title: "Read single rows", sql: "SELECT value FROM data WHERE key = ?1" };
/// Inserts rows into a second table.
pub const INSERT: Operation = Operation {
    name: "insert",
    title: "Insert rows, each transaction committed",
    sql: "INSERT INTO log (stamp, value) VALUES (?1, ?2)",
};

/// The resolved settings of a job.
#[derive(Debug, Clone, Copy)]
pub struct TableShape {
    /// Rows of the table that is updated and read.
    pub rows: u64,
    /// Bytes of a value.
    pub value: usize,
    /// Rows of a transaction.
    pub batch: u64,
    /// The seed of contents.
    pub seed: u64,
}

impl TableShape {
    /// Largest size of the database and its journals in bytes, after tasks with this bound.
    pub fn room(&self, bound: Bound) -> u64 {
        let inserted = match bound {
            Bound::Operations(operations) => operations * self.batch,
            Bound::Seconds(seconds) => {
                (seconds * (self.batch * MAX_COMMITS_PER_S).min(MAX_ROWS_PER_S) as f64) as u64
            }
            _ => 0,
        };
        // 32 bytes for a row's header, twice the rows because pages can be half empty, and the journals.
        2 * (self.rows + inserted) * (self.value as u64 + 32) + 2 * PAGE_BYTES * (self.log_commits() + 2000)
    }

    /// Number of commits that fill the log before the task `checkpoint`.
    fn log_commits(&self) -> u64 {
        (self.rows / 8).clamp(100, 20_000)
    }
}

/// A database, whose transactions are a load of the engine.
pub struct Database {
    dir: PathBuf,
    shape: TableShape,
    journal: String,
    synchronous: String,
    /// The operation of its transactions.
    pub operation: Operation,
    noise: Noise,
}

self_cell::self_cell! {
    /// A connection and the statement of its transactions, which is prepared once.
    struct Prepared {
        owner: Connection,
        #[covariant]
        dependent: Statement,
    }
}

/// The connection and the draws of a thread.
pub struct Session {
    prepared: Prepared,
    rng: Xoshiro256PlusPlus,
    buffer: Vec<u8>,
}

impl Database {
    /// Describes a database in a directory, with a journal mode and a level of syncing. Creates no file.
    pub fn new(dir: &Path, shape: TableShape, journal: &str, synchronous: &str) -> Database {
        let [journal, synchronous] = [journal, synchronous].map(String::from);
        let (dir, noise) = (dir.into(), Noise::new(shape.seed, shape.value));
        Database { dir, shape, journal, synchronous, operation: UPDATE, noise }
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(rusqlite::Error) -> EngineError {
        failed(doing, path(&self.dir))
    }

    fn connect(&self, synchronous: &str) -> Result<Connection, EngineError> {
        let connection = Connection::open(path(&self.dir)).map_err(self.failed("opening"))?;
        let journal: rusqlite::Result<String> =
            connection.pragma_update_and_check(None, "journal_mode", &self.journal, |row| row.get(0));
        let journal = journal.map_err(self.failed("setting the journal mode of"))?;
        if journal != self.journal {
            return Err(EngineError::Job(format!(
                "SQLite has journal mode `{journal}` here instead of `{}`; leave it out: {}",
                self.journal,
                setting("set", &format!("journal={journal}"))
            )));
        }
        connection.pragma_update(None, "synchronous", synchronous).map_err(self.failed("setting up"))?;
        Ok(connection)
    }

    /// Creates the database with all rows, in an empty directory.
    ///
    /// # Errors
    /// If SQLite or the filesystem returns an error.
    pub fn create(&self) -> Result<(), task::TaskError> {
        fresh_dir(&self.dir)?;
        let mut connection = self.connect("off")?;
        let fill = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction.execute_batch(
                "CREATE TABLE data (key INTEGER PRIMARY KEY, stamp INTEGER NOT NULL, value BLOB NOT NULL);
                 CREATE TABLE log (number INTEGER PRIMARY KEY, stamp INTEGER NOT NULL, value BLOB NOT NULL);",
            )?;
            let mut insert = transaction.prepare("INSERT INTO data VALUES (?1, ?2, ?3)")?;
            for key in 0..self.shape.rows {
                insert.execute(params![key as i64, key as i64, self.value(key)])?;
            }
            drop(insert);
            transaction.commit()
        };
        Ok(fill(&mut connection).map_err(self.failed("filling"))?)
    }

    /// Commits updates that stay in the log, for a later checkpoint.
    ///
    /// # Errors
    /// If SQLite or the filesystem returns an error.
    pub fn fill_log(&self) -> Result<TaskOutput, EngineError> {
        let connection = self.connect("off")?;
        let fill = || {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.pragma_update(None, "wal_autocheckpoint", 0)?;
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(self.shape.seed, 4));
            let mut update = connection.prepare(UPDATE.sql)?;
            for _ in 0..self.shape.log_commits() {
                let stamp: u64 = rng.random();
                let key = stamp % self.shape.rows;
                update.execute(params![key as i64, stamp as i64, self.value(stamp)])?;
            }
            Ok(TaskOutput::default())
        };
        fill().map_err(self.failed("filling the log of"))
    }

    /// Writes the log back to the database, and empties it.
    ///
    /// # Errors
    /// If SQLite or the filesystem returns an error, or another process has the database open.
    pub fn checkpoint(&self) -> Result<TaskOutput, EngineError> {
        let connection = self.connect(&self.synchronous)?;
        let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        if busy.map_err(self.failed("checkpointing"))? {
            Err(EngineError::Job("another process has the database open".into()))
        } else {
            Ok(TaskOutput::default())
        }
    }

    /// The value for a stamp. Different stamps have different values, because SQLite does not write a row that an update
    /// leaves unchanged.
    fn value(&self, stamp: u64) -> &[u8] {
        self.noise.contents(stamp, self.shape.value)
    }

    /// Performs one transaction, or one read. Its operations have consecutive stamps.
    fn transact(&self, session: &mut Session, first_stamp: u64) -> rusqlite::Result<()> {
        let Session { prepared, buffer, .. } = session;
        prepared.with_dependent_mut(|connection, statement| {
            let mut operation = |number| {
                let stamp = first_stamp.wrapping_add(number);
                let key = stamp % self.shape.rows;
                match self.operation {
                    READ => statement.query_row(params![key as i64], |row| {
                        buffer.clear();
                        buffer.extend_from_slice(row.get_ref(0)?.as_blob()?);
                        Ok(())
                    }),
                    INSERT => statement.execute(params![stamp as i64, self.value(stamp)]).map(drop),
                    _ => statement.execute(params![key as i64, stamp as i64, self.value(stamp)]).map(drop),
                }
            };
            if self.operation == READ || self.shape.batch == 1 {
                return operation(0);
            }
            connection.execute_batch("BEGIN IMMEDIATE")?;
            for number in 0..self.shape.batch {
                operation(number)?;
            }
            connection.execute_batch("COMMIT")
        })
    }
}

impl CustomLoad for Database {
    type ThreadState = Session;
    type Request = u64;

    fn thread_state(&self, thread: u32) -> Result<Session, EngineError> {
        let rng = Xoshiro256PlusPlus::seed_from_u64(mix(self.shape.seed, thread.into()));
        let connection = self.connect(&self.synchronous)?;
        let prepared = Prepared::try_new(connection, |connection| {
            connection.prepare_with_flags(self.operation.sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)
        });
        let prepared = prepared.map_err(self.failed("preparing statements of"))?;
        Ok(Session { prepared, rng, buffer: vec![] })
    }

    fn draw(&self, session: &mut Session) -> u64 {
        session.rng.random()
    }

    fn perform(&self, session: &mut Session, first_stamp: u64) -> Result<usize, EngineError> {
        self.transact(session, first_stamp)
            .map(|()| 0)
            .map_err(|error| self.failed(self.operation.name)(error))
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("data.db")
}

fn failed(doing: &'static str, path: PathBuf) -> impl FnOnce(rusqlite::Error) -> EngineError {
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
/// [`task::TaskError::Violation`] with the damaged or missing part.
pub fn verify(dir: &Path, shape: &TableShape, inserted: u64) -> Result<(), task::TaskError> {
    let path = path(dir);
    let read = || -> rusqlite::Result<Option<String>> {
        let connection = Connection::open(&path)?;
        let result: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if result != "ok" {
            return Ok(Some(result));
        }
        let noise = Noise::new(shape.seed, shape.value);
        for (table, expected) in [("data", shape.rows), ("log", inserted)] {
            let mut all = connection.prepare(&format!("SELECT rowid, stamp, value FROM {table}"))?;
            let mut rows = all.query([])?;
            let mut found = 0;
            while let Some(row) = rows.next()? {
                found += 1;
                if row.get_ref(2)?.as_blob()? != noise.contents(row.get::<_, i64>(1)? as u64, shape.value) {
                    return Ok(Some(format!("row {} of table {table} is damaged", row.get::<_, i64>(0)?)));
                }
            }
            if found != expected {
                return Ok(Some(format!("table {table} has {found} rows instead of {expected}")));
            }
        }
        Ok(None)
    };
    match read().map_err(failed("checking", path.clone()))? {
        None => Ok(()),
        Some(fault) => Err(task::TaskError::Violation(format!("DATA LOSS: {}: {fault}", path.display()))),
    }
}
