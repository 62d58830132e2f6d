//! `coreutils`: the 21 tasks that Justin Piszcz timed in 2004 and 2006, with touch, find, rm, mkdir, cp,
//! tar, split, dd and cat.

mod tasks;

use crate::payload::Payload;
use crate::program::{self, DRIVER, Driver, REFLINK, prepare_destination};
use crate::source::{COMPRESSIBLE, Source, TREE, TREE_FILES, TreeSize, compressible};
use crate::task::{self, Action, Before, Call, Result, Task, TaskError, failed_to};
use crate::workload::{Demands, Job, Place, Survey, Workload, fairness, remark};
use crate::workloads::coreutils::tasks::{FileGroup, SMALL_FILE, Sizes, TARBALL, TASKS, TaskDef};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::TaskInfo, event::Note};
use std::collections::BTreeSet;

/// The workload.
pub struct Coreutils;

impl Workload for Coreutils {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        let sizes = Sizes::from_job(job);
        CoreutilsSettings::resolve(job).tasks.iter().map(|task| task_info(task, &sizes)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = CoreutilsSettings::resolve(job);
        let (contents, demands) = settings.source.measure()?;
        let room = tasks::room_needed(&settings.tasks, &Sizes::from_job(job), &contents);
        let unpacked =
            tasks::with_suppliers(&settings.tasks).iter().any(|task| task.makes == FileGroup::Tree);
        let demands = if unpacked { demands } else { Demands::default() };
        Ok(Survey { room, demands, remarks: settings.remarks(&contents, room.bytes), ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        let settings = CoreutilsSettings::resolve(job);
        if settings.driver.native {
            return vec![];
        }
        // The paths are placeholders; only the names of the programs are used.
        let (at, sizes) =
            (Place { root: "/".into(), other: "/".into(), server_user: None }, Sizes::from_job(job));
        let run = tasks::with_suppliers(&settings.tasks);
        let programs: BTreeSet<_> = run.iter().map(|task| (task.op)(&at, &sizes).program()).collect();
        programs.into_iter().collect()
    }

    fn inputs(&self, job: &Job, place: &Place) -> Result<()> {
        let settings = CoreutilsSettings::resolve(job);
        let input = place.other.join(TARBALL);
        // A file beside the archive records the archive's source. It is written last, so if it exists, the archive is
        // complete.
        let (source_note, made_of) =
            (input.with_extension("tar.made-of"), format!("{:?}\n", settings.source));
        if std::fs::read_to_string(&source_note).is_ok_and(|of| of == made_of) && input.exists() {
            return Ok(());
        }
        let unfinished = input.with_extension("unfinished");
        let written = settings.source.archive_to(&unfinished)?;
        written.sync_all().map_err(failed_to("write", &unfinished))?;
        std::fs::rename(&unfinished, input).map_err(failed_to("rename", &unfinished))?;
        std::fs::write(&source_note, made_of).map_err(failed_to("write", &source_note))
    }

    fn draws_inputs(&self, job: &Job) -> bool {
        Source::from_job(job).is_generated()
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let settings = CoreutilsSettings::resolve(job);
        let builder = TaskBuilder { at: place, sizes: Sizes::from_job(job), settings: &settings, job };
        let (input, all) = (place.other.join(TARBALL), tasks::with_suppliers(&settings.tasks));
        if all.iter().any(|task| task.needs == FileGroup::Input) && !input.exists() {
            let why =
                format!("the archive {} is missing; fsarena makes it at the start of a run", input.display());
            return Err(TaskError::Unfit(why));
        }
        let mut present = BTreeSet::from([FileGroup::Nothing, FileGroup::Input]);
        Ok(settings.tasks.iter().map(|task| builder.task(task, &mut present)).collect())
    }

    fn may_clone(&self, job: &Job) -> bool {
        CoreutilsSettings::resolve(job).driver.clones
    }
}

fn task_info(task: &TaskDef, sizes: &Sizes) -> TaskInfo {
    TaskInfo { number: Some(format!("{:03}", task.number)), ..task::info(task.id, task.title(sizes), []) }
}

/// Builds the tasks of a cell from their definitions.
struct TaskBuilder<'a> {
    at: &'a Place,
    sizes: Sizes,
    settings: &'a CoreutilsSettings,
    job: &'a Job,
}

impl TaskBuilder<'_> {
    fn task(&self, task: &TaskDef, present: &mut BTreeSet<FileGroup>) -> Task {
        let mut prepare = Vec::new();
        self.supply(task.needs, present, &mut prepare);
        let work = self.work(task, &mut prepare);
        if task.uses_up {
            present.remove(&task.needs);
        }
        present.insert(task.makes);
        let cold = self.settings.cold && task.needs != FileGroup::Nothing;
        let before = if cold { Before::ColdCache } else { Before::Warm };
        Task { before, prepare, ..Task::new(task_info(task, &self.sizes), work) }
    }

