//! The settings of `squid`, and what they come to.

use crate::{web::settings, workload::Job};
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
    /// The cache, of whole MiB, and its requests.
    pub cache: settings::Shape,
}

impl Chosen {
    /// Of a job.
    pub fn of(job: &Job) -> Chosen {
        let cache = settings::Shape::of(job);
        Chosen {
            store: job.settings.text("store").into(),
            seconds: job.settings.float("seconds"),
            clients: job.settings.int("clients") as usize,
            cache: settings::Shape { bytes: cache.bytes.next_multiple_of(1 << 20), ..cache },
        }
    }

    /// Size of the cache in MiB.
    pub fn cache_mib(&self) -> u64 {
        self.cache.bytes >> 20
    }
}
