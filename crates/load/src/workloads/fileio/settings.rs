//! The settings, and what they mean at a scale.

use crate::payload::{PAYLOAD, content};
use crate::workload::Job;
use fsarena_core::names::distinct;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_engine::{self as engine, Allow, Bound, Content, Open, Pattern, SyncEvery, Warmup};

/// The workload; by which tool unless a plan says otherwise, its definition tells.
pub struct FileIo {
    /// Its name, help and settings.
    pub def: &'static WorkloadDef,
}

/// What does the I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// fsarena's own load engine.
    Native,
    /// sysbench(1).
    Sysbench,
    /// fio(1).
    Fio,
}

/// It runs for as long as it takes to be steady, or as it is told: its time says nothing.
pub const METRICS: &[&str] = &["iops"];

/// The settings, with one of the tools as the default.
pub const fn settings(tool: &'static str) -> [SettingDef; 14] {
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

/// Which operations go where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Its name, as sysbench has it.
    pub name: &'static str,
    /// What people read.
    pub title: &'static str,
    /// Block after block, or anywhere.
    pub sequential: bool,
    /// Writes, or reads.
    pub writes: bool,
}

const MODES: [Mode; 4] = [
    Mode { name: "seqrd", title: "Sequential reads", sequential: true, writes: false },
    Mode { name: "rndrd", title: "Random reads", sequential: false, writes: false },
    Mode { name: "seqwr", title: "Sequential writes", sequential: true, writes: true },
    Mode { name: "rndwr", title: "Random writes", sequential: false, writes: true },
];

impl Mode {
    /// Whether it makes its files anew, and leaves them short.
    pub fn recreates(&self) -> bool {
        self.sequential && self.writes
    }
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Which operations.
    pub mode: Mode,
    /// Bytes of one.
    pub block: u32,
    /// Threads at work.
    pub threads: u32,
}

/// The settings of a job, each as what it means.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub tool: Tool,
    pub cells: Vec<Cell>,
    pub files: u32,
    /// Bytes of each file.
    pub file_bytes: u64,
    pub direct: bool,
    pub fsync_every: u64,
    pub fsync_end: bool,
    pub content: Content,
    /// The longest that a cell is measured.
    pub seconds: f64,
    /// The length of an interval, of which it takes fifty to be called steady.
    pub interval_ms: u32,
    pub events: u64,
    pub verify: bool,
    pub any_layout: bool,
    pub seed: u64,
}

impl Chosen {
    /// Reads the settings, which are complete and checked.
    pub fn of(job: &Job) -> Chosen {
        let settings = &job.settings;
        let cells = cells(job);
        let files = settings.int("files") as u32;
        let largest = cells.iter().map(|cell| u64::from(cell.block)).max().unwrap_or(0);
        Chosen {
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

    /// Writes between two rounds of syncs, where there are any.
    pub fn sync_after(&self, mode: Mode) -> Option<u64> {
        (mode.writes && self.fsync_every > 0).then_some(self.fsync_every)
    }

    /// The job that does what sysbench would do.
    pub fn job(&self, cell: Cell, on_device: bool) -> engine::Job {
        let mode = cell.mode;
        let any = self.any_layout;
        let pattern =
            if mode.sequential { Pattern::Sequential { shared_cursor: true } } else { Pattern::Uniform };
        engine::Job {
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
            // A device has no layout of ours: what is on it says nothing of where it lies.
            verify: self.verify && !mode.writes && !on_device,
            allow: Allow { unwritten: any, sparse: any, shared: any, inline: any, encoded: any },
            interval_ms: self.interval_ms,
            seed: self.seed,
            ..engine::Job::default()
        }
    }

    /// The job that writes a bare device before it is read.
    pub fn filling(&self) -> engine::Job {
        engine::Job {
            open: Open { direct: true, ..Open::default() },
            block_bytes: self.file_bytes.min(1 << 20) as u32,
            pattern: Pattern::Sequential { shared_cursor: true },
            read_share: 0.0,
            sync_end: true,
            bound: Bound::Bytes(self.total_bytes()),
            warmup: Warmup::None,
            content: self.content,
            seed: self.seed,
            ..engine::Job::default()
        }
    }
}

/// By mode, block size and number of threads, without repetitions.
fn cells(job: &Job) -> Vec<Cell> {
    let names = job.settings.words("modes");
    let modes = distinct(names.iter().filter_map(|name| MODES.into_iter().find(|mode| mode.name == *name)));
    let [blocks, threads] = ["bs", "threads"].map(|id| distinct(job.settings.ints(id)));
    let mut cells = vec![];
    for mode in modes {
        for block in &blocks {
            cells.extend(threads.iter().map(|n| Cell { mode, block: *block as u32, threads: *n as u32 }));
        }
    }
    cells
}

/// Whole blocks of every usual size, and one of the largest at least.
fn file_bytes(job: &Job, files: u32, largest: u64) -> u64 {
    let total = job.count("total_bytes", (2 << 30, 0));
    total.div_ceil(u64::from(files)).max(largest).next_multiple_of(16384)
}
