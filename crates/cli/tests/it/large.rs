//! A run that is larger than what a page can show: the page summarizes it, in memory that does not grow with the run.

use crate::common::{Sandbox, stored};
use std::{path::Path, process::Stdio, time::Duration};

const ROW_COUNT: i64 = 10_000_000;
/// The most memory that the report may take.
const MAX_MEMORY_BYTES: u64 = 500 << 20;
/// The largest page.
const MAX_PAGE_BYTES: u64 = 2 << 20;

/// Enlarges a small run more than any workload does: adds readings up to 1,000, and samples up to the intended number of
/// values.
fn enlarge(database: &Path) {
    let db = rusqlite::Connection::open(database).unwrap();
    let sql = "
        PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;
        CREATE TEMP TABLE first AS SELECT max(id) AS id, count(*) AS count FROM sample;
        CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) SELECT i FROM n;
        INSERT INTO metric(name, unit, direction, scope, over_tasks, over_ranks, over_hosts, help)
            SELECT 'reading_' || i, 'count', 'neutral', 'process', 'sum', 'sum', 'sum', 'from elsewhere' FROM n
            LIMIT 1000 - (SELECT count(*) FROM metric);
        INSERT INTO sample(cell, task, started_at)
            SELECT cell, task, started_at FROM sample, n LIMIT 10000;
        INSERT INTO value
            SELECT sample.id, metric.id, 1e8 + sample.id + metric.id FROM sample, metric
            WHERE sample.id > (SELECT id FROM first) ORDER BY sample.id, metric.id;";
    db.execute_batch(sql).unwrap();
    let rows: i64 = db.query_row("SELECT count(*) FROM value", [], |row| row.get(0)).unwrap();
    assert!(rows >= ROW_COUNT, "{rows}");
}

/// The most memory of a process so far, in bytes.
fn peak_memory_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[test]
fn ten_million_rows_are_summarized() {
    let sandbox = Sandbox::new();
    let run = stored::store_run(&sandbox.runs_dir());
    enlarge(&run.database_file());
    let page = sandbox.dir.join("page.html");
    let mut report = sandbox.fsarena(&["report", "--format", "html"]);
    let out = std::fs::File::create(&page).unwrap();
    let mut child = report.stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let mut peak_bytes = 0;
    let status = loop {
        peak_bytes = peak_bytes.max(peak_memory_bytes(child.id()).unwrap_or(0));
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(status.success());
    assert!((1 << 20..MAX_MEMORY_BYTES).contains(&peak_bytes), "{} MiB", peak_bytes >> 20);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!((text.len() as u64) < MAX_PAGE_BYTES, "{} bytes", text.len());
    assert!(text.contains("Untar the tree of 625 files") && text.trim_end().ends_with("</html>"));
    // The table shows samples of the usual metrics only: a reader cannot use a thousand columns.
    assert!(text.contains("10096 samples, one row a task"), "{text}");
}
