//! The tables of `run.db`, and how the file is opened.

use crate::{Error, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags, config::DbConfig, ffi, limits::Limit};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::{path::Path, sync::Once, time::Duration};

/// The version of the tables, kept in `PRAGMA user_version`.
pub const STORE_VERSION: i64 = 5;

/// The tables have one row for each value, so a new reading is a row in `metric`, never a new column. `value` is clustered by
/// sample, so a whole run is read in one sequential scan. A row of `series` is one interval of a load with all its numbers:
/// these columns never change, and one row for each number would take ten times the space.
const TABLES: &str = "
CREATE TABLE run(
    id TEXT NOT NULL, version TEXT NOT NULL, study TEXT NOT NULL, started TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '', complete INTEGER NOT NULL DEFAULT 0, why TEXT NOT NULL DEFAULT '',
    commands INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE host(
    id INTEGER PRIMARY KEY, hostname TEXT NOT NULL, boot_id TEXT NOT NULL, kernel TEXT NOT NULL,
    facts TEXT NOT NULL, UNIQUE(hostname, boot_id, kernel, facts)) STRICT;
CREATE TABLE variant(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, levels TEXT NOT NULL) STRICT;
CREATE TABLE task(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, params TEXT NOT NULL, title TEXT NOT NULL, number TEXT,
    in_totals INTEGER NOT NULL, UNIQUE(name, params)) STRICT;
CREATE TABLE metric(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL, direction TEXT NOT NULL,
    scope TEXT NOT NULL, over_tasks TEXT NOT NULL, over_ranks TEXT NOT NULL, over_hosts TEXT NOT NULL,
    numerator TEXT, denominator TEXT, help TEXT NOT NULL) STRICT;
CREATE TABLE round(
    number INTEGER PRIMARY KEY, host INTEGER NOT NULL REFERENCES host, variant_order TEXT NOT NULL,
    finished INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE cell(
    id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, round INTEGER NOT NULL, position INTEGER NOT NULL,
    variant INTEGER NOT NULL REFERENCES variant, workload TEXT NOT NULL, outcome TEXT NOT NULL,
    host INTEGER NOT NULL REFERENCES host, started_at REAL NOT NULL, spent TEXT NOT NULL) STRICT;
CREATE TABLE sample(
    id INTEGER PRIMARY KEY, cell INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    task INTEGER NOT NULL REFERENCES task, started_at REAL NOT NULL) STRICT;
CREATE INDEX sample_of_cell ON sample(cell);
CREATE TABLE value(
    sample INTEGER NOT NULL REFERENCES sample ON DELETE CASCADE, metric INTEGER NOT NULL REFERENCES metric,
    value REAL NOT NULL, PRIMARY KEY(sample, metric)) STRICT, WITHOUT ROWID;
CREATE TABLE note(
    id INTEGER PRIMARY KEY, round INTEGER, cell INTEGER REFERENCES cell ON DELETE CASCADE,
    kind TEXT NOT NULL, variant TEXT, task TEXT, text TEXT NOT NULL, fix TEXT) STRICT;
CREATE TABLE series(
    sample INTEGER NOT NULL REFERENCES sample ON DELETE CASCADE, point INTEGER NOT NULL,
    start_s REAL NOT NULL, length_s REAL NOT NULL, warm_up INTEGER NOT NULL,
    operations INTEGER NOT NULL, bytes INTEGER NOT NULL,
    latency_p50_ns INTEGER, latency_p99_ns INTEGER, latency_p999_ns INTEGER,
    PRIMARY KEY(sample, point)) STRICT, WITHOUT ROWID;
CREATE TABLE latencies(
    sample INTEGER PRIMARY KEY REFERENCES sample ON DELETE CASCADE, counts TEXT NOT NULL) STRICT;
";

/// The names of [`TABLES`], which every run must have.
fn table_names() -> impl Iterator<Item = &'static str> {
    TABLES.lines().filter_map(|line| Some(line.strip_prefix("CREATE TABLE ")?.split_once('(')?.0))
}

/// Opens a database with SQLite's memory statistics off: they take a process-wide lock. Without them four threads read a
/// thousand small files in two thirds of the time.
fn open_database(path: impl AsRef<Path>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    static MEMORY_STATISTICS_OFF: Once = Once::new();
    MEMORY_STATISTICS_OFF.call_once(|| {
        // SAFETY: this option takes one int. SQLite refuses the option once it is initialised, which is harmless.
        let _ = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0) };
    });
    Connection::open_with_flags(path, flags)
}

