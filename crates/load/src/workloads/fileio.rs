//! `fileio`: file I/O by mode, block size and number of threads. Each combination is a task.
//!
//! The semantics are those of sysbench's fileio: a set of equal files, one sequential cursor that all threads share, a
//! sync of every file after every N writes, and a final sync by each thread. Each task runs until its rate is steady.
//! The seed of the round shuffles the tasks of a cell.

pub mod settings;

use crate::pace::shuffle_tasks;
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

/// The constant with which this workload shuffles its tasks; see [`shuffle_tasks`].
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
        let demands = Demands { direct_io: settings.uses_direct_io, ..Demands::default() };
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
        let all_read = settings.tasks.iter().all(|task| !task.mode.writes);
        // The other tools open their files for writing too. With `verify`, each block size needs files with other
        // checksums.
        all_read && settings.tool == Tool::Native && !settings.has_checksums
    }

    fn describe_read_only_settings(&self) -> Option<&'static str> {
        (self.def.id == FILEIO.def.id).then_some("with modes=seqrd,rndrd direct=false any_layout=true")
    }

    fn fill_actions(&self, job: &Job, place: &Place) -> Result<Vec<Action>> {
        let builder = FileIoTaskBuilder::new(job, place, None)?;
        Ok(vec![builder.call_on_target("fill", |target, settings| fill_files(target, settings, None))])
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let mut builder = FileIoTaskBuilder::new(job, place, place.is_read_only().then_some(0))?;
        let shuffled_tasks = shuffle_tasks(builder.settings.tasks.clone(), job.seed, ORDER_SEED);
        Ok(shuffled_tasks.into_iter().map(|task| builder.build_task(task)).collect())
    }
}

/// The notes on this workload in every report.
fn remarks(settings: &FileIoSettings) -> Vec<Note> {
    let (files, kib_each) = (settings.files, settings.file_bytes >> 10);
    let content = if settings.content == Content::Zeros { "zeros" } else { "noise" };
    let sync = match settings.writes_per_sync {
        0 => "no syncs between writes".into(),
        writes => format!("all synced after every {writes} writes"),
    };
    let files = format!("{files} files of {kib_each} KiB filled with {content}, {sync}");
    let mut notes = vec![remark_note(engine_remark(settings)), remark_note(files)];
    if !settings.uses_direct_io {
        let text = "direct=false: files go through the page cache, so reads of files that fit into memory never reach the device";
        notes.push(fairness_note(text).fix(setting("set", "direct=true")));
    }
    notes
}

