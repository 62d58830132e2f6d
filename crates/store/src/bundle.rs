//! The files of a bundle: runs with everything that their reports need, copied so that equal runs give equal files, and the
//! checksums of these files.

use crate::archive::files_below;
use crate::rows::RunDatabase;
use crate::{Error, Result, RunDir, schema, views};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The file with the SHA-256 checksums of all others, in the format of `sha256sum`.
pub const CHECKSUM_FILE: &str = "SHA256SUMS";

/// The files and directories of a run that a bundle contains, besides the database. It omits reports, which
/// are made again, and other files, such as images, which are not results.
const COPIED_NAMES: [&str; 5] = ["plan.toml", "command.log", "events.jsonl", "output", "profile"];

/// Reads the id of a run from its database. The directory of the run may have another name.
///
/// # Errors
/// The database cannot be read.
pub fn stored_id(run: &RunDir) -> Result<String> {
    let path = run.database_file();
    let db = schema::open_to_read(&path)?;
    RunDatabase { db: &db, path: &path }.read_one("run", "SELECT id FROM run", |row| row.text(0))
}

/// Copies a run into the new directory `target`: its database without free pages and logs, in a single file, with the SQL
/// views of this version. Equal runs give equal files.
///
/// # Errors
/// A process is writing the run, the run cannot be read, or a file cannot be written.
pub fn copy_run(run: &RunDir, target: &Path) -> Result<RunDir> {
    if run.is_being_written() {
        return Err(Error::Busy(run.path().into(), "another process".into()));
    }
    fs::create_dir_all(target).map_err(Error::io("making", target))?;
    let database_copy = target.join("run.db");
    copy_database(&run.database_file(), &database_copy)?;
    for name in COPIED_NAMES {
        let (source, copy) = (run.path().join(name), target.join(name));
        match fs::symlink_metadata(&source) {
            Ok(meta) if meta.is_dir() => {
                for file in files_below(&source)? {
                    copy_file(&source.join(&file), &copy.join(&file))?;
                }
            }
            Ok(meta) if meta.is_file() => copy_file(&source, &copy)?,
            _ => {}
        }
    }
    let copied_run = RunDir::open(target)?;
    let sql = views::views_sql(&copied_run.plan()?);
    let db = rusqlite::Connection::open(&database_copy).map_err(Error::while_writing(&database_copy))?;
    db.execute_batch(&sql).map_err(Error::while_writing(&database_copy))?;
    Ok(copied_run)
}

/// Writes a compact copy of a database, without its log.
fn copy_database(source: &Path, copy: &Path) -> Result<()> {
    let db = schema::open_to_read(source)?;
    // SQLite refuses VACUUM within a transaction.
    db.execute_batch("COMMIT").map_err(Error::while_reading(source))?;
    let Some(copy_name) = copy.to_str() else { return Err(Error::damaged(copy, "its name is not UTF-8")) };
    db.execute("VACUUM INTO ?1", [copy_name]).map_err(Error::while_writing(copy)).map(drop)
}

fn copy_file(source: &Path, copy: &Path) -> Result<()> {
    if let Some(parent) = copy.parent() {
        fs::create_dir_all(parent).map_err(Error::io("making", parent))?;
    }
    fs::copy(source, copy).map_err(Error::io("writing", copy)).map(drop)
}

/// The SHA-256 checksum of a file, in hexadecimal digits.
fn file_checksum(path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path).map_err(Error::io("reading", path))?;
    io::copy(&mut file, &mut hasher).map_err(Error::io("reading", path))?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes the checksums of all files below a directory to the file [`CHECKSUM_FILE`] in it.
///
/// # Errors
/// A file cannot be read or written.
pub fn write_checksums(dir: &Path) -> Result<()> {
    let mut lines = String::new();
    for name in files_below(dir)?.into_iter().filter(|name| name != CHECKSUM_FILE) {
        lines += &format!("{}  {name}\n", file_checksum(&dir.join(&name))?);
    }
    let path = dir.join(CHECKSUM_FILE);
    File::create(&path).and_then(|mut file| file.write_all(lines.as_bytes())).map_err(Error::io("writing", &path))
}

