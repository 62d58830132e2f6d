//! Targets for runs whose files were changed after they were written: the plan as text, and single values of the database.

use crate::support::{self, assert_sensible_message};
use fsarena_core::cell::{Cell, TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome, SpentOn};
use fsarena_core::latency::Latencies;
use fsarena_core::metric::{TIMER_READINGS, reading};
use fsarena_core::plan::{Plan, limits};
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::series::Point;
use fsarena_core::{host::Host, matrix, state::RunState};
use fsarena_report::{exporters, report};
use fsarena_run::work;
use fsarena_store::{RunDir, Writer};
use rusqlite::{Connection, types::Value};
use std::sync::OnceLock;

/// The plan of the runs.
const PLAN: &str = include_str!("../plan.toml");
/// Number of rounds of the runs.
const ROUNDS: u32 = 9;
/// Largest number of values that one input changes.
const MAX_CHANGES: usize = 8;
/// Formats in which a changed run is exported: those that compute the most.
const FORMATS: [&str; 3] = ["md", "html", "json"];

/// A run, and the bytes of its database before a change.
struct BaseRun {
    run: RunDir,
    database: Vec<u8>,
}

/// Makes the run of a target at the first call. Each target has a separate run, because tests run targets at the same time.
fn base_run(once: &'static OnceLock<BaseRun>, name: &str) -> &'static BaseRun {
    once.get_or_init(|| {
        let root = support::temp_path(name);
        std::fs::create_dir(&root).expect("a directory");
        let mut plan = Plan::of_stored(PLAN).expect("a plan");
        plan.factors.insert("fs".into(), vec!["ext2".into(), "ext4".into()]);
        plan.stop.rounds = ROUNDS;
        let run = RunDir::create(&root, &plan, "0.1.0").expect("a run");
        let facts = [("cpu_threads".to_string(), "2".to_string())].into();
        let host = Host { hostname: "h".into(), boot_id: "b".into(), kernel: "6.18".into(), facts };
        let mut writer = Writer::open(&run, &host, TIMER_READINGS).expect("a writer");
        let variants = matrix::expand(&plan);
        for cell in (0..ROUNDS).flat_map(|round| matrix::cells(&plan, &variants, &[0, 1], round)) {
            cell_events(&cell).iter().for_each(|event| writer.apply(event).expect("an event"));
        }
        drop(writer);
        let database = std::fs::read(run.database_file()).expect("a database");
        BaseRun { run, database }
    })
}

/// The events of a cell with one sample.
fn cell_events(cell: &Cell) -> Vec<Event> {
    let inside = |what| Event::Cell { cell: cell.id(), what };
    let mut readings = Readings::default();
    readings.set(reading::ELAPSED, 1e9 + f64::from(7 * cell.round + cell.position));
    readings.set(reading::SYNCED, 2e9 + f64::from(cell.round));
    let task = TaskInfo { id: TaskId::new("untar"), title: "Untar".into(), number: None, in_totals: true };
    let point = Point { start_s: 0.0, length_s: 0.5, warm_up: false, operations: 9, bytes: 4096, latency: None };
    let latencies = Latencies::new([(100, 3), (900, 1)]);
    let sample = Sample { task, started_at: 1.8e9, readings, series: vec![point], latencies };
    vec![
        Event::CellStarted { cell: cell.clone() },
        inside(CellEvent::Sample(sample)),
        inside(CellEvent::Spent { what: SpentOn::Idle, ns: 5_000_000 }),
        inside(CellEvent::Note(Note::new(NoteKind::Fairness, "keeps no journal"))),
        Event::CellFinished { cell: cell.id(), outcome: Outcome::Done },
    ]
}

/// Reads, analyses and exports a run, as the commands of fsarena do.
fn run_commands(run: &RunDir, bytes: &[u8]) {
    let _ = fsarena_store::read_summary(run).map_err(|error| assert_sensible_message(&error, bytes));
    let record = match fsarena_store::read(run) {
        Ok(record) => record,
        Err(error) => return assert_sensible_message(&error, bytes),
    };
    let state = RunState::new(record.clone());
    let _ = (state.time_left(), state.departures());
    if let Ok(report) = report::analyse_run(record, report::ReportOptions::default()) {
        for format in FORMATS {
            let exporter = exporters::find(format).expect("a format");
            let _ = exporter.export(&report, &mut std::io::sink());
        }
    }
}

/// Reads a run whose plan is the input, and checks the limits of an accepted plan.
pub fn fuzz_stored_plan(bytes: &[u8]) {
    static BASE: OnceLock<BaseRun> = OnceLock::new();
    let BaseRun { run, .. } = base_run(&BASE, "stored-plan");
    std::fs::write(run.plan_file(), bytes).expect("a file");
    match run.plan() {
        Err(error) => assert_sensible_message(&error, bytes),
        Ok(plan) => {
            let (stop, idle) = (&plan.stop, &plan.idle);
            for seconds in stop.budget_s.into_iter().chain([idle.timeout_s]) {
                limits::duration(seconds).expect("a time of a plan that was accepted");
            }
            assert!((1..=limits::MAX_ROUNDS).contains(&stop.rounds) && stop.warmup <= limits::MOST_WARMUP);
            assert!(stop.rounds_here() <= stop.all_rounds());
            match work::check(&plan) {
                Ok(()) => drop(work::outline(&plan)),
                Err(fault) => assert_sensible_message(&fault, bytes),
            }
        }
    }
    run_commands(run, bytes);
}

/// Reads a run after changes of its database. Each line of the input is a table, a column, a value, and optionally a row;
/// without a row, all rows get the value.
pub fn fuzz_stored_values(bytes: &[u8]) {
    static BASE: OnceLock<BaseRun> = OnceLock::new();
    let BaseRun { run, database } = base_run(&BASE, "stored-values");
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    std::fs::write(run.database_file(), database).expect("a file");
    let db = Connection::open(run.database_file()).expect("a database");
    let _ = db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF");
    let is_name =
        |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b));
    for line in text.lines().take(MAX_CHANGES) {
        let mut words = line.splitn(4, ' ');
        let (Some(table), Some(column)) = (words.next().filter(is_name), words.next().filter(is_name)) else {
            continue;
        };
        let value = match words.next().unwrap_or_default() {
            "null" => Value::Null,
            word => match (word.parse(), word.parse()) {
                (Ok(whole), _) => Value::Integer(whole),
                (_, Ok(real)) => Value::Real(real),
                _ => Value::Text(word.into()),
            },
        };
        let row = words.next().and_then(|row| row.parse::<u16>().ok());
        let condition = row.map_or(String::new(), |row| format!(" WHERE rowid = {row}"));
        // A constraint of the table can refuse the value.
        let _ = db.execute(&format!("UPDATE \"{table}\" SET \"{column}\" = ?1{condition}"), [value]);
    }
    drop(db);
    run_commands(run, bytes);
}
