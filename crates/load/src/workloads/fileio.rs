//! `fileio`: file I/O by mode, block size and number of threads. Each combination is a task.
//!
//! The semantics are those of sysbench's fileio: a set of equal files, one sequential cursor that all threads share, a sync
//! of every file after every N writes, and a final sync by each thread. Each task runs until its rate is steady. The seed of
//! the round shuffles the tasks of a cell.

#[cfg(test)]
mod tests;

use crate::pace::shuffled;
use crate::payload::{PAYLOAD, content};
use crate::task::{self, Action, Before, Call, Result, Task, TaskError, failed_to};
use crate::workload::{Demands, Job, Place, Room, Survey, Workload, fairness, remark};
use crate::workloads::{fio, sysbench};
use fsarena_core::sample::TaskOutput;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{cell::TaskInfo, event::Note, metric::reading, names::distinct};
use fsarena_engine as engine;
use fsarena_engine::Warmup;
use fsarena_engine::{Allow, Bound, Content, FileSpec, Files, Open, Pattern, SyncEvery, dio_align};
use std::path::PathBuf;

/// Mixed into the seed of a round to shuffle the order of its tasks.
const ORDER_SEED: u64 = 0x0D3E;

/// The workload by fsarena's own load engine.
pub const FILEIO: FileIo = FileIo {
    def: &WorkloadDef {
        id: "fileio",
        help: "direct or buffered reads and writes by mode, block size and threads, as sysbench fileio does them",
        metrics: METRICS,
        settings: &fileio_settings("native"),
    },
};