/// Makes the tables in a new, empty file.
pub fn create_database(path: &Path) -> Result<Connection> {
    let db = open_database(path, OpenFlags::default()).map_err(Error::while_writing(path))?;
    let tables = format!("BEGIN; {TABLES} PRAGMA user_version = {STORE_VERSION}; COMMIT;");
    db.execute_batch(&tables).map_err(Error::while_writing(path))?;
    Ok(db)
}

/// Opens a run for writing.
///
/// The journal mode is WAL, so that other processes can read the run meanwhile. `synchronous` is `FULL`, because a filesystem
/// benchmark may crash the kernel, and with `NORMAL` a crash loses every cell since the last checkpoint. That costs one fsync
/// for each cell.
pub fn open_to_write(path: &Path) -> Result<Connection> {
    let db = open_database(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(Error::while_reading(path))?;
    check_and_configure(db, path, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")
}

/// Checks that a database is a run, and applies the settings for writing it.
fn check_and_configure(db: Connection, path: &Path, settings: &str) -> Result<Connection> {
    check_is_run(&db, path)?;
    let configure = || -> rusqlite::Result<()> {
        // If WAL is impossible, SQLite keeps the previous mode, which is as safe.
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        db.execute_batch(settings)
    };
    configure().map_err(Error::while_writing(path))?;
    Ok(db)
}

/// The flags for reading a run. Each connection is used by one thread at a time, so it needs no mutex.
const READ_FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens a run for reading, also while another process writes it, and on a read-only medium. It begins a transaction, so all
/// later queries see the run at the same moment.
pub fn open_to_read(path: &Path) -> Result<Connection> {
    let db = open_database(path, READ_FLAGS).map_err(Error::while_reading(path))?;
    match begin_reading(&db, path) {
        Err(Error::Damaged(..)) if needs_immutable(&db) => {}
        result => return result.map(|()| db),
    }
    drop(db);
    let journal = path.with_extension("db-journal");
    if journal.metadata().is_ok_and(|meta| meta.len() > 0) {
        roll_back(path, &journal)?;
        let db = open_database(path, READ_FLAGS).map_err(Error::while_reading(path))?;
        return begin_reading(&db, path).map(|()| db);
    }
    let wal = path.with_extension("db-wal");
    if wal.metadata().is_ok_and(|meta| meta.len() > 0) {
        // Opening the database as immutable would ignore this file, and the last cells in it.
        let reason = "its last cells are still in run.db-wal, which can only be read in a writable directory; copy the \
                    run's directory to one";
        return Err(Error::damaged(path, reason));
    }
    let db = open_immutable(path)?;
    begin_reading(&db, path)?;
    Ok(db)
}

/// The last bytes of a rollback journal that names a super-journal, which belongs to several databases.
const SUPER_JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Rolls back the change of a database that a power failure interrupted, and that left a rollback journal. SQLite does so
/// when it opens the database for writing.
///
/// # Errors
/// SQLite cannot write the database, or the journal names a super-journal: fsarena makes none, and SQLite would delete the
/// file of that name.
fn roll_back(path: &Path, journal: &Path) -> Result<()> {
    let read_end = || -> std::io::Result<Vec<u8>> {
        let (mut file, mut end) = (File::open(journal)?, vec![]);
        let magic_bytes = SUPER_JOURNAL_MAGIC.len() as u64;
        file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(magic_bytes)))?;
        file.take(magic_bytes).read_to_end(&mut end)?;
        Ok(end)
    };
    if read_end().map_err(Error::io("reading", journal))? == SUPER_JOURNAL_MAGIC {
        return Err(Error::damaged(path, "run.db-journal beside it is not a journal of fsarena"));
    }
    let open =
        || open_database(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?.query_row("PRAGMA user_version", [], |_| Ok(()));
    let reason = "its last change was interrupted and must be rolled back by run.db-journal, which is only possible in a \
                  writable directory; copy the run's directory to one";
    open().map_err(|_| Error::damaged(path, reason))
}

/// The longest text that SQLite returns, in bytes. Texts of fsarena are far shorter; a damaged file may hold longer ones.
const MAX_TEXT_BYTES: i32 = 16 << 20;

/// Begins a read transaction, and checks that the database is a run.
fn begin_reading(db: &Connection, path: &Path) -> Result<()> {
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_TEXT_BYTES).map_err(Error::while_reading(path))?;
    db.execute_batch("BEGIN").map_err(Error::while_reading(path))?;
    check_is_run(db, path)
}

