//! Helpers for the tests of workloads: they make jobs and places, and perform actions.

use crate::task::Action;
use crate::workload::{Job, Place};
use fsarena_core::cell::TaskInfo;
use fsarena_core::setting::{Settings, WorkloadDef};
use fsarena_core::{sample::TaskOutput, scale::Scale};
use std::path::Path;

/// A job of the smallest scale, with the default settings of a workload except for those in `set`.
pub fn job(def: &WorkloadDef, seed: u64, set: &[(&str, &str)]) -> Job {
    let mut settings = Settings::defaults(def.settings);
    for (id, text) in set {
        let setting = def.settings.iter().find(|setting| setting.id == *id).unwrap();
        settings.0.insert(id.to_string(), setting.kind.parse(text).unwrap());
    }
    Job { settings, scale: Scale::Tiny, seed }
}

/// A directory that is both the filesystem under test and the source disk.
pub fn place(dir: &Path) -> Place {
    Place { root: dir.into(), other: dir.into(), server_user: None }
}

/// Performs actions and returns the output of the last one.
pub fn perform(actions: impl IntoIterator<Item = Action>) -> TaskOutput {
    let mut output = TaskOutput::default();
    for action in actions {
        output = action.perform(&mut |_| {}).unwrap();
    }
    output
}

/// The ids of tasks, with their parameters.
pub fn ids(tasks: &[TaskInfo]) -> Vec<String> {
    tasks.iter().map(|task| task.id.to_string()).collect()
}