/// The largest file of checksums, in bytes.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// Checks the files below a directory against their checksums. Returns one line for each changed, missing or
/// unlisted file.
///
/// # Errors
/// The list is missing or is not a list of checksums, or a file cannot be read.
pub fn check_checksums(dir: &Path) -> Result<Vec<String>> {
    let path = dir.join(CHECKSUM_FILE);
    let list = fsarena_sys::input::read(&path, MAX_LIST_BYTES)
        .map_err(|error| Error::damaged(&path, format!("not a bundle of fsarena: {error}")))?;
    let list = String::from_utf8(list).map_err(|_| Error::damaged(&path, "it is not UTF-8 text"))?;
    let mut expected = BTreeMap::new();
    for (number, line) in list.lines().enumerate() {
        let (checksum, name) = line
            .split_once("  ")
            .ok_or_else(|| Error::damaged(&path, format!("line {} is not a checksum and a name", number + 1)))?;
        expected.insert(name, checksum);
    }
    let mut problems = vec![];
    for name in files_below(dir)?.into_iter().filter(|name| name != CHECKSUM_FILE) {
        match expected.remove(name.as_str()) {
            None => problems.push(format!("{name}: not in {CHECKSUM_FILE}")),
            Some(checksum) if checksum != file_checksum(&dir.join(&name))? => problems.push(format!("{name}: changed")),
            Some(_) => {}
        }
    }
    problems.extend(expected.into_keys().map(|name| format!("{name}: missing")));
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, create_run, plan, run_cell};
    use fsarena_core::event::Outcome;

    fn write_run(root: &Path) -> RunDir {
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = create_run(root, &plan);
        cells(&plan, 0).iter().for_each(|cell| run_cell(&mut writer, cell, Outcome::Done));
        drop(writer);
        run
    }

    #[test]
    fn a_copied_run_reads_as_the_original_and_its_bytes_are_the_same_each_time() {
        let root = tempfile::tempdir().unwrap();
        let run = write_run(root.path());
        fs::write(run.path().join("image.img"), "not a result").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", run.path().join("output")).unwrap();
        // As an earlier version stored it.
        let db = rusqlite::Connection::open(run.database_file()).unwrap();
        db.execute_batch("DROP VIEW comparisons; DROP VIEW samples_tidy").unwrap();
        let copies = ["one", "two"].map(|name| copy_run(&run, &root.path().join(name)).unwrap());
        let bytes = copies.clone().map(|copy| fs::read(copy.database_file()).unwrap());
        assert!(bytes[0] == bytes[1]);
        let names = ["command.log", "events.jsonl", "plan.toml", "run.db"];
        assert_eq!(files_below(copies[0].path()).unwrap(), names);
        let [copy, original] = [&copies[0], &run].map(|run| crate::read(run).unwrap());
        // NaN is not equal to itself.
        let format = |samples| format!("{samples:?}");
        assert_eq!((copy.id, format(copy.samples)), (original.id, format(original.samples)));
        let db = rusqlite::Connection::open(copies[0].database_file()).unwrap();
        let views = "SELECT count(*) FROM sqlite_master WHERE type = 'view'";
        assert_eq!(db.query_row(views, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    }

    #[test]
    fn a_run_that_is_being_written_is_not_copied() {
        let root = tempfile::tempdir().unwrap();
        let (run, _writer) = create_run(root.path(), &plan(&["ext4"]));
        assert!(matches!(copy_run(&run, &root.path().join("copy")), Err(Error::Busy(..))));
    }

    #[test]
    fn changed_missing_and_unlisted_files_are_named() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        fs::create_dir(dir.join("d")).unwrap();
        for name in ["a", "b", "d/c"] {
            fs::write(dir.join(name), name).unwrap();
        }
        write_checksums(dir).unwrap();
        let list = fs::read_to_string(dir.join(CHECKSUM_FILE)).unwrap();
        assert!(list.starts_with("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n"));
        assert_eq!(check_checksums(dir).unwrap(), [""; 0]);
        fs::write(dir.join("a"), "other").unwrap();
        fs::remove_file(dir.join("b")).unwrap();
        fs::write(dir.join("d/new"), "").unwrap();
        let problems = check_checksums(dir).unwrap();
        assert_eq!(problems, ["a: changed", "d/new: not in SHA256SUMS", "b: missing"]);
        fs::remove_file(dir.join(CHECKSUM_FILE)).unwrap();
        assert!(check_checksums(dir).unwrap_err().to_string().contains("not a bundle"));
    }
}