impl Workload for FileIo {
    fn def(&self) -> &'static WorkloadDef {
        self.def
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        FileIoSettings::resolve(job).cells.into_iter().map(task_info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = FileIoSettings::resolve(job);
        let demands = Demands { direct_io: settings.direct, ..Demands::default() };
        // Twice the data: a copy-on-write filesystem keeps old blocks until it commits.
        let room =
            Room { bytes: 2 * settings.total_bytes(), inodes: u64::from(settings.files), other_bytes: 0 };
        Ok(Survey { room, remarks: remarks(&settings), demands, ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        match FileIoSettings::resolve(job).tool {
            Tool::Native => vec![],
            Tool::Sysbench => vec!["sysbench"],
            Tool::Fio => vec!["fio"],
        }
    }

    fn supports_raw(&self) -> bool {
        true
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let mut builder = TaskBuilder {
            settings: FileIoSettings::resolve(job),
            target: Target::probe(place)?,
            checksum_block: None,
        };
        let order = shuffled(builder.settings.cells.clone(), job.seed, ORDER_SEED);
        Ok(order.into_iter().map(|cell| builder.task(cell)).collect())
    }
}

/// The notes on this workload in every report.
fn remarks(settings: &FileIoSettings) -> Vec<Note> {
    let (files, each) = (settings.files, settings.file_bytes >> 10);
    let what = if settings.content == fsarena_engine::Content::Zeros { "zeros" } else { "noise" };
    let sync = match settings.fsync_every {
        0 => "no syncs between writes".into(),
        writes => format!("all synced after every {writes} writes"),
    };
    let files = format!("{files} files of {each} KiB filled with {what}, {sync}");
    let mut notes = vec![remark(engine_remark(settings)), remark(files)];
    if !settings.direct {
        let text = "direct=false: files go through the page cache, so reads of files that fit into memory never reach the device";
        notes.push(fairness(text).fix("--set direct=true"));
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

fn task_info(FileIoCell { mode, block, threads }: FileIoCell) -> TaskInfo {
    task::info(mode.name, mode.title, [("bs", block.to_string()), ("threads", threads.to_string())])
}

/// The directory or bare device that the load runs on.
#[derive(Debug, Clone)]
struct Target {
    path: PathBuf,
    is_device: bool,
    /// The alignment that direct I/O requires, in bytes.
    align: u32,
}

impl Target {
    fn probe(place: &Place) -> Result<Target> {
        let (path, is_device) = (place.root.clone(), place.is_device());
        if is_device {
            return Ok(Target { align: dio_align(&path), path, is_device });
        }
        // The alignment depends on the filesystem and its device together, so only a file reports it.
        let probe = path.join("alignment");
        std::fs::write(&probe, "").map_err(failed_to("write", &probe))?;
        let align = dio_align(&probe);
        std::fs::remove_file(&probe).map_err(failed_to("remove", &probe))?;
        Ok(Target { path, is_device, align })
    }

    /// Returns the reason for leaving a task out, or `None` if the task can run.
    fn refusal(&self, settings: &FileIoSettings, cell: FileIoCell) -> Option<String> {
        if settings.direct && !cell.block.is_multiple_of(self.align) {
            return Some(format!(
                "left out: blocks of {} bytes, because direct I/O here goes by multiples of {} bytes (statx DIOALIGN)",
                cell.block, self.align
            ));
        }
        (self.is_device && settings.tool == Tool::Sysbench)
            .then(|| "left out: the bare device, because sysbench drives regular files only".into())
    }

    /// The files, or the part of the device. Creates nothing.
    fn files(&self, settings: &FileIoSettings) -> Result<Files> {
        Ok(if self.is_device {
            Files::device_start(&self.path, settings.total_bytes())?
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
    checksum_block: Option<u32>,
}

impl TaskBuilder {
    /// Makes the task of a cell. A task that cannot run only returns the reason.
    fn task(&mut self, cell: FileIoCell) -> Task {
        if let Some(why) = self.target.refusal(&self.settings, cell) {
            let refuse = Call::new(["left", "out"], move || Err::<TaskOutput, _>(TaskError::LeftOut(why)));
            let prepare = vec![Action::Call(refuse)];
            return Task { info: task_info(cell), before: Before::Warm, prepare, work: vec![] };
        }
        let prepare = self.prepare(cell);
        let (settings, target) = (&self.settings, &self.target);
        let work = match settings.tool {
            Tool::Native => self.native(cell),
            Tool::Sysbench => sysbench::action(settings, cell, &target.path),
            Tool::Fio => fio::action(settings, cell, &target.path, target.is_device),
        };
        Task::new(task_info(cell), work).after(prepare)
    }

    /// Makes the untimed action that fills or removes files so that a cell can start, or `None` if the present files fit.
    fn prepare(&mut self, cell: FileIoCell) -> Option<Action> {
        let is_device = self.target.is_device;
        if cell.mode.recreates() && !is_device {
            self.checksum_block = None;
            return Some(self.call("remove", |target, settings| Ok(target.files(settings)?.remove()?)));
        }
        let verify = if self.settings.verify && !is_device { cell.block } else { 0 };
        let fits = match self.checksum_block {
            Some(block) => cell.mode.writes || block == verify,
            None => false,
        };
        if cell.mode.writes && self.settings.verify {
            // The writes of this cell leave blocks without a checksum, so the next cell cannot use the files.
            self.checksum_block = None;
        } else if !fits {
            self.checksum_block = Some(verify);
        }
        if fits {
            return None;
        }
        Some(
            self.call("fill", move |target, settings| fill(target, settings, (verify > 0).then_some(verify))),
        )
    }

    /// Makes the action of a cell for fsarena's own load engine.
    fn native(&self, cell: FileIoCell) -> Action {
        let job = self.settings.job(cell, self.target.is_device);
        self.call(&task_info(cell).id.to_string(), move |target, settings| {
            let outcome = fsarena_engine::run(&job, &target.files(settings)?, &mut |_| {})?;
            let mut found = outcome.task_output();
            if job.verify {
                // Set the reading even if it is 0.
                found.readings.set(reading::VERIFIED, outcome.verified_blocks as f64);
            }
            Ok(found)
        })
    }

    /// Makes an action in this process on the target. The log has `what`, the files and the target.
    fn call<F: Into<TaskOutput>>(
        &self,
        what: &str,
        run: impl FnOnce(&Target, &FileIoSettings) -> Result<F> + Send + 'static,
    ) -> Action {
        let (target, settings) = (&self.target, &self.settings);
        let on = target.path.display().to_string();
        let words =
            [what.to_string(), format!("{} files of {} bytes", settings.files, settings.file_bytes), on];
        Action::with(&(target.clone(), settings.clone()), words, |(target, settings)| run(target, settings))
    }
}

/// Writes every byte that a task will read, because reads of unwritten extents never reach the device. `verify_block` is the
/// size of blocks with a checksum.
fn fill(target: &Target, settings: &FileIoSettings, verify_block: Option<u32>) -> Result<()> {
    if target.is_device {
        fsarena_engine::run(&settings.fill_job(), &target.files(settings)?, &mut |_| {})?;
    } else {
        let FileIoSettings { files: count, file_bytes: bytes, content, seed, .. } = *settings;
        Files::prepare(&target.path, &FileSpec { count, bytes, content, seed, verify_block })?;
    }
    Ok(())
}

/// One of the workloads `fileio`, `sysbench` and `fio`, which differ in their default tool.
pub struct FileIo {
    /// Its name, help and settings.
    pub def: &'static WorkloadDef,
}

/// The program that does the I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// fsarena's own load engine.
    Native,
    /// sysbench(1).
    Sysbench,
    /// fio(1).
    Fio,
}

/// Metrics to compare by. A task runs until it is steady, so elapsed times mean nothing.
pub const METRICS: &[&str] = &["iops"];

/// The settings with this default tool.
pub const fn fileio_settings(tool: &'static str) -> [SettingDef; 14] {
    [
        SettingDef::choice("engine", &["native", "sysbench", "fio"], tool)
            .help("what does the I/O: fsarena itself, or the real sysbench or fio"),
        SettingDef::modes("modes", &["seqrd", "rndrd", "seqwr", "rndwr"], &["seqrd", "rndrd", "seqwr", "rndwr"])
            .help("sequential or random, reads or writes; seqwr makes its files anew"),
        SettingDef::sizes("bs", 512..=16 << 20, &[16384]).help("block sizes"),
        SettingDef::ints("threads", 1..=1024, &[1]).help("numbers of threads"),
        SettingDef::int("files", 1..=100_000, 128).help("files that the load is spread over"),
        SettingDef::size("total_bytes", 0..=1 << 50, 0)
            .help("bytes of all files together; 0 for 2 GiB shrunk by the scale"),
        SettingDef::flag("direct", true).help("use O_DIRECT"),
        SettingDef::int("fsync_every", 0..=1 << 40, 100)
            .help("sync every file after this number of writes of all threads, as sysbench does; 0 for never"),
        SettingDef::flag("fsync_end", true).help("each thread syncs every file at the end of writes"),
        PAYLOAD
            .help("what is written: noise that cannot be compressed, or zeros as sysbench writes them"),
        SettingDef::float("seconds", 0.0..=86_400.0, 0.0)
            .help("the longest that one cell is measured; it ends as soon as it is steady. 0 for 60 s at scale paper, 0.3 s at quick, 0.2 s at tiny"),
        SettingDef::int("events", 0..=1 << 50, 0)
            .help("end a cell after exactly this number of operations, syncs included; 0 to end it when it is steady"),
        SettingDef::flag("verify", false)
            .help("files have checksums in every block, and native reads check them; costs CPU"),
        SettingDef::flag("any_layout", false)
            .help("read files although their extents are compressed, shared, sparse or never written"),
    ]
}

/// The order and direction of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Its name in sysbench.
    pub name: &'static str,
    /// Its title in reports.
    pub title: &'static str,
    /// Whether operations go block after block; otherwise they are random.
    pub sequential: bool,
    /// Whether operations are writes; otherwise they are reads.
    pub writes: bool,
}

const MODES: [Mode; 4] = [
    Mode { name: "seqrd", title: "Sequential reads", sequential: true, writes: false },
    Mode { name: "rndrd", title: "Random reads", sequential: false, writes: false },
    Mode { name: "seqwr", title: "Sequential writes", sequential: true, writes: true },
    Mode { name: "rndwr", title: "Random writes", sequential: false, writes: true },
];

impl Mode {
    /// Whether it recreates its files and leaves them short.
    pub fn recreates(&self) -> bool {
        self.sequential && self.writes
    }
}

/// One combination of mode, block size and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoCell {
    /// The mode.
    pub mode: Mode,
    /// Bytes of an operation.
    pub block: u32,
    /// Number of threads.
    pub threads: u32,
}

/// The resolved settings of a job.
#[derive(Debug, Clone)]
pub struct FileIoSettings {
    /// The program that does the I/O.
    pub tool: Tool,
    /// The tasks.
    pub cells: Vec<FileIoCell>,
    /// Number of files.
    pub files: u32,
    /// Bytes of each file.
    pub file_bytes: u64,
    /// Whether files are opened with `O_DIRECT`.
    pub direct: bool,
    /// Number of writes of all threads after which every file is synced; 0 for never.
    pub fsync_every: u64,
    /// Whether each thread syncs every file at the end of writes.
    pub fsync_end: bool,
    /// The content of writes.
    pub content: Content,
    /// The longest time that a cell is measured, in seconds.
    pub seconds: f64,
    /// Length of an interval of the time series. A task requires at least fifty intervals to be steady.
    pub interval_ms: u32,
    /// Number of operations after which a cell ends; 0 to end it once it is steady.
    pub events: u64,
    /// Whether blocks have checksums, which reads check.
    pub verify: bool,
    /// Whether files may be read although their extents are compressed, shared, sparse or unwritten.
    pub any_layout: bool,
    /// The seed of everything random.
    pub seed: u64,
}

impl FileIoSettings {
    /// Reads the settings, which are complete and checked.
    pub fn resolve(job: &Job) -> FileIoSettings {
        let settings = &job.settings;
        let cells = cells(job);
        let files = settings.int("files") as u32;
        let largest = cells.iter().map(|cell| u64::from(cell.block)).max().unwrap_or(0);
        FileIoSettings {
            tool: match settings.text("engine") {
                "sysbench" => Tool::Sysbench,
                "fio" => Tool::Fio,
                _ => Tool::Native,
            },
            cells,
            files,
            file_bytes: file_bytes(job, files, largest),
            direct: settings.flag("direct"),
            fsync_every: settings.int("fsync_every") as u64,
            fsync_end: settings.flag("fsync_end"),
            content: content(settings),
            seconds: job.seconds("seconds", [60.0, 0.3, 0.2]),
            interval_ms: job.by_scale([100, 4, 2]),
            events: settings.int("events") as u64,
            verify: settings.flag("verify"),
            any_layout: settings.flag("any_layout"),
            seed: job.seed,
        }
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.files) * self.file_bytes
    }

    /// Number of writes between two syncs of all files, or `None` without syncs between writes.
    pub fn sync_after(&self, mode: Mode) -> Option<u64> {
        (mode.writes && self.fsync_every > 0).then_some(self.fsync_every)
    }

    /// The job of the load engine that does the same as sysbench.
    pub fn job(&self, cell: FileIoCell, on_device: bool) -> engine::LoadJob {
        let mode = cell.mode;
        let any = self.any_layout;
        let pattern =
            if mode.sequential { Pattern::Sequential { shared_cursor: true } } else { Pattern::Uniform };
        engine::LoadJob {
            open: Open { direct: self.direct, recreate: mode.recreates() && !on_device, ..Open::default() },
            block_bytes: cell.block,
            threads: cell.threads,
            pattern,
            read_share: if mode.writes { 0.0 } else { 1.0 },
            sync_every: self.sync_after(mode).map(|requests| SyncEvery { requests, over_all_threads: true }),
            sync_end: mode.writes && self.fsync_end,
            bound: match self.events {
                0 => Bound::Steady { at_most_s: self.seconds },
                events => Bound::Operations(events),
            },
            content: self.content,
            // Blocks on a bare device have no checksums.
            verify: self.verify && !mode.writes && !on_device,
            allow: Allow { unwritten: any, sparse: any, shared: any, inline: any, encoded: any },
            interval_ms: self.interval_ms,
            seed: self.seed,
            ..engine::LoadJob::default()
        }
    }

    /// The job that fills a bare device before it is read.
    pub fn fill_job(&self) -> engine::LoadJob {
        engine::LoadJob {
            open: Open { direct: true, ..Open::default() },
            block_bytes: self.file_bytes.min(1 << 20) as u32,
            pattern: Pattern::Sequential { shared_cursor: true },
            read_share: 0.0,
            sync_end: true,
            bound: Bound::Bytes(self.total_bytes()),
            warmup: Warmup::None,
            content: self.content,
            seed: self.seed,
            ..engine::LoadJob::default()
        }
    }
}

/// Every combination of modes, block sizes and threads, without repetitions.
fn cells(job: &Job) -> Vec<FileIoCell> {
    let names = job.settings.words("modes");
    let modes = distinct(names.iter().filter_map(|name| MODES.into_iter().find(|mode| mode.name == *name)));
    let [blocks, threads] = ["bs", "threads"].map(|id| distinct(job.settings.ints(id)));
    let mut cells = vec![];
    for mode in modes {
        for block in &blocks {
            cells.extend(threads.iter().map(|n| FileIoCell {
                mode,
                block: *block as u32,
                threads: *n as u32,
            }));
        }
    }
    cells
}

/// Bytes of each file: a multiple of all usual block sizes, and at least one block of the largest size.
fn file_bytes(job: &Job, files: u32, largest: u64) -> u64 {
    let total = job.count("total_bytes", (2 << 30, 0));
    total.div_ceil(u64::from(files)).max(largest).next_multiple_of(16384)
}
