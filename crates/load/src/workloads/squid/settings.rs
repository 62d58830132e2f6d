//! The settings of `squid`, and what they come to.

use crate::web::settings;
use crate::workload::Job;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::setting::SettingDef;

/// The settings.
pub const SETTINGS: &[SettingDef] = &[
    SettingDef::choice("store", &["aufs", "ufs", "rock"], "aufs")
        .help("how squid keeps objects: files by threads, files by itself, or one database"),
    SettingDef::ints("rates", 0..=100_000, &[50, 100, 200])
        .help("requests a second, Poisson, one task each; 0 for as many as the clients can ask"),
    SettingDef::float("seconds", 0.1..=86_400.0, 5.0).help("how long each task asks"),
    SettingDef::int("clients", 1..=1000, 32)
        .help("connections that fill the cache and ask unpaced; paced requests open as many as they need, up to 1000"),
    SettingDef::size("cache_bytes", 1 << 20..=1 << 42, 32 << 20).help("size of the cache, in whole MiB"),
    settings::L1,
    settings::L2,
    settings::RECURRENCE,
    settings::ZIPF,
];

/// What one cell does.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// `aufs`, `ufs`, `rock`.
    pub store: String,
    /// Seconds of each task.
    pub seconds: f64,
    /// Connections of fill and unpaced tasks.
    pub clients: usize,
    /// Size of the cache in MiB.
    pub cache_mib: u64,
    /// Directories of the first and the second level.
    pub levels: (u32, u32),
    /// Share of popular requests.
    pub recurrence: f64,
    /// Exponent of popularity.
    pub zipf: f64,
    /// The seed of objects and requests.
    pub seed: u64,
}

impl Chosen {
    /// Of a job.
    pub fn of(job: &Job) -> Chosen {
        let settings = &job.settings;
        Chosen {
            store: settings.text("store").into(),
            seconds: settings.float("seconds"),
            clients: settings.int("clients") as usize,
            cache_mib: (settings.int("cache_bytes") as u64).div_ceil(1 << 20),
            levels: (settings.int("l1") as u32, settings.int("l2") as u32),
            recurrence: settings.float("recurrence"),
            zipf: settings.float("zipf"),
            seed: job.seed,
        }
    }

    /// Bytes of the cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_mib << 20
    }
}

/// One task that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Whether it comes right after a remount and a restart.
    pub cold: bool,
    /// Requests a second; 0 for as many as can be.
    pub rate: i64,
}

impl Load {
    /// How reports name it.
    pub fn info(self) -> TaskInfo {
        let (name, title) = match self.cold {
            true => ("cold", "Serve after a restart, from a cold page cache"),
            false => ("serve", "Serve"),
        };
        let rate = if self.rate == 0 { "max".into() } else { self.rate.to_string() };
        TaskInfo {
            id: TaskId { name: name.into(), params: [("rate".to_string(), rate)].into() },
            title: title.into(),
            number: None,
            in_composite: true,
        }
    }
}

/// The tasks that ask, in their order; the first rate also comes cold.
pub fn loads(job: &Job) -> Vec<Load> {
    let rates = job.settings.ints("rates");
    let cold = rates.first().map(|rate| Load { cold: true, rate: *rate });
    cold.into_iter().chain(rates.iter().map(|rate| Load { cold: false, rate: *rate })).collect()
}
