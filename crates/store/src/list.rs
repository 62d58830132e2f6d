//! Lists the runs of a directory.

use crate::{Error, Result, RunDir, read::run_status, rows::RunDatabase, schema};
use fsarena_core::{names::distinct, plan::limits::MAX_ROUNDS, record::RunStatus};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The entry of one run in a listing.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunSummary {
    /// The id of the run.
    pub id: String,
    /// Its directory.
    pub path: PathBuf,
    /// The name of its study or plan; empty if the run cannot be read.
    pub study: String,
    /// When it started: RFC 3339.
    pub started: String,
    /// Its status; `why` is `running` while another process writes it, and the error if it cannot be read.
    pub status: RunStatus,
    /// Whether the run cannot be read.
    #[serde(skip)]
    pub is_damaged: bool,
    /// The names of its variants.
    pub variants: Vec<String>,
    /// The names of its tasks.
    #[serde(skip)]
    pub tasks: Vec<String>,
    /// The number of rounds with a finished cell, at most [`MAX_ROUNDS`]: a watch may have millions of windows.
    pub rounds: u32,
    /// The machines that it ran on: `NAME, Linux VERSION`.
    pub machines: Vec<String>,
    /// The texts of its notes, without repetitions.
    pub notes: Vec<String>,
}

/// The largest number of characters of a text in a listing: a damaged file may hold any number.
const MAX_CHARACTERS: u32 = 500;
/// The largest number of rows of a table in a listing.
const MAX_ROWS: u32 = 1_000;

/// How long SQLite may take to read the summary of one run, so that a listing does not wait for a damaged file.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// SQLite checks that timeout once in this number of instructions of its virtual machine.
const INSTRUCTIONS_PER_CHECK: i32 = 100_000;

/// The summaries of all runs in `runs_root`, newest first. A run that cannot be read is listed with the reason.
///
/// # Errors
/// The directory cannot be read.
pub fn list_runs(runs_root: &Path) -> Result<Vec<RunSummary>> {
    Ok(RunDir::find_all(runs_root)?
        .iter()
        .map(|run| read_summary(run).unwrap_or_else(|error| RunSummary::unreadable(run, &error)))
        .collect())
}

/// The summary of one run. Long texts and lists are cut off.
///
/// # Errors
/// The database of the run cannot be read.
pub fn read_summary(run: &RunDir) -> Result<RunSummary> {
    let path = run.database_file();
    let mut db = schema::open_to_read(&path)?;
    let deadline = Instant::now() + READ_TIMEOUT;
    let is_past_deadline = move || Instant::now() > deadline;
    db.progress_handler(INSTRUCTIONS_PER_CHECK, Some(is_past_deadline)).map_err(Error::while_reading(&path))?;
    let database = RunDatabase { db: &db, path: &path };
    let run_sql = format!(
        "SELECT substr(study, 1, {MAX_CHARACTERS}), substr(started, 1, {MAX_CHARACTERS}), complete,
                substr(why, 1, {MAX_CHARACTERS}) FROM run LIMIT 1"
    );
    let (study, started, status) = database.read_one("run", &run_sql, |row| {
        let status = run_status(row.int(2)? != 0, row.text(3)?, run.is_being_written());
        Ok((row.text(0)?, row.text(1)?, status))
    })?;
    let rounds_sql = format!("SELECT count(*) FROM (SELECT DISTINCT round FROM cell LIMIT {MAX_ROUNDS})");
    Ok(RunSummary {
        study,
        started,
        variants: read_distinct_texts(&database, "variant", "name")?,
        tasks: read_distinct_texts(&database, "task", "name")?,
        machines: read_distinct_texts(&database, "host", "hostname || ', Linux ' || kernel")?,
        notes: read_distinct_texts(&database, "note", "text")?,
        rounds: database.read_one("cell", &rounds_sql, |row| row.int_as(0))?,
        ..RunSummary::with_status(run, status)
    })
}

/// The distinct texts of a column of a table.
fn read_distinct_texts(database: &RunDatabase, table: &'static str, column: &str) -> Result<Vec<String>> {
    let sql = format!("SELECT id, substr({column}, 1, {MAX_CHARACTERS}) FROM {table} ORDER BY id LIMIT {MAX_ROWS}");
    let (texts, _) = database.read_table(table, &sql, |row| row.text(1))?;
    Ok(distinct(texts))
}

impl RunSummary {
    /// The entry of a run that cannot be read: its path and the reason.
    pub fn unreadable(run: &RunDir, error: &Error) -> RunSummary {
        let status = RunStatus { complete: false, why: error.to_string() };
        RunSummary { is_damaged: true, ..RunSummary::with_status(run, status) }
    }

    /// A summary with only the id, the path and the status.
    fn with_status(run: &RunDir, status: RunStatus) -> RunSummary {
        RunSummary { id: run.id(), path: run.path().into(), status, ..RunSummary::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, create_run, plan, run_cell};
    use fsarena_core::event::{Event, Outcome};

    #[test]
    fn all_rounds_of_a_long_run_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let (run, mut writer) = create_run(root.path(), &plan);
        run_cell(&mut writer, &cells(&plan, 0)[0], Outcome::Done);
        drop(writer);
        // The windows of a watch are rounds.
        let windows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2499)
             INSERT INTO cell(hash, round, position, variant, workload, outcome, host, started_at, spent)
             SELECT 'h' || i, i, 0, variant, workload, outcome, host, started_at, spent FROM n CROSS JOIN cell WHERE round = 0";
        rusqlite::Connection::open(run.database_file()).unwrap().execute_batch(windows).unwrap();
        assert_eq!(read_summary(&run).unwrap().rounds, 2500);
    }

    #[test]
    fn a_listing_shows_finished_running_and_damaged_runs() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(list_runs(&root.path().join("none")).unwrap(), []);
        let plan = plan(&["ext4", "xfs"]);
        let (finished, mut finished_writer) = create_run(root.path(), &plan);
        run_cell(&mut finished_writer, &cells(&plan, 0)[0], Outcome::Done);
        finished_writer.apply(&Event::RunFinished { why: "all rounds done".into(), complete: true }).unwrap();
        drop(finished_writer);
        let (running, running_writer) = create_run(root.path(), &plan);
        let (broken, broken_writer) = create_run(root.path(), &plan);
        drop(broken_writer);
        std::fs::write(broken.database_file(), "garbage instead of a database, quite a lot of it").unwrap();

        let runs = list_runs(root.path()).unwrap();
        let summary_of = |dir: &RunDir| runs.iter().find(|run| run.id == dir.id()).unwrap();
        assert_eq!(runs.len(), 3);
        assert_eq!(
            (summary_of(&finished).study.as_str(), summary_of(&finished).variants.clone()),
            ("tasks", vec!["ext4".into(), "xfs".into()])
        );
        assert_eq!(
            (summary_of(&finished).rounds, &summary_of(&finished).machines[..]),
            (1, &["h, Linux 6.18".to_string()][..])
        );
        assert_eq!(summary_of(&finished).status, RunStatus { complete: true, why: "all rounds done".into() });
        assert_eq!(summary_of(&running).status.why, "running");
        assert!(summary_of(&broken).status.why.contains("not an SQLite database"), "{:?}", summary_of(&broken));
        assert!(summary_of(&broken).is_damaged && !summary_of(&finished).is_damaged);
        drop(running_writer);
        assert_eq!(
            list_runs(root.path()).unwrap().iter().find(|run| run.id == running.id()).unwrap().status.why,
            "interrupted"
        );
    }
}
