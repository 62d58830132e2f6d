//! Targets for stored runs: the database, the log of events, runs whose plan or values were changed after they were written,
//! and bundles that come from elsewhere.

use crate::support::{self, assert_sensible_message, check_error};
use fsarena_core::cell::{Cell, TaskId, TaskInfo};
use fsarena_core::event::{Activity, CellEvent, Event, Note, NoteKind, Outcome};
use fsarena_core::latency::LatencyHistogram;
use fsarena_core::metric::{TIMER_READINGS, reading};
use fsarena_core::plan::{Plan, limits};
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::series::SeriesPoint;
use fsarena_core::{host::Host, matrix, record::RunRecord, state::RunState};
use fsarena_report::exporters;
use fsarena_report::live::{LiveComparison, RunView};
use fsarena_report::report::{self, ReportOptions};
use fsarena_run::work;
use fsarena_store::archive::{ArchiveLimits, extract, files_below};
use fsarena_store::{Error, EventReader, RunDir, Writer};
use rusqlite::{Connection, types::Value};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::sync::OnceLock;
use std::{fs, path::Path};

/// The plan of the runs.
const PLAN: &str = include_str!("../plan.toml");
/// The number of events that are read at once.
const EVENTS_PER_READ: usize = 100;
/// Largest number of samples of a run that is analysed.
const MAX_SAMPLES: usize = 200;
/// The number of rounds of runs that are changed.
const ROUNDS: u32 = 9;
/// Largest number of values that one input changes.
const MAX_CHANGES: usize = 8;
/// Formats in which a changed run is exported: those that compute the most.
const FORMATS: [&str; 3] = ["md", "html", "json"];
/// The limits of bundles, low enough that small inputs can reach them.
const BUNDLE_LIMITS: ArchiveLimits =
    ArchiveLimits { max_members: 16, max_bytes: 1 << 20, max_ratio: 20, bytes_without_ratio: 64 << 10 };

/// A run with a plan and an empty database, which each input of a target overwrites.
fn empty_run() -> &'static RunDir {
    static RUN: OnceLock<RunDir> = OnceLock::new();
    RUN.get_or_init(|| {
        let dir = support::temp_path("20260101-000000-tasks-2222");
        std::fs::create_dir(&dir).expect("a directory");
        for (file, text) in [("plan.toml", PLAN), ("run.db", "")] {
            std::fs::write(dir.join(file), text).expect("a file");
        }
        RunDir::open(&dir).expect("a run")
    })
}

/// Reads the input as the event log of a run, as the live page does.
pub fn fuzz_event_log(bytes: &[u8]) {
    std::fs::write(empty_run().event_log_file(), bytes).expect("a file");
    let plan: Plan = toml::from_str(PLAN).expect("a plan");
    let (mut state, mut comparison) = (RunState::new(RunRecord::new(plan, vec![])), LiveComparison::new("elapsed"));
    let mut log = EventReader::open(empty_run());
    loop {
        let events = log.read_next(EVENTS_PER_READ).expect("a log");
        if events.is_empty() {
            break;
        }
        for (end, event) in events {
            assert!(end <= bytes.len() as u64);
            state.apply(event.time_s, &event.event);
            comparison.update(&event.event, &state);
            let json = serde_json::to_string(&event).expect("an event is JSON");
            serde_json::from_str::<fsarena_store::TimedEvent>(&json).expect("the JSON is an event");
        }
    }
    serde_json::to_string(&RunView::new(&state, &comparison)).expect("a view is JSON");
}

/// Reads the input as the database of a run, and makes a report of what could be read.
pub fn fuzz_database(bytes: &[u8]) {
    std::fs::write(empty_run().database_file(), bytes).expect("a file");
    check_error(fsarena_store::read_summary(empty_run()), bytes);
    let record = check_error(fsarena_store::read(empty_run()), bytes);
    if let Some(record) = record.filter(|record| record.samples.len() <= MAX_SAMPLES) {
        check_error(report::analyse_run(record, ReportOptions::default()), bytes);
    }
}

/// A run, and the bytes of its database before a change.
struct BaseRun {
    run: RunDir,
    database: Vec<u8>,
}

