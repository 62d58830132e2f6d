//! Tests of `read.rs`.

use super::*;
use crate::testing::{cells, create_run, plan, run_cell, sample};
use fsarena_core::event::{CellEvent, Event, Outcome};
use fsarena_core::exit::{ExitCode, HasExitCode};
use proptest::prelude::*;
use rusqlite::Connection;

/// Writes a run of two rounds and closes it.
fn write_run(root: &std::path::Path) -> RunDir {
    let plan = plan(&["ext4", "xfs"]);
    let (run, mut writer) = create_run(root, &plan);
    for cell in (0..2).flat_map(|round| cells(&plan, round)) {
        run_cell(&mut writer, &cell, Outcome::Done);
    }
    run
}

fn read_error_after(run: &RunDir, sql: &str) -> Error {
    let db = rusqlite::Connection::open(run.database_file()).unwrap();
    // A view of a table that is missing keeps SQLite from renaming another.
    db.execute_batch("DROP VIEW IF EXISTS comparisons; DROP VIEW IF EXISTS samples_tidy").unwrap();
    db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
    drop(db);
    read(run).map(|_| sql.to_string()).unwrap_err()
}

#[test]
fn columns_hold_the_measured_values() {
    let root = tempfile::tempdir().unwrap();
    let record = read(&write_run(root.path())).unwrap();
    assert_eq!(record.samples.cell, [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(record.samples.task, [0, 1, 0, 1, 0, 1, 0, 1]);
    let (spec, elapsed) = record.metric("elapsed_ns").unwrap();
    assert_eq!((spec.unit.suffix(), elapsed.into_owned()), ("ns", vec![0.0, 0.0, 1.0, 1.0, 10.0, 10.0, 11.0, 11.0]));
}

#[test]
fn a_run_is_read_while_it_is_written() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4", "xfs"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    for (index, cell) in cells(&plan, 0).iter().enumerate() {
        run_cell(&mut writer, cell, Outcome::Done);
        let record = read(&run).unwrap();
        assert_eq!((record.cells.len(), record.status.why.as_str()), (index + 1, "running"));
    }
}

#[test]
fn errors_for_damaged_rows_name_the_table() {
    // STRICT tables refuse such values, so the test replaces them by tables without types first.
    let without_types = |table: &str, columns: &str| {
        format!(
            "CREATE TABLE loose({columns}); INSERT INTO loose SELECT {columns} FROM {table}; DROP TABLE {table}; ALTER TABLE loose RENAME TO {table};"
        )
    };
    let value = without_types("value", "sample, metric, value");
    let cell = without_types("cell", "id, hash, round, position, variant, workload, outcome, host, started_at, spent");
    let columns = "id, name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help";
    let metric = without_types("metric", columns);
    for (sql, expected) in [
        (format!("{value} UPDATE value SET value = 'fast'"), "not a number in table value"),
        (format!("{value} UPDATE value SET sample = NULL"), "not a whole number in table value"),
        (value.clone(), "missing key in table value"),
        (format!("{cell} UPDATE cell SET round = -1"), "out of range in table cell"),
        (format!("{cell} UPDATE cell SET hash = x'ff'"), "not text in table cell"),
        (format!("{cell} UPDATE cell SET hash = CAST(x'ff' AS TEXT)"), "not UTF-8 in table cell"),
        (format!("{metric} UPDATE metric SET help = NULL"), "missing text in table metric"),
        ("UPDATE cell SET round = 5000000000".into(), "out of range in table cell"),
        ("UPDATE cell SET outcome = '{'".into(), "JSON"),
        ("UPDATE metric SET unit = 'miles'".into(), "unknown word 'miles'"),
        (
            "UPDATE metric SET numerator = 'a_s', denominator = NULL".into(),
            "a quotient without one of its parts in table metric",
        ),
        ("UPDATE value SET sample = sample + 100".into(), "row that does not exist in table value"),
        ("UPDATE value SET metric = metric + 100".into(), "row that does not exist in table value"),
        ("UPDATE sample SET cell = 77".into(), "row that does not exist in table sample"),
        ("DELETE FROM variant".into(), "row that does not exist in table cell"),
        ("DELETE FROM run".into(), "table run is empty"),
        ("ALTER TABLE value RENAME COLUMN metric TO m".into(), "no such column"),
        ("DROP TABLE note".into(), "not an fsarena run"),
        ("PRAGMA user_version = 99".into(), "newer fsarena"),
        ("PRAGMA user_version = -1".into(), "not an fsarena run"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let error = read_error_after(&write_run(root.path()), &sql);
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains("run.db"), "{sql}: {text}");
        assert_eq!(error.exit_code(), ExitCode::Usage, "{sql}");
    }
}

