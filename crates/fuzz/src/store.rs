//! Targets for stored runs: the database and the log of events.

use crate::support::{self, assert_sensible};
use fsarena_core::{plan::Plan, record::RunRecord, state::RunState};
use fsarena_report::live::{Intervals, RunView};
use fsarena_report::report::{self, ReportOptions};
use fsarena_store::{Events, RunDir};
use std::sync::OnceLock;

/// The plan of the run.
const PLAN: &str = include_str!("../plan.toml");
/// Number of events that are read at once.
const BATCH: usize = 100;
/// Largest number of samples of a run that is analysed.
const MAX_SAMPLES: usize = 200;

/// A run that consists of its plan and an empty database.
fn run() -> &'static RunDir {
    static RUN: OnceLock<RunDir> = OnceLock::new();
    RUN.get_or_init(|| {
        let dir = support::path("20260101-000000-tasks-2222");
        std::fs::create_dir(&dir).expect("a directory");
        for (file, text) in [("plan.toml", PLAN), ("run.db", "")] {
            std::fs::write(dir.join(file), text).expect("a file");
        }
        RunDir::open(&dir).expect("a run")
    })
}

/// Follows a run by its event log, as the live page does.
pub fn events(bytes: &[u8]) {
    std::fs::write(run().event_log(), bytes).expect("a file");
    let plan: Plan = toml::from_str(PLAN).expect("a plan");
    let (mut state, mut intervals) = (RunState::new(RunRecord::new(plan, vec![])), Intervals::new("elapsed"));
    let mut log = Events::of(run());
    loop {
        let events = log.next(BATCH).expect("a log");
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
pub fn database(bytes: &[u8]) {
    std::fs::write(run().database(), bytes).expect("a file");
    let _ = fsarena_store::summary(run()).map_err(|error| assert_sensible(&error, bytes));
    match fsarena_store::read(run()) {
        Err(error) => assert_sensible(&error, bytes),
        Ok(record) if record.samples.len() <= MAX_SAMPLES => {
            let _ = report::analyse_run(record, ReportOptions::default())
                .map_err(|error| assert_sensible(&error, bytes));
        }
        Ok(_) => {}
    }
}