/// Makes the run of the target of this name at the first call. Each target has a separate run, which every input changes.
fn base_run(run_of_target: &'static OnceLock<BaseRun>, name: &str) -> &'static BaseRun {
    run_of_target.get_or_init(|| {
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
        for cell in (0..ROUNDS).flat_map(|round| matrix::cells_of_round(&plan, &variants, &[0, 1], round)) {
            cell_events(&cell).iter().for_each(|event| writer.apply(event).expect("an event"));
        }
        drop(writer);
        let database = std::fs::read(run.database_file()).expect("a database");
        BaseRun { run, database }
    })
}

/// The events of a cell with one sample.
fn cell_events(cell: &Cell) -> Vec<Event> {
    let event_of_cell = |event| Event::Cell { cell: cell.id(), event };
    let mut readings = Readings::default();
    readings.set(reading::ELAPSED, 1e9 + f64::from(7 * cell.round + cell.position));
    readings.set(reading::SYNCED, 2e9 + f64::from(cell.round));
    let task = TaskInfo { id: TaskId::new("untar"), title: "Untar".into(), number: None, in_totals: true };
    let point = SeriesPoint { start_s: 0.0, length_s: 0.5, warm_up: false, operations: 9, bytes: 4096, latency: None };
    let latencies = LatencyHistogram::new([(100, 3), (900, 1)]);
    let sample = Sample { task, started_at: 1.8e9, readings, series: vec![point], latencies };
    vec![
        Event::CellStarted { cell: cell.clone() },
        event_of_cell(CellEvent::Sample(sample)),
        event_of_cell(CellEvent::Spent { activity: Activity::Idle, ns: 5_000_000 }),
        event_of_cell(CellEvent::Note(Note::new(NoteKind::Fairness, "keeps no journal"))),
        Event::CellFinished { cell: cell.id(), outcome: Outcome::Done },
    ]
}

/// Reads, analyses and exports a run, as the commands of fsarena do. `bytes` is the input that changed it.
fn read_and_export(run: &RunDir, bytes: &[u8]) {
    check_error(fsarena_store::read_summary(run), bytes);
    let Some(record) = check_error(fsarena_store::read(run), bytes) else { return };
    let state = RunState::new(record.clone());
    let _ = (state.time_left(), state.departures());
    if let Ok(report) = report::analyse_run(record, ReportOptions::default()) {
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
    if let Some(plan) = check_error(run.plan(), bytes) {
        let (stop, idle) = (&plan.stop, &plan.idle);
        for seconds in stop.budget_s.into_iter().chain([idle.timeout_s]) {
            limits::checked_duration(seconds).expect("an accepted plan has valid times");
        }
        assert!((1..=limits::MAX_ROUNDS).contains(&stop.rounds) && stop.warmup <= limits::MAX_WARMUP_ROUNDS);
        assert!(stop.rounds_here() <= stop.all_rounds());
        if check_error(work::check_workloads(&plan), bytes).is_some() {
            drop(work::outline_tasks(&plan));
        }
    }
    read_and_export(run, bytes);
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
    read_and_export(run, bytes);
}

/// Extracts an archive, and checks that only regular files below one directory were written, within [`BUNDLE_LIMITS`]. If the
/// first byte of the input is `z`, the rest is an archive; otherwise it is a tar file, which the target compresses.
pub fn fuzz_bundle(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let archive = match first {
        b'z' => rest.to_vec(),
        _ => compress_to_vec(rest, CompressionLevel::Fastest),
    };
    let dir = support::temp_path("bundle");
    let (file, target_dir) = (dir.join("a.tar.zst"), dir.join("into"));
    fs::create_dir_all(&target_dir).and_then(|()| fs::write(&file, &archive)).expect("a directory and a file");
    let extracted = extract(&file, &target_dir, BUNDLE_LIMITS);
    assert_eq!(entry_names(&dir), ["a.tar.zst", "into"], "nothing is written elsewhere");
    let (files, size) = count_regular_files(&target_dir);
    assert!(files <= BUNDLE_LIMITS.max_members && size <= BUNDLE_LIMITS.max_bytes, "{files} files of {size} bytes");
    match extracted {
        Ok(mut names) => {
            names.sort_unstable();
            assert_eq!(files_below(&target_dir).expect("a directory"), names);
        }
        Err(error) => {
            assert!(!matches!(error, Error::InvalidData(..)), "{error}");
            assert_sensible_message(&error, bytes);
        }
    }
    fs::remove_dir_all(&dir).expect("a directory");
}

/// The sorted names in a directory.
fn entry_names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().expect("a name")).collect();
    names.sort_unstable();
    names
}

/// Checks that a directory has only regular files and directories. Returns the number of files and their size in bytes.
fn count_regular_files(dir: &Path) -> (usize, u64) {
    let (mut files, mut size) = (0, 0);
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let metadata = path.symlink_metadata().expect("a file");
        assert!(metadata.is_dir() || metadata.is_file(), "{}", path.display());
        if metadata.is_dir() {
            let below = count_regular_files(&path);
            (files, size) = (files + below.0, size + below.1);
        } else {
            (files, size) = (files + 1, size + metadata.len());
        }
    }
    (files, size)
}