#[test]
fn too_many_readings_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let insert_many = format!(
        "WITH RECURSIVE n(i) AS (SELECT 9 UNION ALL SELECT i + 1 FROM n WHERE i < {}) \
         INSERT INTO metric SELECT i, 'm' || i, 'count', 'lower', 'process', 'sum', 'sum', 'sum', NULL, NULL, '' FROM n",
        MAX_READINGS + 9
    );
    let error = read_error_after(&write_run(root.path()), &insert_many);
    assert!(error.to_string().contains("absurd number of readings"), "{error}");
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = write_run(root.path());
    let whole = std::fs::read(run.database_file()).unwrap();
    for bytes in [&b"hello, this is text and not a database, despite its name"[..], b"", &whole[..100]] {
        std::fs::write(run.database_file(), bytes).unwrap();
        let error = read(&run).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage);
        assert!(error.to_string().contains("run.db"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Reading a damaged file returns a run or an error and never panics.
    #[test]
    fn reading_a_damaged_file_never_panics(
        cut in proptest::option::of(0.0f64..1.0),
        overwrites in proptest::collection::vec((0.0f64..1.0, any::<u8>()), 0..40),
    ) {
        let root = tempfile::tempdir().unwrap();
        let run = copy_intact_run(root.path());
        let mut bytes = std::fs::read(run.database_file()).unwrap();
        bytes.truncate(cut.map_or(bytes.len(), |fraction| (fraction * bytes.len() as f64) as usize));
        for (fraction, byte) in overwrites {
            let index = (fraction * bytes.len() as f64) as usize;
            if let Some(old) = bytes.get_mut(index) {
                *old = byte;
            }
        }
        std::fs::write(run.database_file(), bytes).unwrap();
        if let Err(error) = read(&run) {
            prop_assert_eq!(error.exit_code(), ExitCode::Usage);
            prop_assert!(error.to_string().contains("run.db"));
        }
        prop_assert_eq!(crate::list_runs(root.path()).unwrap().len(), 1);
    }
}

/// Copies a run that is written only once: writing a new run for each case would take most of the time.
fn copy_intact_run(root: &std::path::Path) -> RunDir {
    static FILES: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
    let [db, plan] = FILES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let run = write_run(dir.path());
        [run.database_file(), run.plan_file()].map(|file| std::fs::read(file).unwrap())
    });
    let path = root.join("20260101-000000-tasks-2222");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("run.db"), db).unwrap();
    std::fs::write(path.join("plan.toml"), plan).unwrap();
    RunDir::open(&path).unwrap()
}

/// Writes rounds of one variant. In round n, n + 1 operations take 100 ns and one takes 200 ns. Round 1 is dropped.
fn write_rounds(root: &std::path::Path, rounds: u32) -> RunDir {
    let plan = plan(&["ext4"]);
    let (run, mut writer) = create_run(root, &plan);
    for cell in (0..rounds).flat_map(|round| cells(&plan, round)) {
        let mut load = sample("load", 1.0);
        load.latencies = LatencyHistogram::new([(100, u64::from(cell.round) + 1), (200, 1)]);
        for event in [
            Event::CellStarted { cell: cell.clone() },
            Event::Cell { cell: cell.id(), event: CellEvent::Sample(sample("mount", 2.0)) },
            Event::Cell { cell: cell.id(), event: CellEvent::Sample(load) },
            Event::CellFinished { cell: cell.id(), outcome: Outcome::Done },
        ] {
            writer.apply(&event).unwrap();
        }
    }
    let db = Connection::open(run.database_file()).unwrap();
    db.execute("INSERT INTO note(round, kind, text) VALUES(1, 'dropped', 'a neighbour')", []).unwrap();
    run
}

