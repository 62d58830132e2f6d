//! Data for other programs: the tidy CSV, and the SQL views of `run.db` with the examples of the guide.

use crate::common::{Sandbox, stored, text};
use rusqlite::Connection;
use std::path::Path;

/// Stores a run of eight rounds in which xfs takes about 1.5 times as long as ext4.
fn store_run(sandbox: &Sandbox) {
    stored::store_planted_run(&sandbox.runs_dir(), &["ext4", "xfs"], 8, |fs, round| {
        let seconds = if fs == "xfs" { 1.5 } else { 1.0 } + f64::from(round) / 1000.0;
        [seconds, seconds]
    });
}

#[test]
fn a_tidy_csv_has_one_value_a_row_and_no_unused_column() {
    let sandbox = Sandbox::new();
    store_run(&sandbox);
    let (printed, _) = sandbox.expect(0, &["report", "latest", "--export", "tidy-csv=tidy.csv", "--format", "csv"]);
    let mut tidy = csv::Reader::from_path(sandbox.dir.join("tidy.csv")).unwrap();
    let header: Vec<String> = tidy.headers().unwrap().iter().map(String::from).collect();
    let columns =
        ["run", "round", "position", "variant", "fs", "task", "started_at_s", "metric", "unit", "direction", "value"];
    assert_eq!(header, columns);
    let rows: Vec<csv::StringRecord> = tidy.records().map(Result::unwrap).collect();
    // The values are those of the CSV with one row a sample.
    let mut wide = csv::Reader::from_reader(printed.as_bytes());
    let wide_header = wide.headers().unwrap().clone();
    let column = |name: &str| wide_header.iter().position(|title| title == name).unwrap();
    let (elapsed, variant, task, round) = (column("elapsed_s"), column("variant"), column("task"), column("round"));
    let mut expected: Vec<[String; 4]> = wide
        .records()
        .map(Result::unwrap)
        .map(|row| [round, variant, task, elapsed].map(|column| row[column].to_string()))
        .collect();
    let elapsed_rows = rows.iter().filter(|row| &row[7] == "elapsed" && &row[8] == "s" && &row[9] == "lower");
    let mut actual: Vec<[String; 4]> =
        elapsed_rows.map(|row| [1, 3, 5, 10].map(|column| row[column].to_string())).collect();
    expected.sort();
    actual.sort();
    assert_eq!(actual.len(), 8 * 2 * 4);
    assert_eq!(actual, expected);
    assert!(rows.iter().all(|row| row[10].parse::<f64>().is_ok_and(f64::is_finite)));
}

#[test]
fn a_tidy_csv_has_columns_for_factors_and_warmup() {
    let sandbox = Sandbox::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(sandbox.dir.join(dir)).unwrap());
    let run = ["run", "plan.toml", "--on", "dir:a", "--on", "dir:b", "--rounds", "1", "--warmup", "1", "--quiet"];
    sandbox.expect(0, &run);
    let (printed, _) = sandbox.expect(0, &["report", "latest", "--format", "tidy-csv"]);
    let mut tidy = csv::Reader::from_reader(printed.as_bytes());
    let header: Vec<String> = tidy.headers().unwrap().iter().map(String::from).collect();
    assert_eq!(header[..6], ["run", "round", "position", "variant", "dir", "warmup"], "{header:?}");
    let rounds_and_warmup: std::collections::BTreeSet<(String, String)> =
        tidy.records().map(Result::unwrap).map(|row| (row[1].to_string(), row[5].to_string())).collect();
    assert_eq!(
        rounds_and_warmup.into_iter().collect::<Vec<_>>(),
        [("0".into(), "true".into()), ("1".into(), "false".into())]
    );
    // The SQL views have the warm-up too.
    let db = Connection::open(sandbox.run_file("run.db").unwrap()).unwrap();
    let rounds = "SELECT group_concat(DISTINCT round || ' ' || warmup) FROM samples_tidy";
    assert_eq!(db.query_row(rounds, [], |row| row.get::<_, String>(0)).unwrap(), "0 1,1 0");
    let compared = "SELECT group_concat(DISTINCT round) FROM comparisons";
    assert_eq!(db.query_row(compared, [], |row| row.get::<_, String>(0)).unwrap(), "1");
}

/// The median of the ratios of xfs to ext4 over the rounds of a task.
fn median_ratio(db: &Connection) -> f64 {
    let sql = "SELECT ratio FROM comparisons WHERE metric = 'elapsed_ns' AND task = 'untar' AND baseline = 'ext4'
               AND variant = 'xfs' ORDER BY ratio";
    let mut statement = db.prepare(sql).unwrap();
    let ratios: Vec<f64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(ratios.len(), 8);
    (ratios[3] + ratios[4]) / 2.0
}

#[test]
fn the_printed_statements_add_the_views_to_an_older_run() {
    let sandbox = Sandbox::new();
    store_run(&sandbox);
    let path = sandbox.run_file("run.db").unwrap();
    let db = Connection::open(&path).unwrap();
    let ratio = median_ratio(&db);
    assert!((ratio - 1.5).abs() < 0.003, "{ratio}");
    db.execute_batch("DROP VIEW comparisons; DROP VIEW samples_tidy").unwrap();
    let before = std::fs::read(&path).unwrap();
    let (sql, _) = sandbox.expect(0, &["show", "latest", "--format", "sql"]);
    assert!(std::fs::read(&path).unwrap() == before, "printing the statements changes nothing");
    db.execute_batch(&sql).unwrap();
    assert_eq!(median_ratio(&db), ratio);
    // The statements can be repeated.
    db.execute_batch(&sql).unwrap();
}

/// The Python example of the guide that imports this module.
fn find_example(module: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/publish.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_string());
    let import = format!("import {module}");
    let mut examples = blocks.into_iter().filter(|block| block.lines().any(|line| line.starts_with(&import)));
    let example = examples.next().unwrap_or_else(|| panic!("no example with {import}"));
    assert!(examples.next().is_none());
    example
}

/// Runs a Python script in a sandbox with a run. Returns its standard output.
fn run_python(script: &str) -> String {
    let sandbox = Sandbox::new();
    store_run(&sandbox);
    let output = sandbox.command(Path::new("/usr/bin/env"), &["python3", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_example_of_python_alone_prints_the_ratios() {
    if !fsarena_sys::testkit::has_program("python3") {
        return;
    }
    let printed = run_python(&find_example("statistics"));
    assert!(printed.lines().any(|line| line.starts_with("untar xfs 1.49")), "{printed}");
}

#[test]
fn the_example_of_pandas_prints_the_ratios() {
    if !fsarena_sys::testkit::has_program("python3") {
        return;
    }
    let has_pandas = std::process::Command::new("python3").args(["-c", "import pandas"]).output().unwrap();
    if !has_pandas.status.success() {
        return fsarena_sys::testkit::record_skip("python3-pandas");
    }
    let printed = run_python(&find_example("pandas"));
    let untar = printed.lines().find(|line| line.starts_with("untar")).unwrap_or_else(|| panic!("{printed}"));
    assert!(untar.split_whitespace().last().unwrap().starts_with("1.49"), "{printed}");
}
