//! The settings of the workload.

use super::tasks::{TASKS, TaskDef};
use crate::program::{DRIVER, Driver, REFLINK, Reflink};
use crate::source::{COMPRESSIBLE, Source, TREE, TREE_FILES};
use crate::workload::Job;
use fsarena_core::setting::{SettingDef, WorkloadDef};

/// The workload's definition.
pub const DEF: WorkloadDef = WorkloadDef {
    id: "coreutils",
    help: "the 21 tasks of Piszcz (2004, 2006): touch, find, rm, mkdir, cp, tar, split, dd and cat",
    settings: &[
        DRIVER,
        TREE,
        TREE_FILES,
        COMPRESSIBLE,
        REFLINK,
        SettingDef::choice("cache", &["warm", "cold"], "warm")
            .help("warm leaves caches as the task before left them; cold drops them before every task that starts from existing files"),
        SettingDef::ints("tasks", 1..=21, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21])
            .help("numbers of the tasks to time; what they need from others is made untimed"),
    ],
};

/// The settings of a job, each as what it means.
pub struct Chosen {
    pub driver: Driver,
    pub reflink: Reflink,
    pub cold: bool,
    pub source: Source,
    /// In the order in which they run.
    pub tasks: Vec<&'static TaskDef>,
}

impl Chosen {
    /// Reads the settings, which are complete and checked.
    pub fn of(job: &Job) -> Chosen {
        let settings = &job.settings;
        let numbers = settings.ints("tasks");
        Chosen {
            driver: Driver::of(settings),
            reflink: Reflink::of(settings),
            cold: settings.text("cache") == "cold",
            source: Source::of(job),
            tasks: TASKS.iter().filter(|task| numbers.contains(&task.number)).collect(),
        }
    }
}
