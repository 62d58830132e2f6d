//! `amplification`: many equal calls in each task, and how many bytes and requests each of them causes on the device.

use crate::payload::Noise;
use crate::task::{Action, Result, Task, TaskError, failed_to, info};
use crate::workload::{Job, Place, Room, Survey, Workload, remark_note};
use fsarena_core::cell::TaskInfo;
use fsarena_core::metric::reading;
use fsarena_core::sample::{ReadingDef, Readings, Unit};
use fsarena_core::schedule::mix;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The workload.
pub struct Amplification;

/// The readings that only workloads of equal calls have: this one and `many-files`.
pub const READINGS: &[ReadingDef] =
    &[ReadingDef::neutral(reading::CALLS, Unit::Count)
        .help("calls of the task: files made, renamed, written, removed")];

/// The bytes that an append or an overwrite writes.
const BLOCK_BYTES: usize = 4096;

const DEF: WorkloadDef = WorkloadDef {
    id: "amplification",
    help: "bytes, requests and flushes of the device for each mkdir, create, rename, unlink, append with fsync and 4 KiB overwrite",
    metrics: &["device_bytes_per_call", "device_writes_per_call", "device_flushes_per_call", "elapsed"],
    settings: &[
        SettingDef::int("calls", 0..=10_000_000, 0)
            .help("calls of each task; 0 for 20,000, 2,000 or 200, by the scale"),
        SettingDef::choice("sync", &["end", "each"], "end")
            .help("whether the data of a task is synced after its last call, or after each call (fsync of the file or directory); appends are always synced"),
    ],
};

/// The kind of calls that a task makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Mkdir,
    Create,
    Rename,
    Unlink,
    Append,
    Overwrite,
}

/// The tasks in order: the kind of their calls, the name of the task and of its calls in the log, and its title.
const TASKS: [(CallKind, &str, &str); 6] = [
    (CallKind::Mkdir, "mkdir", "Make directories"),
    (CallKind::Create, "create", "Create empty files"),
    (CallKind::Rename, "rename", "Rename files within their directory"),
    (CallKind::Unlink, "unlink", "Remove empty files"),
    (CallKind::Append, "append", "Append 4 KiB and fsync"),
    (CallKind::Overwrite, "overwrite", "Overwrite 4 KiB of a file in random order"),
];

/// The directory of the calls, and the resolved settings of a job.
#[derive(Debug, Clone)]
struct Calls {
    root: PathBuf,
    /// Calls of each task.
    count: u64,
    /// Whether the file or directory is synced after each call.
    syncs_after_each: bool,
    seed: u64,
}

fn call_count(job: &Job) -> u64 {
    job.int_or_by_scale("calls", [20_000, 2_000, 200])
}

impl Workload for Amplification {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        TASKS.map(|(_, name, title)| info(name, title, [])).into()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let count = call_count(job);
        // One block for each append and two for each overwrite: copy on write keeps the old block until the next
        // commit.
        let room = Room { bytes: 3 * count * BLOCK_BYTES as u64, inodes: 3 * count + 10, source_bytes: 0 };
        let synced = match job.settings.text("sync") {
            "each" => "the file or directory is synced after each call",
            _ => "all data is synced once, after the last call, so that calls share the blocks that they change",
        };
        let text = format!("amplification: {count} calls in each task; {synced}; appends are synced each");
        Ok(Survey { room, remarks: vec![remark_note(text)], ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let calls = Calls {
            root: place.root.join("amplification"),
            count: call_count(job),
            syncs_after_each: job.settings.text("sync") == "each",
            seed: job.seed,
        };
        let mut tasks = vec![];
        for (kind, name, title) in TASKS {
            let (untimed_calls, timed_calls) = (calls.clone(), calls.clone());
            let preparation = Action::call_on("prepare", &calls.root, move |_| untimed_calls.prepare(kind));
            let work = Action::call_on(name, &calls.root, move |_| {
                timed_calls.perform(kind)?;
                Ok(Readings([(reading::CALLS.to_string(), timed_calls.count as f64)].into()))
            });
            tasks.push(Task::new(info(name, title, []), work).with_preparation([preparation]));
        }
        Ok(tasks)
    }
}

impl Calls {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn numbered_path(&self, dir: &str, number: u64) -> PathBuf {
        self.root.join(format!("{dir}/{number:08}"))
    }

    /// The path of a file after the task `rename`.
    fn renamed_path(&self, number: u64) -> PathBuf {
        self.root.join(format!("files/renamed-{number:08}"))
    }