    /// Adds the untimed work that makes these files, unless they are present already.
    fn supply(&self, thing: FileGroup, present: &mut BTreeSet<FileGroup>, prepare: &mut Vec<Action>) {
        if !present.insert(thing) {
            return;
        }
        match tasks::maker_of(thing) {
            Some(task) => {
                self.supply(task.needs, present, prepare);
                let work = self.work(task, prepare);
                prepare.push(work);
            }
            None => prepare.push(self.write_small()),
        }
    }

    /// Returns the work of a task, and adds the untimed work that prepares its destination.
    fn work(&self, task: &TaskDef, prepare: &mut Vec<Action>) -> Action {
        let op = (task.op)(self.at, &self.sizes);
        prepare.extend(prepare_destination(&op));
        program::action(&op, self.settings.driver)
    }

    /// Makes the action that writes the file that is split.
    fn write_small(&self) -> Action {
        let (path, bytes) = (self.at.root.join(SMALL_FILE), self.sizes.small_bytes);
        let (seed, compressible) = (self.job.seed, compressible(self.job));
        Action::Call(Call::new([format!("write {bytes} bytes to {}", path.display())], move || {
            let mut contents = vec![0; bytes as usize];
            Payload::new(seed, compressible).fill(&mut contents);
            std::fs::write(&path, &contents).map_err(failed_to("write", &path))
        }))
    }
}

/// The workload's definition.
const DEF: WorkloadDef = WorkloadDef {
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

/// The resolved settings of a job.
struct CoreutilsSettings {
    driver: Driver,
    cold: bool,
    source: Source,
    /// The chosen tasks in the order in which they run.
    tasks: Vec<&'static TaskDef>,
}

impl CoreutilsSettings {
    /// Reads the settings, which are complete and checked.
    fn resolve(job: &Job) -> CoreutilsSettings {
        let settings = &job.settings;
        let numbers = settings.ints("tasks");
        CoreutilsSettings {
            driver: Driver::from_settings(settings),
            cold: settings.text("cache") == "cold",
            source: Source::from_job(job),
            tasks: TASKS.iter().filter(|task| numbers.contains(&task.number)).collect(),
        }
    }

    /// The notes in every report. `bytes` is the largest size of all files at one time.
    fn remarks(&self, contents: &TreeSize, bytes: u64) -> Vec<Note> {
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
        notes.extend(page_cache_remark(self.cold, bytes, rustix::system::sysinfo().totalram as u64));
        notes
    }
}

/// Warns that tasks read from the page cache instead of the device, if all files fit into memory and the cache is warm.
fn page_cache_remark(cold: bool, working_set: u64, ram: u64) -> Option<Note> {
    if cold || working_set > ram {
        return None;
    }
    let text = format!(
        "all files ({} MiB at most) fit into memory ({} MiB): with cache=warm find, tar, cp and cat read from the page cache, not from the device",
        working_set >> 20,
        ram >> 20
    );
    Some(fairness(text).fix(format!(
        "{}, or {} where memory is small",
        setting("set", "cache=cold"),
        setting("scale", "paper")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::event::NoteKind;

    #[test]
    fn a_working_set_that_fits_into_memory_gets_a_remark_if_the_cache_is_warm() {
        let note = page_cache_remark(false, 300 << 20, 8 << 30).unwrap();
        assert_eq!(note.kind, NoteKind::Fairness);
        assert!(note.text.starts_with("all files (300 MiB at most) fit into memory (8192 MiB)"));
        assert_eq!(page_cache_remark(true, 300 << 20, 8 << 30), None);
        assert_eq!(page_cache_remark(false, 9 << 30, 8 << 30), None);
    }
}
