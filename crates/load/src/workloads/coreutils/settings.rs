//! The settings of the workload.

use super::tasks::{TASKS, Task};
use crate::source::Source;
use crate::workload::Job;
use fsarena_core::setting::{Default, Kind, SettingDef, Value, WorkloadDef};

/// The workload's definition.
pub const DEF: WorkloadDef = WorkloadDef {
    id: "coreutils",
    help: "the 21 tasks of Piszcz (2004, 2006): touch, find, rm, mkdir, cp, tar, split, dd and cat",
    settings: &[
        SettingDef {
            id: "driver",
            kind: Kind::Choice(&["commands", "native"]),
            default: Default::Text("commands"),
            help: "commands runs the real programs; native does their system calls in-process",
        },
        SettingDef {
            id: "tree",
            kind: Kind::Path,
            default: Default::Text(""),
            help: "directory that is archived and unpacked; empty for a generated tree like the kernel's",
        },
        SettingDef {
            id: "tree_files",
            kind: Kind::Int { min: 0, max: 10_000_000 },
            default: Default::Int(0),
            help: "files of the generated tree; 0 for 20,000 shrunk by the scale",
        },
        SettingDef {
            id: "compressible",
            kind: Kind::Int { min: 0, max: 100 },
            default: Default::Int(50),
            help: "per cent of each generated file that is text; the rest cannot be compressed",
        },
        SettingDef {
            id: "reflink",
            kind: Kind::Choice(&["never", "auto"]),
            default: Default::Text("never"),
            help: "never makes cp copy; auto lets it clone blocks where the filesystem can",
        },
        SettingDef {
            id: "cache",
            kind: Kind::Choice(&["warm", "cold"]),
            default: Default::Text("warm"),
            help: "warm leaves caches as the task before left them; cold drops them before every task that starts from existing files",
        },
        SettingDef {
            id: "tasks",
            kind: Kind::Ints { min: 1, max: 21 },
            default: Default::Ints(&[
                1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
            ]),
            help: "numbers of the tasks to time; what they need from others is made untimed",
        },
    ],
};

/// What does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// The real programs.
    Commands,
    /// Their system calls, in this process.
    Native,
}

/// Whether a copy may share blocks with what it copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflink {
    /// It may not: every byte is read and written.
    Never,
    /// It may: the filesystem is asked to clone, then to copy by itself.
    Auto,
}

/// The settings of a job, each as what it means.
pub struct Chosen {
    pub driver: Driver,
    pub reflink: Reflink,
    pub cold: bool,
    pub compressible: u8,
    pub source: Source,
    /// In the order in which they run.
    pub tasks: Vec<&'static Task>,
}

impl Chosen {
    /// Reads the settings, which are complete and checked.
    pub fn of(job: &Job) -> Chosen {
        let settings = &job.settings;
        let compressible = settings.int("compressible") as u8;
        let source = match settings.text("tree") {
            "" => Source::Generated { seed: job.seed, files: generated_files(job), compressible },
            path => Source::Directory(path.into()),
        };
        let numbers = numbers(settings.0.get("tasks"));
        Chosen {
            driver: if settings.text("driver") == "native" { Driver::Native } else { Driver::Commands },
            reflink: if settings.text("reflink") == "auto" { Reflink::Auto } else { Reflink::Never },
            cold: settings.text("cache") == "cold",
            compressible,
            source,
            tasks: TASKS.iter().filter(|task| numbers.contains(&task.number)).collect(),
        }
    }
}

/// How many files the generated tree has.
pub fn generated_files(job: &Job) -> u64 {
    match job.settings.int("tree_files") {
        0 => job.scale.count(20_000, 40),
        files => files as u64,
    }
}

fn numbers(value: Option<&Value>) -> Vec<i64> {
    let number = |value: &Value| if let Value::Int(number) = value { Some(*number) } else { None };
    match value {
        Some(Value::List(values)) => values.iter().filter_map(number).collect(),
        Some(value) => number(value).into_iter().collect(),
        None => vec![],
    }
}
