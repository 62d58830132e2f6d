//! Targets for published figures, loadfiles of dbench, and the output of the benchmark programs that workloads run.

use crate::support::{self, assert_sensible};
use fsarena_core::{published, scale::Scale, setting::Settings};
use fsarena_load::dbench::{Program, loadfile};
use fsarena_load::workload::{Job, Place};
use fsarena_load::{task::Action, workloads};

/// Parses published figures, and checks that all are finite.
pub fn published(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match published::parse("study", text, &Default::default()) {
        // An error message must not be empty or much longer than the input.
        Err(error) => assert_sensible(&error, bytes),
        Ok(sets) => assert!(sets.iter().flat_map(|set| &set.rows).all(|figure| figure.value.is_finite())),
    }
}

/// Parses a loadfile, and decodes its compact form, which every cell reads.
pub fn loadfile(bytes: &[u8]) {
    let path = support::file("loadfile", bytes);
    match loadfile::load(&path) {
        Err(error) => assert_sensible(&error, bytes),
        Ok(program) => {
            let packed = program.pack();
            let again = Program::unpack(&packed).expect("a packed load can be unpacked");
            assert_eq!(again.pack(), packed);
        }
    }
    let _ = Program::unpack(bytes).map_err(|error| assert_sensible(&error, bytes));
}

/// Parses the input as the output of fio and of sysbench, and checks that all figures are finite.
pub fn tools(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let place = Place { root: support::path(""), other: support::path(""), server_user: None };
    for name in ["fio", "sysbench"] {
        let workload = workloads::find(name).expect("a workload");
        let job = Job { settings: Settings::defaults(workload.def().settings), scale: Scale::Tiny, seed: 1 };
        let tasks = workload.tasks(&job, &place).expect("tasks");
        let read = tasks.into_iter().flat_map(|task| task.work).find_map(|action| match action {
            Action::Read(_, read) => Some(read),
            _ => None,
        });
        match read.expect("a task that reads what is printed")(text) {
            Err(error) => assert_sensible(&error, bytes),
            Ok(output) => assert!(output.readings.0.values().all(|value| value.is_finite()), "{output:?}"),
        }
    }
}
