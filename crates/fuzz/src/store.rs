//! Targets for stored runs: the database, the log of events, and bundles that come from elsewhere.

use crate::support::{self, assert_sensible_message};
use fsarena_core::{plan::Plan, record::RunRecord, state::RunState};
use fsarena_report::live::{RunView, VariantIntervals};
use fsarena_report::report::{self, ReportOptions};
use fsarena_store::Error;
use fsarena_store::archive::{ArchiveLimits, extract, files_below};
use fsarena_store::{EventReader, RunDir};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::sync::OnceLock;
use std::{fs, path::Path};

/// The plan of the run.
const PLAN: &str = include_str!("../plan.toml");
/// Number of events that are read at once.
const BATCH: usize = 100;
/// Largest number of samples of a run that is analysed.
const MAX_SAMPLES: usize = 200;

/// A run that consists of its plan and an empty database.
fn shared_run() -> &'static RunDir {
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

/// Follows a run by its event log, as the live page does.
pub fn fuzz_event_log(bytes: &[u8]) {
    std::fs::write(shared_run().event_log_file(), bytes).expect("a file");
    let plan: Plan = toml::from_str(PLAN).expect("a plan");
    let (mut state, mut intervals) = (RunState::new(RunRecord::new(plan, vec![])), VariantIntervals::new("elapsed"));
    let mut log = EventReader::open(shared_run());
    loop {
        let events = log.read_next(BATCH).expect("a log");
        if events.is_empty() {
            break;
        }
        for (end, event) in events {
            assert!(end <= bytes.len() as u64);
            state.apply(event.at, &event.event);
            intervals.update(&event.event, &state);
            let again = serde_json::to_string(&event).expect("an event is JSON");
            serde_json::from_str::<fsarena_store::TimedEvent>(&again).expect("an event as it is written");
        }
    }
    serde_json::to_string(&RunView::new(&state, &intervals)).expect("a view is JSON");
}

/// Reads a damaged database, and makes a report of what could be read.
pub fn fuzz_database(bytes: &[u8]) {
    std::fs::write(shared_run().database_file(), bytes).expect("a file");
    let _ = fsarena_store::read_summary(shared_run()).map_err(|error| assert_sensible_message(&error, bytes));
    match fsarena_store::read(shared_run()) {
        Err(error) => assert_sensible_message(&error, bytes),
        Ok(record) if record.samples.len() <= MAX_SAMPLES => {
            let _ = report::analyse_run(record, ReportOptions::default())
                .map_err(|error| assert_sensible_message(&error, bytes));
        }
        Ok(_) => {}
    }
}

/// Limits that small inputs can reach.
const LIMITS: ArchiveLimits = ArchiveLimits { members: 16, bytes: 1 << 20, ratio: 20, free_bytes: 64 << 10 };

/// Extracts an archive, and checks that nothing but regular files below one directory was written, and not too much. After a
/// first byte `z` the input is an archive; after any other it is a tar file, which the target compresses.
pub fn fuzz_bundle(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let archive = match first {
        b'z' => rest.to_vec(),
        _ => compress_to_vec(rest, CompressionLevel::Fastest),
    };
    let dir = support::temp_path("bundle");
    let (file, into) = (dir.join("a.tar.zst"), dir.join("into"));
    fs::create_dir_all(&into).and_then(|()| fs::write(&file, &archive)).expect("a place");
    let extracted = extract(&file, &into, LIMITS);
    assert_eq!(entries(&dir), ["a.tar.zst", "into"], "nothing is written elsewhere");
    let (files, size) = count_regular_files(&into);
    assert!(files <= LIMITS.members && size <= LIMITS.bytes, "{files} files of {size} bytes");
    match extracted {
        Ok(names) => {
            let mut names = names;
            names.sort_unstable();
            assert_eq!(files_below(&into).expect("a directory"), names);
        }
        Err(error) => {
            assert!(!matches!(error, Error::Unfit(..)), "{error}");
            assert_sensible_message(&error, bytes);
        }
    }
    fs::remove_dir_all(&dir).expect("a directory");
}

/// The sorted names in a directory.
fn entries(dir: &Path) -> Vec<String> {
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
        let meta = path.symlink_metadata().expect("a file");
        assert!(meta.is_dir() || meta.is_file(), "{}", path.display());
        if meta.is_dir() {
            let inside = count_regular_files(&path);
            (files, size) = (files + inside.0, size + inside.1);
        } else {
            (files, size) = (files + 1, size + meta.len());
        }
    }
    (files, size)
}
