//! `fileio`: file I/O by mode, block size and number of threads. Each combination is a task.
//!
//! The semantics are those of sysbench's fileio: a set of equal files, one sequential cursor that all threads share, a sync
//! of every file after every N writes, and a final sync by each thread. Each task runs until its rate is steady. The seed of
//! the round shuffles the tasks of a cell.

pub mod settings;
#[cfg(test)]
mod tests;

use crate::pace::shuffled;
use crate::task::{self, Action, Call, Result, StartState, Task, TaskError, failed_to};
use crate::workload::{Demands, Job, Place, Room, Survey, Workload, fairness_note, remark_note};
use crate::workloads::fileio::settings::{FileIoSettings, FileIoTask, FileIoWorkload, METRICS, Tool, fileio_settings};
use crate::workloads::{fio, sysbench};
use fsarena_core::sample::TaskOutput;
use fsarena_core::setting::WorkloadDef;
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::TaskInfo, event::Note, metric::reading};
use fsarena_engine::{Content, FileSpec, Files, dio_align};
use std::path::PathBuf;

/// Mixed into the seed of a round to shuffle the order of its tasks.
const ORDER_SEED: u64 = 0x0D3E;

/// The workload by fsarena's own load engine.
pub const FILEIO: FileIoWorkload = FileIoWorkload {
    def: &WorkloadDef {
        id: "fileio",
        help: "direct or buffered reads and writes by mode, block size and threads, as sysbench fileio does them",
        metrics: METRICS,
        settings: &fileio_settings("native"),
    },
};

impl Workload for FileIoWorkload {
    fn def(&self) -> &'static WorkloadDef {
        self.def
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        FileIoSettings::resolve(job).tasks.into_iter().map(task_info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = FileIoSettings::resolve(job);
        let demands = Demands { direct_io: settings.direct, ..Demands::default() };
        // Twice the data: a copy-on-write filesystem keeps old blocks until it commits.
        let room = Room { bytes: 2 * settings.total_bytes(), inodes: u64::from(settings.files), source_bytes: 0 };
        Ok(Survey { room, remarks: remarks(&settings), demands, ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        match FileIoSettings::resolve(job).tool {
            Tool::Native => vec![],
            Tool::Sysbench => vec!["sysbench"],
            Tool::Fio => vec!["fio"],
        }
    }

    fn supports_bare_device(&self) -> bool {
        true
    }

    fn only_reads(&self, job: &Job) -> bool {
        let settings = FileIoSettings::resolve(job);
        let reads = settings.tasks.iter().all(|task| !task.mode.writes);
        // The other tools open their files for writing too, and blocks of another size have other checksums.
        reads && settings.tool == Tool::Native && !settings.verify
    }

    fn read_only_settings(&self) -> Option<&'static str> {
        (self.def.id == FILEIO.def.id).then_some("with modes=seqrd,rndrd direct=false any_layout=true")
    }

    fn fill_actions(&self, job: &Job, place: &Place) -> Result<Vec<Action>> {
        let builder = TaskBuilder {
            settings: FileIoSettings::resolve(job),
            target: Target::probe(place)?,
            checksum_block_bytes: None,
        };
        Ok(vec![builder.call_on_target("fill", |target, settings| fill_files(target, settings, None))])
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let mut builder = TaskBuilder {
            settings: FileIoSettings::resolve(job),
            target: Target::probe(place)?,
            checksum_block_bytes: place.is_read_only().then_some(0),
        };
        let order = shuffled(builder.settings.tasks.clone(), job.seed, ORDER_SEED);
        Ok(order.into_iter().map(|task| builder.build_task(task)).collect())
    }
}

/// The notes on this workload in every report.
fn remarks(settings: &FileIoSettings) -> Vec<Note> {
    let (files, kib_each) = (settings.files, settings.file_bytes >> 10);
    let what = if settings.content == Content::Zeros { "zeros" } else { "noise" };
    let sync = match settings.fsync_every {
        0 => "no syncs between writes".into(),
        writes => format!("all synced after every {writes} writes"),
    };
    let files = format!("{files} files of {kib_each} KiB filled with {what}, {sync}");
    let mut notes = vec![remark_note(engine_remark(settings)), remark_note(files)];
    if !settings.direct {
        let text = "direct=false: files go through the page cache, so reads of files that fit into memory never reach the device";
        notes.push(fairness_note(text).fix(setting("set", "direct=true")));
    }
    notes
}

/// The note on the program that did the I/O.
fn engine_remark(settings: &FileIoSettings) -> String {
    match settings.tool {
        Tool::Native => format!(
            "engine=native: each task ended when MSER-5 and the SNIA rule called it steady, after {} s at the latest; the warm-up is left out",
            settings.seconds
        ),
        Tool::Sysbench => format!(
            "engine=sysbench: the real sysbench ran {} s for each task, without a warm-up, and wrote zeros",
            sysbench::whole_seconds(settings)
        ),
        Tool::Fio => "engine=fio: the real fio ran. Each thread has its own sequential cursor, and only the file just written to is synced: both unlike sysbench".into(),
    }
}

fn task_info(FileIoTask { mode, block_bytes, threads }: FileIoTask) -> TaskInfo {
    task::info(mode.name, mode.title, [("bs", block_bytes.to_string()), ("threads", threads.to_string())])
}

/// The directory or bare device that the load runs on.
#[derive(Debug, Clone)]
struct Target {
    path: PathBuf,
    is_device: bool,
    /// The alignment that direct I/O requires, in bytes.
    alignment: u32,
}

impl Target {
    fn probe(place: &Place) -> Result<Target> {
        let (path, is_device) = (place.root.clone(), place.is_device());
        if is_device {
            return Ok(Target { alignment: dio_align(&path), path, is_device });
        }
        if place.is_read_only() {
            // Files there cannot be opened for direct I/O.
            return Ok(Target { alignment: 1, path, is_device });
        }
        // The alignment depends on the filesystem and its device together, so only a file reports it.
        let probe = path.join("alignment");
        std::fs::write(&probe, "").map_err(failed_to("write", &probe))?;
        let alignment = dio_align(&probe);
        std::fs::remove_file(&probe).map_err(failed_to("remove", &probe))?;
        Ok(Target { path, is_device, alignment })
    }

