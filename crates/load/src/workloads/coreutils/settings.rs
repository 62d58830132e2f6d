//! The settings of the workload, and what every report must say of them.

use super::tasks::{TASKS, TaskDef};
use crate::program::{DRIVER, Driver, REFLINK};
use crate::source::{COMPRESSIBLE, Contents, Source, TREE, TREE_FILES};
use crate::workload::{Job, fairness, remark};
use fsarena_core::event::Note;
use fsarena_core::setting::{SettingDef, WorkloadDef};

/// The workload's definition.
pub const DEF: WorkloadDef = WorkloadDef {
    id: "coreutils",
    help: "the 21 tasks of Piszcz (2004, 2006): touch, find, rm, mkdir, cp, tar, split, dd and cat",
    metrics: &["elapsed", "synced"],
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
            cold: settings.text("cache") == "cold",
            source: Source::of(job),
            tasks: TASKS.iter().filter(|task| numbers.contains(&task.number)).collect(),
        }
    }
    /// What every report must say of the tasks on this machine; their files take at most `bytes` bytes.
    pub fn remarks(&self, contents: &Contents, bytes: u64) -> Vec<Note> {
        let mut notes = Vec::from(self.driver.remarks());
        notes.push(self.source.remark());
        if contents.left_out > 0 {
            let text = format!(
                "{} sockets, pipes and devices of the tree were left out of the archive",
                contents.left_out
            );
            notes.push(remark(text));
        }
        if self.tasks.iter().any(|task| [13, 14, 21].contains(&task.number)) {
            let text = "the large file comes from /dev/zero: a filesystem that compresses stores next to nothing of it";
            let fix = "compare with compression off, or leave out 13, 14 and 21";
            notes.push(remark(text).fix(fix));
        }
        notes.extend(memory(self.cold, bytes, rustix::system::sysinfo().totalram as u64));
        notes
    }
}

/// Whether reading tasks read from memory, and what that means.
fn memory(cold: bool, working_set: u64, ram: u64) -> Option<Note> {
    if cold || working_set > ram {
        return None;
    }
    let text = format!(
        "all files ({} MiB at most) fit into memory ({} MiB): with cache=warm find, tar, cp and cat read from the page cache, not from the device",
        working_set >> 20,
        ram >> 20
    );
    Some(fairness(text).fix("--set cache=cold, or --scale paper where memory is small"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::event::NoteKind;

    #[test]
    fn a_working_set_that_fits_into_memory_is_said_when_the_cache_is_warm() {
        let note = memory(false, 300 << 20, 8 << 30).unwrap();
        assert_eq!(note.kind, NoteKind::Fairness);
        assert!(note.text.starts_with("all files (300 MiB at most) fit into memory (8192 MiB)"));
        assert_eq!(memory(true, 300 << 20, 8 << 30), None);
        assert_eq!(memory(false, 9 << 30, 8 << 30), None);
    }
}
