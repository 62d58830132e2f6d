//! What workloads of a web cache have in common: their settings, their cache, and their tasks.

use super::contents::{self, Demand, MEAN_BYTES, object};
use crate::pace::named;
use crate::task::{self, Action, Before, Task};
use crate::workload::{Job, Room};
use fsarena_core::{cell::TaskInfo, setting::SettingDef};

/// Directories of the first level.
pub const L1: SettingDef =
    SettingDef::int("l1", 1..=256, 16).help("directories of the first level, where objects are files");

/// Directories of the second level.
pub const L2: SettingDef = SettingDef::int("l2", 1..=1024, 256).help("directories in each of them");

/// The share of requests that recur.
pub const RECURRENCE: SettingDef = SettingDef::float("recurrence", 0.0..=1.0, 0.7)
    .help("share of requests for popular objects; every other request is for a new object");

/// How unequal popular objects are.
pub const ZIPF: SettingDef = SettingDef::float("zipf", 0.0..=2.0, 0.8).help("exponent of popularity");

/// A cache and the requests that it receives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Size of the cache.
    pub bytes: u64,
    /// Directories of the first and the second level.
    pub levels: (u32, u32),
    /// Share of popular requests.
    pub recurrence: f64,
    /// Exponent of popularity.
    pub zipf: f64,
    /// The seed of objects and requests.
    pub seed: u64,
}

impl Shape {
    /// Of a job.
    pub fn of(job: &Job) -> Shape {
        let settings = &job.settings;
        Shape {
            bytes: settings.int("cache_bytes") as u64,
            levels: (settings.int(L1.id) as u32, settings.int(L2.id) as u32),
            recurrence: settings.float(RECURRENCE.id),
            zipf: settings.float(ZIPF.id),
            seed: job.seed,
        }
    }

    /// The requests of all clients together.
    pub fn demand(&self) -> Demand {
        Demand::new(contents::popular(self.bytes), self.zipf, self.recurrence)
    }

    /// How many of the most popular objects that may be cached fill the cache.
    pub fn to_fill(&self) -> u64 {
        to_fill(self.seed, contents::popular(self.bytes), self.bytes)
    }

    /// The room of a cache with files of a size of [`MEAN_BYTES`] divided by `small`: a block's rounding for each, the log,
    /// and what a filesystem keeps until it commits.
    pub fn room(&self, small: u64, other_bytes: u64) -> Room {
        let inodes = small * self.bytes / MEAN_BYTES + u64::from(self.levels.0 * (self.levels.1 + 1));
        Room { bytes: 2 * self.bytes + 4096 * inodes, inodes, other_bytes }
    }
}

/// How many of the first `popular` objects that may be cached fill `limit` bytes.
pub fn to_fill(world: u64, popular: u64, limit: u64) -> u64 {
    let mut bytes = 0;
    let fits = |number: &u64| {
        let object = object(world, *number);
        bytes += if object.cachable { object.bytes } else { 0 };
        bytes <= limit
    };
    (0..popular).take_while(fits).count() as u64
}

/// One task that serves.
#[derive(Debug, Clone)]
pub struct Load {
    /// How reports name it.
    pub info: TaskInfo,
    /// Whether it comes right after a remount.
    pub cold: bool,
    /// Requests a second; 0 for as many as possible.
    pub rate: i64,
    /// Threads that serve, where tasks differ in it.
    pub threads: Option<u32>,
}

impl Load {
    /// Every rate with every number of threads; the first one also comes cold, which people read as `cold`.
    pub fn all(job: &Job, threads: &[Option<u32>], cold: &str) -> Vec<Load> {
        let rates = job.settings.ints("rates");
        let load = |threads: Option<u32>, rate: i64, is_cold: bool| {
            let (name, title) = if is_cold { ("cold", cold) } else { ("serve", "Serve") };
            let mut info = task::info(name, title, [("rate", named(rate))]);
            info.id.params.extend(threads.map(|threads| ("threads".into(), threads.to_string())));
            Load { info, cold: is_cold, rate, threads }
        };
        let each = threads.iter().flat_map(|threads| rates.iter().map(|rate| (*threads, *rate)));
        let first = each.clone().take(1).map(|(threads, rate)| load(threads, rate, true));
        first.chain(each.clone().map(|(threads, rate)| load(threads, rate, false))).collect()
    }

    /// The task that does it.
    pub fn task(self, work: Action) -> Task {
        let before = if self.cold { Before::Remount } else { Before::Warm };
        Task { before, ..Task::new(self.info, work) }
    }
}

/// The task that comes first.
pub fn filling() -> TaskInfo {
    task::info("fill", "Fill the cache", [])
}

/// All tasks.
pub fn outline(loads: &[Load]) -> Vec<TaskInfo> {
    std::iter::once(filling()).chain(loads.iter().map(|load| load.info.clone())).collect()
}
