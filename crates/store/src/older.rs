//! Runs of version 0.1, whose tables say arm, step and block where today's say variant, task and round.
//!
//! A reader sees them through temporary views, so that a file on a medium that cannot be written opens like any other.
//! A writer, which resumes the run, renames the tables for good.

use rusqlite::Connection;
use std::ffi::CStr;

/// The version of these tables.
pub const VERSION: i64 = 1;

/// The tables that every run of that version has.
pub const NAMES: [&CStr; 9] =
    [c"run", c"host", c"arm", c"step", c"metric", c"block", c"cell", c"sample", c"value"];

/// Today's kind of a note.
const NOTE_KIND: &str = "CASE kind WHEN 'arm_failed' THEN 'variant_failed' WHEN 'settle_timeout' THEN 'idle_timeout' ELSE kind END";
/// Today's names of what the time of a cell was spent on.
const SPENT: &str = r#"replace(spent, '["settle",', '["idle",')"#;

/// Shows the tables to this connection as today's.
pub fn as_today(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(&format!(
        "CREATE TEMP VIEW variant AS SELECT * FROM main.arm;
         CREATE TEMP VIEW task AS SELECT * FROM main.step;
         CREATE TEMP VIEW round AS SELECT number, host, arm_order AS variant_order, finished FROM main.block;
         CREATE TEMP VIEW cell AS SELECT id, hash, block AS round, position, arm AS variant, workload, outcome, host,
             started_at, {SPENT} AS spent FROM main.cell;
         CREATE TEMP VIEW sample AS SELECT id, cell, step AS task, started_at FROM main.sample;
         CREATE TEMP VIEW note AS SELECT id, block AS round, cell, {NOTE_KIND} AS kind, arm AS variant, step AS task,
             text, fix FROM main.note;"
    ))
}

/// Makes the tables today's.
pub fn migrate(db: &Connection, version: i64) -> rusqlite::Result<()> {
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         ALTER TABLE arm RENAME TO variant;
         ALTER TABLE step RENAME TO task;
         ALTER TABLE block RENAME TO round;
         ALTER TABLE round RENAME COLUMN arm_order TO variant_order;
         ALTER TABLE cell RENAME COLUMN block TO round;
         ALTER TABLE cell RENAME COLUMN arm TO variant;
         ALTER TABLE sample RENAME COLUMN step TO task;
         ALTER TABLE note RENAME COLUMN block TO round;
         ALTER TABLE note RENAME COLUMN arm TO variant;
         ALTER TABLE note RENAME COLUMN step TO task;
         UPDATE note SET kind = {NOTE_KIND};
         UPDATE cell SET spent = {SPENT};
         PRAGMA user_version = {version};
         COMMIT;"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunDir, read, schema};
    use fsarena_core::{event::NoteKind, exit::ExitCode};
    use std::path::Path;

    const RUN: &[u8] = include_bytes!("../tests/fixtures/run-0.1.tar.gz");

    fn unpacked(dir: &Path) -> RunDir {
        let place = dir.join("20261123-045250-piszcz-4u9r");
        std::fs::create_dir(&place).unwrap();
        tar::Archive::new(flate2::read::GzDecoder::new(RUN)).unpack(&place).unwrap();
        RunDir::open(&place).unwrap()
    }

    #[test]
    fn a_run_of_version_0_1_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let record = read(&unpacked(dir.path())).unwrap();
        let names: Vec<&str> = record.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["ext2", "ext4"]);
        assert_eq!((record.plan.stop.rounds, record.cells.len()), (2, 4));
        let rounds: Vec<u32> = record.cells.iter().map(|cell| cell.round).collect();
        assert_eq!(rounds, [0, 0, 1, 1]);
        let tasks: Vec<&str> = record.tasks.iter().map(|task| task.id.name.as_str()).collect();
        assert!(["touch", "find-files", "rm-files"].iter().all(|name| tasks.contains(name)), "{tasks:?}");
        for cell in &record.cells {
            let spent: Vec<&str> = cell.spent.iter().map(|(what, _)| what.as_str()).collect();
            assert_eq!(spent, ["total", "idle", "lifecycle", "timed"]);
        }
        assert!(record.samples.len() >= 12 && !record.notes.is_empty());
        assert_eq!(crate::list::summary(&unpacked(tempfile::tempdir().unwrap().path())).unwrap().rounds, 2);
    }

    #[test]
    fn a_migrated_run_reads_as_it_did_before() {
        let dir = tempfile::tempdir().unwrap();
        let run = unpacked(dir.path());
        let late = "UPDATE note SET kind = 'settle_timeout' WHERE id = 1";
        Connection::open(run.database()).unwrap().execute_batch(late).unwrap();
        assert_eq!(read(&run).unwrap().notes[0].1.kind, NoteKind::IdleTimeout);
        let before = format!("{:?}", read(&run).unwrap());
        drop(schema::open_to_write(&run.database()).unwrap());
        assert_eq!(format!("{:?}", read(&run).unwrap()), before);
        let version = "PRAGMA user_version";
        let db = Connection::open(run.database()).unwrap();
        assert_eq!(db.query_row(version, [], |row| row.get::<_, i64>(0)).unwrap(), schema::VERSION);
    }

    #[test]
    fn a_damaged_run_of_version_0_1_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let run = unpacked(dir.path());
        Connection::open(run.database()).unwrap().execute_batch("ALTER TABLE arm RENAME TO branch").unwrap();
        let error = read(&run).unwrap_err();
        assert_eq!(fsarena_core::exit::Exits::exit_code(&error), ExitCode::Usage);
    }
}
