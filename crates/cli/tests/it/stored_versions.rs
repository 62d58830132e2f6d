//! Runs that earlier versions stored. A directory `stored-version-N` has a run of store version N, which every later version
//! must read: two filesystems in guests, two rounds.

use crate::common::Sandbox;
use serde_json::Value;
use std::path::Path;

/// The store versions that the documentation promises to read.
const PROMISED_VERSIONS: [u32; 1] = [5];

#[test]
fn runs_of_promised_store_versions_are_read() {
    for version in PROMISED_VERSIONS {
        let sandbox = Sandbox::new();
        let source = format!("{}/tests/it/stored-version-{version}", env!("CARGO_MANIFEST_DIR"));
        let run = sandbox.runs_dir().join("20260101-000000-stored-abcd");
        std::fs::create_dir_all(&run).unwrap();
        for file in ["run.db", "plan.toml"] {
            std::fs::copy(Path::new(&source).join(file), run.join(file)).unwrap();
        }
        let (json, _) = sandbox.expect(0, &["report", "latest", "--format", "json"]);
        let report: Value = serde_json::from_str(&json).unwrap();
        let variants = report["variants"].as_array().unwrap().iter();
        let names: Vec<&str> = variants.filter_map(|variant| variant["name"].as_str()).collect();
        assert_eq!(names, ["ext4", "xfs"], "version {version}");
        let (csv, _) = sandbox.expect(0, &["report", "latest", "--format", "csv"]);
        let tasks = csv.lines().filter(|line| line.contains(",tree,")).count();
        assert!(tasks >= 2 * 2 * 2, "version {version}: {tasks} samples of tasks in\n{csv}");
        check_views(&sandbox, &run, version);
        sandbox.expect(0, &["bundle", "latest", "-o", "stored.tar.zst"]);
        sandbox.expect(0, &["verify", "stored.tar.zst"]);
    }
}

/// Checks that the printed SQL statements add the views to a run, and that the run can still be read.
fn check_views(sandbox: &Sandbox, run: &Path, version: u32) {
    let (sql, _) = sandbox.expect(0, &["show", "latest", "--format", "sql"]);
    let db = rusqlite::Connection::open(run.join("run.db")).unwrap();
    db.execute_batch(&sql).unwrap();
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM samples_tidy"), count("SELECT count(*) FROM value"));
    // Two rounds, and each of two variants against the other.
    let pairs = "SELECT count(*) FROM comparisons WHERE metric = 'elapsed_ns' AND task = 'cp'";
    assert_eq!(count(pairs), 2 * 2);
    assert_eq!(count("PRAGMA user_version"), i64::from(version));
    sandbox.expect(0, &["report", "latest", "--format", "json"]);
}