    /// Makes the files and directories that a task requires. fsarena does this untimed, and syncs them before the task.
    fn prepare(&self, kind: CallKind) -> Result<()> {
        let make_dir = |dir: &Path| std::fs::create_dir_all(dir).map_err(failed_to("make", dir));
        match kind {
            CallKind::Mkdir => make_dir(&self.path("dirs")),
            CallKind::Create => make_dir(&self.path("files")),
            CallKind::Rename | CallKind::Unlink => Ok(()),
            CallKind::Append => {
                File::create(self.path("log")).map(drop).map_err(failed_to("create", &self.path("log")))
            }
            CallKind::Overwrite => {
                let path = self.path("blocks");
                let noise = Noise::new(self.seed, BLOCK_BYTES);
                let file = File::create(&path).map_err(failed_to("create", &path))?;
                (0..self.count)
                    .try_for_each(|block| write_block(&file, &noise, block, block).map_err(failed_to("write", &path)))
            }
        }
    }

    /// Makes all calls of a task.
    fn perform(&self, kind: CallKind) -> Result<()> {
        // The directory stays open while its entries change, so that syncing it needs no lookup.
        let open_dir = |name: &str| File::open(self.path(name)).map_err(failed_to("open", &self.path(name)));
        match kind {
            CallKind::Mkdir => self.call_for_each(&open_dir("dirs")?, |number| {
                let path = self.numbered_path("dirs", number);
                std::fs::create_dir(&path).map_err(failed_to("make", &path))
            }),
            CallKind::Create => self.call_for_each(&open_dir("files")?, |number| {
                let path = self.numbered_path("files", number);
                File::create_new(&path).map(drop).map_err(failed_to("create", &path))
            }),
            CallKind::Rename => self.call_for_each(&open_dir("files")?, |number| {
                let old_path = self.numbered_path("files", number);
                std::fs::rename(&old_path, self.renamed_path(number)).map_err(failed_to("rename", &old_path))
            }),
            CallKind::Unlink => self.call_for_each(&open_dir("files")?, |number| {
                let path = self.renamed_path(number);
                std::fs::remove_file(&path).map_err(failed_to("remove", &path))
            }),
            CallKind::Append => self.write_blocks("log", true, |number| number),
            CallKind::Overwrite => {
                let order = shuffled_numbers(self.count, self.seed);
                self.write_blocks("blocks", self.syncs_after_each, |number| order[number as usize])
            }
        }
    }

    /// Makes a call for each number, and syncs the directory after each call if the setting requires it.
    fn call_for_each(&self, dir: &File, call: impl Fn(u64) -> Result<()>) -> Result<()> {
        for number in 0..self.count {
            call(number)?;
            if self.syncs_after_each {
                dir.sync_all().map_err(TaskError::io(format!("sync the directory after call {number}")))?;
            }
        }
        Ok(())
    }

    /// Writes one block of a file in each call. `block_of_call` returns the position of the call's block, counted in
    /// blocks.
    fn write_blocks(&self, name: &str, syncs_after_each: bool, block_of_call: impl Fn(u64) -> u64) -> Result<()> {
        let path = self.path(name);
        // With another seed than in `prepare`, an overwrite changes the contents.
        let noise = Noise::new(mix(self.seed, 7), BLOCK_BYTES);
        let file = File::options().write(true).open(&path).map_err(failed_to("open", &path))?;
        for number in 0..self.count {
            write_block(&file, &noise, number, block_of_call(number)).map_err(failed_to("write", &path))?;
            if syncs_after_each {
                file.sync_all().map_err(failed_to("sync", &path))?;
            }
        }
        Ok(())
    }
}

/// Writes the contents with a number to a block of a file.
fn write_block(file: &File, noise: &Noise, number: u64, block: u64) -> std::io::Result<()> {
    file.write_all_at(noise.contents(number, BLOCK_BYTES), block * BLOCK_BYTES as u64)
}

/// The numbers below `count` in random order (Fisher and Yates).
fn shuffled_numbers(count: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, (mix(seed, index as u64) % (index as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place, task_ids};

    #[test]
    fn each_task_makes_its_calls_and_counts_them() {
        for sync in ["end", "each"] {
            let dir = tempfile::tempdir().unwrap();
            let place = place(dir.path());
            let job = job(&DEF, 7, &[("sync", sync), ("calls", "20")]);
            let entries =
                |name: &str| std::fs::read_dir(dir.path().join("amplification").join(name)).map_or(0, Iterator::count);
            let mut entries_after_tasks = vec![];
            for task in Amplification.tasks(&job, &place).unwrap() {
                perform_all(task.preparation);
                assert_eq!(perform_all(task.work).readings.get(reading::CALLS), Some(20.0));
                entries_after_tasks.push((entries("dirs"), entries("files")));
            }
            assert_eq!(entries_after_tasks, [(20, 0), (20, 20), (20, 20), (20, 0), (20, 0), (20, 0)]);
            for name in ["log", "blocks"] {
                let bytes = std::fs::read(dir.path().join("amplification").join(name)).unwrap();
                assert_eq!(bytes.len(), 20 * BLOCK_BYTES);
            }
        }
        let names = task_ids(&Amplification.outline(&job(&DEF, 7, &[])));
        assert_eq!(names, ["mkdir", "create", "rename", "unlink", "append", "overwrite"]);
    }

    #[test]
    fn every_block_is_overwritten_once() {
        let mut order = shuffled_numbers(100, 3);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