/// The text of the note on the program that did the I/O.
fn engine_remark(settings: &FileIoSettings) -> String {
    match (settings.tool, settings.events) {
        (Tool::Native, 0) => format!(
            "engine=native: each task ended when MSER-5 and the SNIA rule called it steady, after {} s at the latest; the warm-up is left out",
            settings.max_seconds
        ),
        (Tool::Native, events) => format!("engine=native: each task ended after {events} operations; none is left out"),
        (Tool::Sysbench, 0) => format!(
            "engine=sysbench: the real sysbench ran {} s for each task, without a warm-up, and wrote zeros",
            sysbench::whole_seconds(settings)
        ),
        (Tool::Sysbench, events) => format!(
            "engine=sysbench: the real sysbench ran {events} operations for each task, without a warm-up, and wrote zeros"
        ),
        (Tool::Fio, _) => "engine=fio: the real fio ran. Each thread has its own sequential cursor, and only the file just written to is synced: both unlike sysbench".into(),
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
    /// The alignment that direct I/O requires.
    alignment_bytes: u32,
}

impl Target {
    /// Finds out whether the place is a device, and its alignment.
    fn probe(place: &Place) -> Result<Target> {
        let (path, is_device) = (place.root.clone(), place.is_device());
        if is_device {
            return Ok(Target { alignment_bytes: dio_align(&path), path, is_device });
        }
        if place.is_read_only() {
            // Files there cannot be opened for direct I/O.
            return Ok(Target { alignment_bytes: 1, path, is_device });
        }
        // The alignment depends on the filesystem and its device together, so only a file reports it.
        let probe_path = path.join("alignment");
        std::fs::write(&probe_path, "").map_err(failed_to("write", &probe_path))?;
        let alignment_bytes = dio_align(&probe_path);
        std::fs::remove_file(&probe_path).map_err(failed_to("remove", &probe_path))?;
        Ok(Target { path, is_device, alignment_bytes })
    }

    /// Returns the reason to skip a task, or `None` if the task can run.
    fn skip_reason(&self, settings: &FileIoSettings, task: FileIoTask) -> Option<String> {
        if settings.uses_direct_io && !task.block_bytes.is_multiple_of(self.alignment_bytes) {
            return Some(format!(
                "left out: blocks of {} bytes, because direct I/O here goes by multiples of {} bytes (statx DIOALIGN)",
                task.block_bytes, self.alignment_bytes
            ));
        }
        (self.is_device && settings.tool == Tool::Sysbench)
            .then(|| "left out: the bare device, because sysbench drives regular files only".into())
    }

    /// The files, or the part of the device, that the load uses. Creates nothing.
    fn files(&self, settings: &FileIoSettings) -> Result<Files> {
        Ok(if self.is_device {
            Files::start_of_device(&self.path, settings.total_bytes())?
        } else {
            Files::planned(&self.path, settings.files, settings.file_bytes)
        })
    }
}

/// Builds the tasks of cells, in the order in which they run.
struct FileIoTaskBuilder {
    settings: FileIoSettings,
    target: Target,
    /// The state of the files before the next task: `None` if they are missing or incomplete, otherwise the size of the
    /// blocks that have a checksum, which is 0 if none have.
    checksum_block_bytes: Option<u32>,
}

impl FileIoTaskBuilder {
    /// A builder before its first task.
    fn new(job: &Job, place: &Place, checksum_block_bytes: Option<u32>) -> Result<FileIoTaskBuilder> {
        let (settings, target) = (FileIoSettings::resolve(job), Target::probe(place)?);
        Ok(FileIoTaskBuilder { settings, target, checksum_block_bytes })
    }

    /// Builds a task. If it cannot run, its only action fails with [`TaskError::SkipTask`] and the reason.
    fn build_task(&mut self, task: FileIoTask) -> Task {
        if let Some(reason) = self.target.skip_reason(&self.settings, task) {
            let skip = Call::new(["left", "out"], move || Err::<TaskOutput, _>(TaskError::SkipTask(reason)));
            let preparation = vec![Action::Call(skip)];
            return Task { info: task_info(task), start_state: StartState::Warm, preparation, work: vec![] };
        }
        let preparation = self.make_preparation(task);
        let (settings, target) = (&self.settings, &self.target);
        let work = match settings.tool {
            Tool::Native => self.native_action(task),
            Tool::Sysbench => sysbench::sysbench_action(settings, task, &target.path),
            Tool::Fio => fio::fio_action(settings, task, &target.path, target.is_device),
        };
        Task::new(task_info(task), work).with_preparation(preparation)
    }

    /// Makes the untimed action that fills or removes files so that a task can start, or `None` if the present files
    /// fit.
    fn make_preparation(&mut self, task: FileIoTask) -> Option<Action> {
        let is_device = self.target.is_device;
        if task.mode.recreates_files() && !is_device {
            self.checksum_block_bytes = None;
            return Some(self.call_on_target("remove", |target, settings| Ok(target.files(settings)?.remove()?)));
        }
        let needed_block_bytes = if self.settings.has_checksums && !is_device { task.block_bytes } else { 0 };
        let files_fit = match self.checksum_block_bytes {
            Some(present_block_bytes) => task.mode.writes || present_block_bytes == needed_block_bytes,
            None => false,
        };
        if task.mode.writes && self.settings.has_checksums {
            // The writes of this task leave blocks without a checksum, so the next task cannot use the files.
            self.checksum_block_bytes = None;
        } else if !files_fit {
            self.checksum_block_bytes = Some(needed_block_bytes);
        }
        if files_fit {
            return None;
        }
        Some(self.call_on_target("fill", move |target, settings| {
            fill_files(target, settings, (needed_block_bytes > 0).then_some(needed_block_bytes))
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
                output.readings.set(reading::VERIFIED_BLOCKS, outcome.verified_blocks as f64);
            }
            Ok(output)
        })
    }

    /// Makes an action in this process on the target. The log has `verb`, the files and the target.
    fn call_on_target<F: Into<TaskOutput>>(
        &self,
        verb: &str,
        run: impl FnOnce(&Target, &FileIoSettings) -> Result<F> + Send + 'static,
    ) -> Action {
        let (target, settings) = (&self.target, &self.settings);
        let target_path = target.path.display().to_string();
        let logged_argv =
            [verb.to_string(), format!("{} files of {} bytes", settings.files, settings.file_bytes), target_path];
        Action::call_with(&(target.clone(), settings.clone()), logged_argv, |(target, settings)| run(target, settings))
    }
}

/// Writes every byte that a task will read, because reads of unwritten extents never reach the device.
/// `verified_block_bytes` is the size of blocks with a checksum.
fn fill_files(target: &Target, settings: &FileIoSettings, verified_block_bytes: Option<u32>) -> Result<()> {
    if target.is_device {
        fsarena_engine::run(&settings.fill_job(), &target.files(settings)?, &mut |_| {})?;
    } else {
        let FileIoSettings { files: count, file_bytes: bytes_per_file, content, seed, .. } = *settings;
        let spec = FileSpec { count, bytes_per_file, content, seed, verified_block_bytes };
        Files::prepare(&target.path, &spec)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, perform_all, place, task_ids};
    use fsarena_core::scale::Scale;
    use fsarena_core::setting::{SettingValue, Settings};
    fn job(changed_settings: &[(&str, &str)]) -> Job {
        testing::job(FILEIO.def, 11, changed_settings)
    }

    fn built_task_ids(tasks: &[Task]) -> Vec<String> {
        tasks.iter().map(|task| task.info.id.to_string()).collect()
    }

    #[test]
    fn every_combination_is_a_task_and_the_seed_shuffles_them() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(&[("bs", "4096,8192"), ("threads", "1,2,2")]);
        let tasks = FILEIO.tasks(&job, &place(dir.path())).unwrap();
        assert_eq!(built_task_ids(&tasks), built_task_ids(&FILEIO.tasks(&job, &place(dir.path())).unwrap()));
        let mut ids = built_task_ids(&tasks);
        let mut outline = task_ids(&FILEIO.outline(&job));
        assert_ne!(ids, outline);
        ids.sort();
        outline.sort();
        assert_eq!(ids, outline);
        assert_eq!(ids.len(), 16);
        assert_eq!(ids[0], "rndrd[bs=4096,threads=1]");
        let other_seed = Job { seed: 12, ..job.clone() };
        assert_ne!(built_task_ids(&tasks), built_task_ids(&FILEIO.tasks(&other_seed, &place(dir.path())).unwrap()));
    }

    #[test]
    fn sizes_follow_the_scale_and_are_whole_blocks() {
        let paper = FileIoSettings::resolve(&Job { scale: Scale::Paper, ..job(&[]) });
        assert_eq!((paper.files, paper.file_bytes), (128, 16 << 20));
        let tiny = FileIoSettings::resolve(&job(&[("bs", "512,65536")]));
        assert_eq!(tiny.file_bytes, 65536);
        assert_eq!(FileIoSettings::resolve(&job(&[("total_bytes", "1000000"), ("files", "10")])).file_bytes, 7 * 16384);
    }

    #[test]
    fn a_device_is_filled_to_the_last_byte() {
        // 65 blocks of 16 KiB, and 16 MiB.
        for (total_bytes, block_bytes) in [("1064960", 16_u32 << 10), ("16777216", 1 << 20)] {
            let settings = FileIoSettings::resolve(&job(&[("files", "1"), ("total_bytes", total_bytes)]));
            assert_eq!(settings.fill_job().block_bytes, block_bytes);
            assert!(settings.total_bytes().is_multiple_of(block_bytes.into()));
        }
    }

    /// The name of each task, and the first word that the log has for its preparation.
    fn preparation_words(tasks: Vec<Task>) -> Vec<(String, Option<String>)> {
        let first_word = |action: Action| match action {
            Action::Call(call) => call.logged_argv[0].clone(),
            _ => panic!("only calls prepare"),
        };
        tasks.into_iter().map(|task| (task.info.id.name, task.preparation.into_iter().next().map(first_word))).collect()
    }

    #[test]
    fn files_are_filled_once_and_again_after_seqwr() {
        let dir = tempfile::tempdir().unwrap();
        let tasks = FILEIO.tasks(&job(&[("bs", "4096,8192,16384"), ("threads", "1,2")]), &place(dir.path())).unwrap();
        assert!(tasks.iter().all(|task| task.preparation.len() <= 1));
        let mut are_filled = false;
        for (mode, preparation) in preparation_words(tasks) {
            let expected = match (mode.as_str(), are_filled) {
                ("seqwr", _) => Some("remove"),
                (_, false) => Some("fill"),
                (_, true) => None,
            };
            assert_eq!(preparation.as_deref(), expected, "{mode}");
            are_filled = mode != "seqwr";
        }
    }

    #[test]
    fn verified_reads_pass_on_prepared_files_and_find_a_changed_byte() {
        let dir = tempfile::tempdir().unwrap();
        let changed_settings = [("bs", "4096,8192"), ("modes", "seqrd,rndrd,rndwr"), ("verify", "true")];
        let tasks = FILEIO.tasks(&job(&changed_settings), &place(dir.path())).unwrap();
        for task in tasks {
            perform_all(task.preparation.into_iter().chain(task.work));
        }
        // A read finds a byte that changed after the files were filled.
        let mut tasks = FILEIO.tasks(&job(&changed_settings), &place(dir.path())).unwrap().into_iter();
        let task = tasks.find(|task| task.info.id.name == "seqrd").unwrap();
        perform_all(task.preparation);
        let damaged_file = std::fs::File::options().write(true).open(dir.path().join("test_file.0")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&damaged_file, b"X", 1234).unwrap();
        let results = task.work.into_iter().map(|action| action.perform(&mut |_| {}));
        let error = results.filter_map(Result::err).map(|error| error.to_string()).collect::<String>();
        assert!(error.contains("wrong data"), "{error}");
    }

    #[test]
    fn tasks_with_blocks_below_the_alignment_are_skipped_with_the_reason() {
        let settings = FileIoSettings::resolve(&job(&[("bs", "512,4096")]));
        let target = Target { path: "/mnt".into(), is_device: false, alignment_bytes: 4096 };
        let reason = target.skip_reason(&settings, settings.tasks[0]).unwrap();
        assert!(reason.contains("blocks of 512 bytes") && reason.contains("multiples of 4096 bytes"), "{reason}");
        assert_eq!(target.skip_reason(&settings, settings.tasks[1]), None);
        assert_eq!(
            target.skip_reason(&FileIoSettings { uses_direct_io: false, ..settings.clone() }, settings.tasks[0]),
            None
        );
        let device = Target { path: "/dev/loop9".into(), is_device: true, alignment_bytes: 512 };
        assert_eq!(device.skip_reason(&settings, settings.tasks[0]), None);
        let by_sysbench = FileIoSettings { tool: Tool::Sysbench, ..settings.clone() };
        assert!(device.skip_reason(&by_sysbench, settings.tasks[0]).unwrap().contains("regular files only"));
    }

    #[test]
    fn a_task_that_cannot_run_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = FileIoTaskBuilder {
            settings: FileIoSettings::resolve(&job(&[("bs", "512"), ("modes", "rndrd")])),
            target: Target { path: dir.path().into(), is_device: false, alignment_bytes: 4096 },
            checksum_block_bytes: None,
        };
        let fileio_task = builder.settings.tasks[0];
        let task = builder.build_task(fileio_task);
        assert!(task.work.is_empty());
        let error = task.preparation.into_iter().next().unwrap().perform(&mut |_| {}).unwrap_err();
        assert!(matches!(error, TaskError::SkipTask(_)));
    }

    #[test]
    fn each_mode_performs_exactly_the_set_number_of_operations() {
        let dir = tempfile::tempdir().unwrap();
        let changed_settings =
            [("bs", "4096"), ("threads", "3"), ("events", "1000"), ("files", "8"), ("direct", "false")];
        for task in FILEIO.tasks(&job(&changed_settings), &place(dir.path())).unwrap() {
            perform_all(task.preparation);
            let mode = task.info.id.name;
            let readings = perform_all(task.work).readings;
            assert_eq!(readings.get("all_operations_count"), Some(1000.0), "{mode}");
            // After every 100 writes follow 8 syncs: nine complete rounds, and 28 writes of the tenth.
            let (kind, syncs) = if mode.ends_with("wr") { ("write", Some(72.0)) } else { ("read", None) };
            assert_eq!(readings.get("sync_operations_count"), syncs, "{mode}");
            assert_eq!(
                readings.get(&format!("{kind}_operations_count")),
                Some(1000.0 - syncs.unwrap_or(0.0)),
                "{mode}"
            );
        }
    }

    #[test]
    fn the_remark_on_the_engine_says_when_tasks_ended() {
        let remark =
            |changed_settings: &[(&str, &str)]| engine_remark(&FileIoSettings::resolve(&job(changed_settings)));
        assert!(remark(&[("seconds", "9")]).contains("called it steady, after 9 s at the latest"));
        assert!(remark(&[("events", "7")]).contains("ended after 7 operations"));
        assert!(remark(&[("events", "7"), ("engine", "sysbench")]).contains("ran 7 operations"));
    }

    #[test]
    fn the_required_program_follows_the_engine() {
        assert!(FILEIO.programs(&job(&[])).is_empty());
        assert_eq!(FILEIO.programs(&job(&[("engine", "fio")])), ["fio"]);
        let settings = Settings::defaults(sysbench::SYSBENCH.def.settings);
        assert_eq!(settings.0.get("engine"), Some(&SettingValue::Text("sysbench".into())));
    }
}