/// Whether SQLite failed to create its `-wal` and `-shm` files.
fn needs_immutable(db: &Connection) -> bool {
    let version = db.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
    let code = version.err().and_then(|error| error.sqlite_error_code());
    matches!(code, Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly))
}

/// Opens a file as immutable: without locks and without the `-wal` and `-shm` files.
fn open_immutable(path: &Path) -> Result<Connection> {
    open_database(sqlite_uri(path, "immutable=1")?, READ_FLAGS.union(OpenFlags::SQLITE_OPEN_URI))
        .map_err(Error::while_reading(path))
}

/// Opens a run to merge shards into it. With `synchronous = NORMAL` a crash may lose the last shards, which the next merge
/// copies again. Foreign keys are not checked, because the merge counts the copied rows.
pub fn open_to_merge(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_URI);
    let absolute = path.canonicalize().map_err(Error::io("opening", path))?;
    let db = open_database(absolute, flags).map_err(Error::while_reading(path))?;
    // A checkpoint every 256 MiB, because each one waits for the disk. The index finds the few notes without a cell.
    let settings = "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;
        PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 65536;
        CREATE INDEX IF NOT EXISTS note_of_run ON note(round, kind) WHERE cell IS NULL";
    check_and_configure(db, path, settings)
}

/// The bytes that are percent-encoded in a path: all except letters, digits and `/-._`.
const PERCENT_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_');

/// The URI of a file for SQLite, with a parameter such as `mode=ro`.
pub fn sqlite_uri(path: &Path, parameter: &str) -> Result<String> {
    let absolute = path.canonicalize().map_err(Error::io("opening", path))?;
    Ok(format!("file:{}?{parameter}", percent_encode(absolute.as_os_str().as_bytes(), PERCENT_ENCODED)))
}

/// Returns an error if another version of fsarena wrote a run. Accepts a file whose version cannot be read: opening it later
/// reports the error.
pub fn check_version(path: &Path) -> Result<()> {
    let version = open_database(path, READ_FLAGS)
        .and_then(|db| db.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)));
    match version {
        Ok(version) => refuse_other_version(version, path),
        Err(_) => Ok(()),
    }
}

/// Returns an error if `version` is that of an earlier or later store. Accepts versions up to 0, which databases of other
/// programs have.
fn refuse_other_version(version: i64, path: &Path) -> Result<()> {
    let reason = match version {
        ..=0 | STORE_VERSION => return Ok(()),
        _ if version > STORE_VERSION => format!(
            "made by a newer fsarena (store version {version}, this one reads {STORE_VERSION}); use that version to read it"
        ),
        _ => format!(
            "made by an earlier fsarena (store version {version}, this one reads {STORE_VERSION}); read it with that version, or \
             repeat the run with this one"
        ),
    };
    Err(Error::damaged(path, reason))
}