    /// Returns the reason for leaving a task out, or `None` if the task can run.
    fn refusal(&self, settings: &FileIoSettings, task: FileIoTask) -> Option<String> {
        if settings.direct && !task.block_bytes.is_multiple_of(self.alignment) {
            return Some(format!(
                "left out: blocks of {} bytes, because direct I/O here goes by multiples of {} bytes (statx DIOALIGN)",
                task.block_bytes, self.alignment
            ));
        }
        (self.is_device && settings.tool == Tool::Sysbench)
            .then(|| "left out: the bare device, because sysbench drives regular files only".into())
    }

    /// The files, or the part of the device. Creates nothing.
    fn files(&self, settings: &FileIoSettings) -> Result<Files> {
        Ok(if self.is_device {
            Files::start_of_device(&self.path, settings.total_bytes())?
        } else {
            Files::planned(&self.path, settings.files, settings.file_bytes)
        })
    }
}

/// Builds the tasks of cells, in the order in which they run.
struct TaskBuilder {
    settings: FileIoSettings,
    target: Target,
    /// The files before the next task: `None` if they are missing or incomplete, otherwise the size in bytes of the blocks
    /// with a checksum, which is 0 without checksums.
    checksum_block_bytes: Option<u32>,
}

impl TaskBuilder {
    /// Makes the task with its actions. A task that cannot run only returns the reason.
    fn build_task(&mut self, task: FileIoTask) -> Task {
        if let Some(why) = self.target.refusal(&self.settings, task) {
            let refuse = Call::new(["left", "out"], move || Err::<TaskOutput, _>(TaskError::LeftOut(why)));
            let prepare = vec![Action::Call(refuse)];
            return Task { info: task_info(task), start_state: StartState::Warm, prepare, work: vec![] };
        }
        let prepare = self.preparation(task);
        let (settings, target) = (&self.settings, &self.target);
        let work = match settings.tool {
            Tool::Native => self.native_action(task),
            Tool::Sysbench => sysbench::action(settings, task, &target.path),
            Tool::Fio => fio::action(settings, task, &target.path, target.is_device),
        };
        Task::new(task_info(task), work).with_preparation(prepare)
    }

    /// Makes the untimed action that fills or removes files so that a task can start, or `None` if the present files fit.
    fn preparation(&mut self, task: FileIoTask) -> Option<Action> {
        let is_device = self.target.is_device;
        if task.mode.recreates_files() && !is_device {
            self.checksum_block_bytes = None;
            return Some(self.call_on_target("remove", |target, settings| Ok(target.files(settings)?.remove()?)));
        }
        let verify = if self.settings.verify && !is_device { task.block_bytes } else { 0 };
        let fits = match self.checksum_block_bytes {
            Some(block) => task.mode.writes || block == verify,
            None => false,
        };
        if task.mode.writes && self.settings.verify {
            // The writes of this task leave blocks without a checksum, so the next task cannot use the files.
            self.checksum_block_bytes = None;
        } else if !fits {
            self.checksum_block_bytes = Some(verify);
        }
        if fits {
            return None;
        }
        Some(self.call_on_target("fill", move |target, settings| {
            fill_files(target, settings, (verify > 0).then_some(verify))
        }))
    }

    /// Makes the action of a task for fsarena's own load engine.
    fn native_action(&self, task: FileIoTask) -> Action {
        let job = self.settings.load_job(task, self.target.is_device);
        self.call_on_target(&task_info(task).id.to_string(), move |target, settings| {
            let outcome = fsarena_engine::run(&job, &target.files(settings)?, &mut |_| {})?;
            let mut output = outcome.task_output();
            if job.verify {
                // Set the reading even if it is 0.
                output.readings.set(reading::VERIFIED, outcome.verified_blocks as f64);
            }
            Ok(output)
        })
    }

    /// Makes an action in this process on the target. The log has `what`, the files and the target.
    fn call_on_target<F: Into<TaskOutput>>(
        &self,
        what: &str,
        run: impl FnOnce(&Target, &FileIoSettings) -> Result<F> + Send + 'static,
    ) -> Action {
        let (target, settings) = (&self.target, &self.settings);
        let target_path = target.path.display().to_string();
        let logged_argv =
            [what.to_string(), format!("{} files of {} bytes", settings.files, settings.file_bytes), target_path];
        Action::call_with(&(target.clone(), settings.clone()), logged_argv, |(target, settings)| run(target, settings))
    }
}

/// Writes every byte that a task will read, because reads of unwritten extents never reach the device. `verified_block_bytes` is the
/// size of blocks with a checksum.
fn fill_files(target: &Target, settings: &FileIoSettings, verified_block_bytes: Option<u32>) -> Result<()> {
    if target.is_device {
        fsarena_engine::run(&settings.fill_job(), &target.files(settings)?, &mut |_| {})?;
    } else {
        let FileIoSettings { files: count, file_bytes: bytes, content, seed, .. } = *settings;
        Files::prepare(&target.path, &FileSpec { count, bytes, content, seed, verified_block_bytes })?;
    }
    Ok(())
}
