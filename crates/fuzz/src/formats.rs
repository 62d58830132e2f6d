//! Published figures, loadfiles, and the output of benchmark programs that workloads run.

use crate::room::{self, sensible};
use fsarena_core::{published, scale::Scale, setting::Settings};
use fsarena_load::dbench::{Program, loadfile};
use fsarena_load::workload::{Job, Place};
use fsarena_load::{task::Action, workloads};

pub fn published(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match published::parse("study", text, &Default::default()) {
        Err(error) => sensible(&error, bytes),
        Ok(sets) => assert!(sets.iter().flat_map(|set| &set.rows).all(|figure| figure.value.is_finite())),
    }
}

/// Reads a loadfile, and its compact form, which every cell reads again.
pub fn loadfile(bytes: &[u8]) {
    let path = room::file("loadfile", bytes);
    match loadfile::load(&path) {
        Err(error) => sensible(&error, bytes),
        Ok(program) => {
            let kept = program.pack();
            let again = Program::unpack(&kept).expect("a load as it is kept");
            assert_eq!(again.pack(), kept);
        }
    }
    let _ = Program::unpack(bytes).map_err(|error| sensible(&error, bytes));
}

pub fn tools(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let place = Place { root: room::path(""), other: room::path(""), server_user: None };
    for name in ["fio", "sysbench"] {
        let workload = workloads::find(name).expect("a workload");
        let job = Job { settings: Settings::defaults(workload.def().settings), scale: Scale::Tiny, seed: 1 };
        let tasks = workload.steps(&job, &place).expect("tasks");
        let read = tasks.into_iter().flat_map(|task| task.work).find_map(|action| match action {
            Action::Read(_, read) => Some(read),
            _ => None,
        });
        match read.expect("a task that reads what is printed")(text) {
            Err(error) => sensible(&error, bytes),
            Ok(readings) => assert!(readings.0.values().all(|value| value.is_finite()), "{readings:?}"),
        }
    }
}