/// Checks that a database is a run of this version.
fn check_is_run(db: &Connection, path: &Path) -> Result<()> {
    let read_version_and_tables = || -> rusqlite::Result<(i64, bool)> {
        db.busy_timeout(Duration::from_secs(10))?;
        // The file may come from another machine: SQLite must not run functions of its schema, and must check each page.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        db.execute_batch("PRAGMA cell_size_check = ON")?;
        let version = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        // Views do not count: a view could return endless rows.
        let tables_exist = table_names().map(|name| db.table_exists(Some("main"), name));
        Ok((version, tables_exist.collect::<rusqlite::Result<Vec<bool>>>()?.iter().all(|exists| *exists)))
    };
    let (version, has_all_tables) = read_version_and_tables().map_err(Error::while_reading(path))?;
    refuse_other_version(version, path)?;
    if version != STORE_VERSION || !has_all_tables {
        return Err(Error::damaged(path, "not an fsarena run: its tables are not those of a run"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunDir;
    use fsarena_core::exit::{ExitCode, HasExitCode};

    fn new_database() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        // A name that would be wrong in a URI without percent-encoding.
        let path = dir.path().join("run %41?#\n.db");
        drop(create_database(&path).unwrap());
        (dir, path)
    }

    #[test]
    fn every_table_has_its_name() {
        let names = "run host variant task metric round cell sample value note series latencies";
        assert_eq!(table_names().collect::<Vec<_>>().join(" "), names);
    }

    #[test]
    fn a_new_database_can_be_opened_in_every_way() {
        let (_dir, path) = new_database();
        open_to_write(&path).unwrap();
        open_to_read(&path).unwrap();
        check_is_run(&open_immutable(&path).unwrap(), &path).unwrap();
    }

    #[test]
    fn the_error_for_a_newer_version_names_it() {
        let (_dir, path) = new_database();
        Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 7").unwrap();
        let error = open_to_read(&path).unwrap_err().to_string();
        assert!(error.contains("newer fsarena (store version 7"), "{error}");
        assert!(open_to_write(&path).is_err());
    }

    /// The run has the tables and the plan of version 0.1, with other names, columns and keys than today.
    #[test]
    fn a_run_of_an_earlier_version_is_refused_by_its_version() {
        const TABLES_OF_VERSION_1: &str =
            "CREATE TABLE run(id TEXT, version TEXT, study TEXT, started TEXT, ended TEXT,
                complete INTEGER, why TEXT, commands INTEGER) STRICT;
            CREATE TABLE host(id INTEGER PRIMARY KEY, hostname TEXT) STRICT;
            CREATE TABLE arm(id INTEGER PRIMARY KEY, name TEXT, levels TEXT) STRICT;
            CREATE TABLE step(id INTEGER PRIMARY KEY, name TEXT, in_composite INTEGER) STRICT;
            CREATE TABLE metric(id INTEGER PRIMARY KEY, name TEXT) STRICT;
            CREATE TABLE block(number INTEGER PRIMARY KEY, host INTEGER, arm_order TEXT) STRICT;
            CREATE TABLE cell(id INTEGER PRIMARY KEY, block INTEGER, arm INTEGER) STRICT;
            CREATE TABLE sample(id INTEGER PRIMARY KEY, cell INTEGER, step INTEGER) STRICT;
            CREATE TABLE value(sample INTEGER, metric INTEGER, value REAL) STRICT;
            INSERT INTO run VALUES('r', '0.1.0', 'piszcz', '2026-11-22T00:00:00Z', '', 1, '', 0);
            PRAGMA user_version = 1";
        let root = tempfile::tempdir().unwrap();
        let run_path = root.path().join("20261122-000000-piszcz-2222");
        std::fs::create_dir(&run_path).unwrap();
        std::fs::write(run_path.join("plan.toml"), "name = \"piszcz\"\n[stop]\nblocks = 2\n").unwrap();
        Connection::open(run_path.join("run.db")).unwrap().execute_batch(TABLES_OF_VERSION_1).unwrap();
        let run = RunDir::open(&run_path).unwrap();
        let errors = [
            run.plan().unwrap_err(),
            crate::read(&run).unwrap_err(),
            crate::read_summary(&run).unwrap_err(),
            open_to_write(&run.database_file()).unwrap_err(),
            open_to_merge(&run.database_file()).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.exit_code(), ExitCode::Usage);
            assert!(error.to_string().contains("run.db: made by an earlier fsarena (store version 1"), "{error}");
        }
    }

    #[test]
    fn a_view_in_place_of_a_table_is_refused() {
        let (_dir, path) = new_database();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n";
        let sql = format!("DROP TABLE value; CREATE VIEW value AS {endless}");
        Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
        assert!(matches!(open_to_read(&path), Err(Error::Damaged { .. })));
    }

    #[test]
    fn an_interrupted_change_is_rolled_back_unless_its_journal_names_another_file() {
        let (dir, path) = new_database();
        let db = Connection::open(&path).unwrap();
        // Without a cache SQLite writes changed pages, and before them the journal, while the transaction goes on.
        let change = "PRAGMA cache_size = 1; BEGIN; CREATE TABLE added(text); WITH RECURSIVE n(i) AS
            (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO added SELECT printf('%1000d', i) FROM n";
        db.execute_batch(change).unwrap();
        let copy = dir.path().join("copy.db");
        let copy_interrupted_database = || {
            for extension in ["db", "db-journal"] {
                std::fs::copy(path.with_extension(extension), copy.with_extension(extension)).unwrap();
            }
        };
        copy_interrupted_database();
        assert!(!open_to_read(&copy).unwrap().table_exists(Some("main"), "added").unwrap());
        copy_interrupted_database();
        let other = dir.path().join("other");
        std::fs::write(&other, "text").unwrap();
        let name = other.to_str().unwrap().as_bytes();
        let checksum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
        let mut journal = std::fs::read(copy.with_extension("db-journal")).unwrap();
        let length = (name.len() as u32).to_be_bytes();
        journal.extend([&[0; 4][..], name, &length, &checksum.to_be_bytes(), &SUPER_JOURNAL_MAGIC].concat());
        std::fs::write(copy.with_extension("db-journal"), journal).unwrap();
        let error = open_to_read(&copy).unwrap_err().to_string();
        assert!(error.contains("is not a journal of fsarena") && other.exists(), "{error}");
    }

    #[test]
    fn a_missing_file_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.db");
        assert!(open_to_read(&path).is_err() && open_to_write(&path).is_err());
        assert!(!path.exists());
    }

    /// A read-only bind mount of a directory.
    struct ReadOnlyMount(tempfile::TempDir);

    impl ReadOnlyMount {
        fn create(dir: &Path) -> Option<ReadOnlyMount> {
            let run_mount = |args: &[&std::ffi::OsStr]| {
                std::process::Command::new("mount").args(args).output().is_ok_and(|output| output.status.success())
            };
            let target = tempfile::tempdir().unwrap();
            let target_path = target.path().as_os_str();
            if !run_mount(&["--bind".as_ref(), dir.as_os_str(), target_path]) {
                return None;
            }
            let mounted = ReadOnlyMount(target);
            run_mount(&["-o".as_ref(), "remount,ro,bind".as_ref(), mounted.0.path().as_os_str()]).then_some(mounted)
        }
    }

    impl Drop for ReadOnlyMount {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(self.0.path()).status();
        }
    }

    #[test]
    fn a_run_on_a_read_only_medium_is_read_only_if_it_is_complete() {
        let (dir, path) = new_database();
        // Closing removes the `-wal` and `-shm` files, but the database stays in WAL mode.
        drop(open_to_write(&path).unwrap());
        let crashed = dir.path().join("crashed.db");
        let writer = open_to_write(&path).unwrap();
        writer.execute_batch("INSERT INTO variant(name, levels) VALUES('ext4', '{}')").unwrap();
        std::fs::copy(&path, &crashed).unwrap();
        std::fs::copy(path.with_extension("db-wal"), crashed.with_extension("db-wal")).unwrap();
        drop(writer);
        let Some(mounted) = ReadOnlyMount::create(dir.path()) else {
            fsarena_sys::testkit::record_skip("root");
            return;
        };
        let mounted_path = |path: &Path| mounted.0.path().join(path.file_name().unwrap());
        let count_variants =
            |db: Connection| db.query_row("SELECT count(*) FROM variant", [], |row| row.get::<_, i64>(0));
        assert_eq!(count_variants(open_to_read(&mounted_path(&path)).unwrap()).unwrap(), 1);
        let error = open_to_read(&mounted_path(&crashed)).unwrap_err().to_string();
        assert!(error.contains("copy the run's directory"), "{error}");
        drop(mounted);
        assert_eq!(count_variants(open_to_read(&crashed).unwrap()).unwrap(), 1);
    }
}