#[test]
fn latencies_add_up_over_rounds_without_dropped_ones() {
    let root = tempfile::tempdir().unwrap();
    let record = read(&write_rounds(root.path(), 3)).unwrap();
    let task = record.tasks.iter().position(|task| task.id.name == "load").unwrap();
    let pooled: Vec<_> = record.latencies.iter().map(|(key, latencies)| (*key, latencies.buckets().to_vec())).collect();
    assert_eq!(pooled, [((task, 0), vec![(100, 1 + 3), (200, 2)])]);
}

#[test]
fn damaged_latencies_are_reported() {
    let root = tempfile::tempdir().unwrap();
    let run = write_rounds(root.path(), 1);
    let execute = |sql: &str| {
        let db = Connection::open(run.database_file()).unwrap();
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
    };
    execute("UPDATE latencies SET counts = '[[1,-1]]'");
    assert!(read(&run).unwrap_err().to_string().contains("table latencies"));
}

fn group_and_print(tasks: &[(&str, &[(&str, &str)])]) -> Vec<String> {
    let ids = tasks.iter().map(|(name, params)| TaskId {
        name: (*name).into(),
        params: params.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
    });
    group_by_name(ids.collect(), |id| id).iter().map(TaskId::to_string).collect()
}

#[test]
fn tasks_of_a_name_are_sorted_by_number_at_the_position_of_the_first() {
    let clients = |n| ("dbench", [("clients", n)]);
    let [ten, five] = [clients("10"), clients("5")];
    let tasks: Vec<(&str, &[(&str, &str)])> =
        vec![("mkfs", &[]), (ten.0, &ten.1), ("untar", &[]), (five.0, &five.1), ("copy", &[])];
    assert_eq!(group_and_print(&tasks), ["mkfs", "dbench[clients=5]", "dbench[clients=10]", "untar", "copy"]);
}

#[test]
fn samples_keep_their_tasks_after_sorting() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan(&["ext4"]);
    let (run, mut writer) = create_run(root.path(), &plan);
    let cell = cells(&plan, 0).remove(0);
    writer.apply(&Event::CellStarted { cell: cell.clone() }).unwrap();
    for clients in ["20", "5", "10"] {
        let mut sample = sample("dbench", clients.parse().unwrap());
        sample.task.id.params.insert("clients".into(), clients.into());
        let event = CellEvent::Sample(sample);
        writer.apply(&Event::Cell { cell: cell.id(), event }).unwrap();
    }
    writer.apply(&Event::CellFinished { cell: cell.id(), outcome: Outcome::Done }).unwrap();
    let record = crate::read(&run).unwrap();
    let shown: Vec<String> = record.tasks.iter().map(|task| task.id.to_string()).collect();
    assert_eq!(shown, ["dbench[clients=5]", "dbench[clients=10]", "dbench[clients=20]"]);
    assert_eq!(record.samples.task, [2, 0, 1]);
}

#[test]
fn tasks_are_sorted_by_the_first_parameter_that_differs() {
    let tasks: Vec<(&str, &[(&str, &str)])> = vec![
        ("rnd", &[("bs", "4096"), ("threads", "1")]),
        ("rnd", &[("bs", "512"), ("threads", "16")]),
        ("rnd", &[("bs", "512"), ("threads", "2")]),
        ("rnd", &[("bs", "all")]),
        ("rnd", &[]),
    ];
    let shown = ["rnd", "rnd[bs=512,threads=2]", "rnd[bs=512,threads=16]", "rnd[bs=4096,threads=1]", "rnd[bs=all]"];
    assert_eq!(group_and_print(&tasks), shown);
}
