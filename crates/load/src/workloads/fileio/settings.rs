//! The settings of the workloads `fileio`, `sysbench` and `fio`, and the jobs of the load engine that follow from them.

use crate::payload::{PAYLOAD, payload_content};
use crate::workload::Job;
use fsarena_core::names::distinct;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_engine::{self as engine, AllowedExtents, Bound, Content, OpenMode, Pattern, SyncEvery, Warmup};

/// One of the workloads `fileio`, `sysbench` and `fio`, which differ in their default tool.
pub struct FileIoWorkload {
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

/// The metrics to compare by. Elapsed times are not among them, because a task runs until it is steady.
pub const METRICS: &[&str] = &["iops"];

/// The settings of a workload whose default tool is `default_tool`.
pub const fn fileio_settings(default_tool: &'static str) -> [SettingDef; 14] {
    [
        SettingDef::choice("engine", &["native", "sysbench", "fio"], default_tool)
            .help("program that does the I/O: fsarena itself, or the real sysbench or fio"),
        SettingDef::modes("modes", &["seqrd", "rndrd", "seqwr", "rndwr"], &["seqrd", "rndrd", "seqwr", "rndwr"])
            .help("sequential or random, reads or writes; seqwr recreates its files"),
        SettingDef::sizes("bs", 512..=16 << 20, &[16384]).help("block sizes"),
        SettingDef::ints("threads", 1..=1024, &[1]).help("numbers of threads"),
        SettingDef::int("files", 1..=100_000, 128).help("files that the load is spread over"),
        SettingDef::size("total_bytes", 0..=1 << 50, 0)
            .help("bytes of all files together; 0 for 2 GiB at scale paper, and less at quick and tiny"),
        SettingDef::flag("direct", true).help("use O_DIRECT"),
        SettingDef::int("fsync_every", 0..=1 << 40, 100)
            .help("sync every file after this number of writes of all threads, as sysbench does; 0 for never"),
        SettingDef::flag("fsync_end", true).help("each thread syncs every file at the end of writes"),
        PAYLOAD
            .help("data of writes: incompressible noise, or zeros as sysbench writes them"),
        SettingDef::float("seconds", 0.0..=86_400.0, 0.0)
            .help("the longest time of one task; a task ends as soon as it is steady. 0 for 60 s at scale paper, 0.3 s at quick, 0.2 s at tiny"),
        SettingDef::int("events", 0..=1 << 50, 0)
            .help("end a task after exactly this number of operations, syncs included; 0 to end it when it is steady"),
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
    pub is_sequential: bool,
    /// Whether operations are writes; otherwise they are reads.
    pub writes: bool,
}

const MODES: [Mode; 4] = [
    Mode { name: "seqrd", title: "Sequential reads", is_sequential: true, writes: false },
    Mode { name: "rndrd", title: "Random reads", is_sequential: false, writes: false },
    Mode { name: "seqwr", title: "Sequential writes", is_sequential: true, writes: true },
    Mode { name: "rndwr", title: "Random writes", is_sequential: false, writes: true },
];

impl Mode {
    /// Whether the mode recreates its files. They can end shorter than `file_bytes`, because the task can end before
    /// they are full.
    pub fn recreates_files(&self) -> bool {
        self.is_sequential && self.writes
    }
}

/// One combination of mode, block size and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoTask {
    /// The mode.
    pub mode: Mode,
    /// Bytes of an operation.
    pub block_bytes: u32,
    /// Number of threads.
    pub threads: u32,
}

/// The resolved settings of a job.
#[derive(Debug, Clone)]
pub struct FileIoSettings {
    /// The program that does the I/O.
    pub tool: Tool,
    /// The tasks.
    pub tasks: Vec<FileIoTask>,
    /// Number of files.
    pub files: u32,
    /// Bytes of each file.
    pub file_bytes: u64,
    /// Whether files are opened with `O_DIRECT`.
    pub uses_direct_io: bool,
    /// Number of writes of all threads after which every file is synced; 0 for never.
    pub writes_per_sync: u64,
    /// Whether each thread syncs every file at the end of writes.
    pub syncs_at_end: bool,
    /// The content of writes.
    pub content: Content,
    /// The longest time of a task, in seconds.
    pub max_seconds: f64,
    /// Length of an interval of the time series. A task requires at least fifty intervals to be steady.
    pub interval_ms: u32,
    /// Number of operations after which a task ends; 0 to end it once it is steady.
    pub events: u64,
    /// Whether blocks have checksums, which reads check.
    pub has_checksums: bool,
    /// Whether files may be read although their extents are compressed, shared, sparse or unwritten.
    pub allows_any_layout: bool,
    /// The seed of everything random.
    pub seed: u64,
}

impl FileIoSettings {
    /// Reads the settings, which are complete and checked.
    pub fn resolve(job: &Job) -> FileIoSettings {
        let settings = &job.settings;
        let tasks = task_combinations(job);
        let files = settings.int("files") as u32;
        let max_block_bytes = tasks.iter().map(|task| u64::from(task.block_bytes)).max().unwrap_or(0);
        FileIoSettings {
            tool: match settings.text("engine") {
                "sysbench" => Tool::Sysbench,
                "fio" => Tool::Fio,
                _ => Tool::Native,
            },
            tasks,
            files,
            file_bytes: file_bytes(job, files, max_block_bytes),
            uses_direct_io: settings.flag("direct"),
            writes_per_sync: settings.int("fsync_every") as u64,
            syncs_at_end: settings.flag("fsync_end"),
            content: payload_content(settings),
            max_seconds: job.seconds_or_by_scale("seconds", [60.0, 0.3, 0.2]),
            interval_ms: job.value_for_scale([100, 4, 2]),
            events: settings.int("events") as u64,
            has_checksums: settings.flag("verify"),
            allows_any_layout: settings.flag("any_layout"),
            seed: job.seed,
        }
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.files) * self.file_bytes
    }

    /// Number of writes between two syncs of all files, or `None` without syncs between writes.
    pub fn writes_between_syncs(&self, mode: Mode) -> Option<u64> {
        (mode.writes && self.writes_per_sync > 0).then_some(self.writes_per_sync)
    }

    /// The job of the load engine for a task. It does the same as sysbench.
    pub fn load_job(&self, task: FileIoTask, is_on_device: bool) -> engine::LoadJob {
        let mode = task.mode;
        let any_layout = self.allows_any_layout;
        let pattern = if mode.is_sequential { Pattern::Sequential { shared_cursor: true } } else { Pattern::Uniform };
        engine::LoadJob {
            open: OpenMode {
                direct: self.uses_direct_io,
                recreate: mode.recreates_files() && !is_on_device,
                ..OpenMode::default()
            },
            block_bytes: task.block_bytes,
            threads: task.threads,
            pattern,
            read_share: if mode.writes { 0.0 } else { 1.0 },
            sync_every: self.writes_between_syncs(mode).map(|requests| SyncEvery { requests, over_all_threads: true }),
            sync_end: mode.writes && self.syncs_at_end,
            bound: match self.events {
                0 => Bound::Steady { at_most_s: self.max_seconds },
                events => Bound::Operations(events),
            },
            content: self.content,
            // Blocks on a bare device have no checksums.
            verify: self.has_checksums && !mode.writes && !is_on_device,
            allow: AllowedExtents {
                unwritten: any_layout,
                sparse: any_layout,
                shared: any_layout,
                inline: any_layout,
                encoded: any_layout,
            },
            interval_ms: self.interval_ms,
            seed: self.seed,
            ..engine::LoadJob::default()
        }
    }

    /// The job that fills a bare device before it is read.
    pub fn fill_job(&self) -> engine::LoadJob {
        engine::LoadJob {
            open: OpenMode { direct: true, ..OpenMode::default() },
            // At most 1 MiB, and a divisor of the size, because the engine leaves out an incomplete block at the end.
            block_bytes: 1 << self.file_bytes.trailing_zeros().min(20),
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
fn task_combinations(job: &Job) -> Vec<FileIoTask> {
    let names = job.settings.words("modes");
    let modes = distinct(names.iter().filter_map(|name| MODES.into_iter().find(|mode| mode.name == *name)));
    let [block_sizes, thread_counts] = ["bs", "threads"].map(|id| distinct(job.settings.ints(id)));
    let mut tasks = vec![];
    for mode in modes {
        for block_bytes in &block_sizes {
            tasks.extend(thread_counts.iter().map(|threads| FileIoTask {
                mode,
                block_bytes: *block_bytes as u32,
                threads: *threads as u32,
            }));
        }
    }
    tasks
}

/// Bytes of each file: a multiple of 16 KiB, the default block size, and at least one block of the largest size.
fn file_bytes(job: &Job, files: u32, max_block_bytes: u64) -> u64 {
    let (published_bytes, min_bytes) = (2 << 30, 0);
    let total_bytes = job.count_or_published("total_bytes", (published_bytes, min_bytes));
    total_bytes.div_ceil(u64::from(files)).max(max_block_bytes).next_multiple_of(16 << 10)
}
