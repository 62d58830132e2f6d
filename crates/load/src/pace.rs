//! Settings and tasks of loads that run as fast as possible or at set rates.

use crate::{task, workload::Job};
use chacha20::ChaCha12Rng;
use fsarena_core::setting::{SettingDef, Settings};
use fsarena_core::{cell::TaskInfo, names::distinct, scale::Scale, schedule::mix};
use fsarena_engine::{Arrivals, Bound, Rate, custom_load::CustomLoadConfig};
use rand::{SeedableRng, seq::SliceRandom};

/// The setting for the gaps between the operations of a load at a set rate.
pub const ARRIVALS: SettingDef = SettingDef::choice("arrivals", &["poisson", "fixed"], "poisson")
    .help("gaps between requests: as of many independent clients, or equal");
/// The setting for the rates of operations, each a task.
pub const RATES: SettingDef = SettingDef::ints("rates", 0..=10_000_000, &[0])
    .help("operations a second of all clients together, each a task, with latencies from the intended start; 0 for as fast as possible");
/// The setting for the length of a task.
pub const SECONDS: SettingDef =
    SettingDef::float("seconds", 0.0..=86_400.0, 0.0).help("how long each task is measured; 0 for a time by the scale");
/// The setting for the number of operations of a task, instead of its length.
pub const OPERATIONS: SettingDef = SettingDef::int("operations", 0..=1 << 40, 0)
    .help("end each task after exactly this number of operations instead; 0 to end it by time");

/// The rate and the arrivals of a load. Returns `None` if `rate_per_s` is 0, which stands for as fast as possible.
pub fn engine_rate(settings: &Settings, rate_per_s: i64) -> Option<Rate> {
    let arrivals = if settings.text(ARRIVALS.id) == "fixed" { Arrivals::Fixed } else { Arrivals::Poisson };
    (rate_per_s > 0).then_some(Rate { per_s: rate_per_s as f64, arrivals })
}

/// Formats a rate for the parameters of a task: `max` for 0.
pub fn rate_name(rate_per_s: i64) -> String {
    if rate_per_s == 0 { "max".into() } else { rate_per_s.to_string() }
}

/// When a task ends, by [`OPERATIONS`] or [`SECONDS`]. If both are 0, it ends after the seconds of the scale.
pub fn task_bound(job: &Job, seconds_by_scale: [f64; 3]) -> Bound {
    match job.settings.int(OPERATIONS.id) {
        0 => Bound::Seconds(job.seconds_or_by_scale(SECONDS.id, seconds_by_scale)),
        operations => Bound::Operations(operations as u64),
    }
}

/// Shuffles the tasks of a cell by the seed of the round. Each workload passes another constant as `workload_seed`, so
/// that their orders differ.
pub fn shuffle_tasks<T>(mut tasks: Vec<T>, seed: u64, workload_seed: u64) -> Vec<T> {
    tasks.shuffle(&mut ChaCha12Rng::seed_from_u64(mix(seed, workload_seed)));
    tasks
}

/// The load of one task: a number of clients and their rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacedLoad {
    /// Number of clients at the same time.
    pub clients: u32,
    /// Operations a second of all clients; 0 for as fast as possible.
    pub rate_per_s: i64,
}

impl PacedLoad {
    /// Every combination of the numbers of clients and the rates, without repetitions.
    pub fn combinations(settings: &Settings) -> Vec<PacedLoad> {
        let rates = settings.ints(RATES.id);
        let mut loads = vec![];
        for clients in settings.ints("clients") {
            loads.extend(rates.iter().map(|rate| PacedLoad { clients: clients as u32, rate_per_s: *rate }));
        }
        distinct(loads)
    }

    /// Describes the task of this load for reports.
    pub fn task_info(self, name: &str, title: &str) -> TaskInfo {
        task::info(name, title, [("clients", self.clients.to_string()), ("rate", rate_name(self.rate_per_s))])
    }

    /// The configuration of this load for the engine. `kinds` are the names of its kinds of operations.
    pub fn config<'a>(self, job: &Job, kinds: &'a [&'static str], bound: Bound) -> CustomLoadConfig<'a> {
        let (threads, rate) = (self.clients, engine_rate(&job.settings, self.rate_per_s));
        let interval_ms = if job.scale == Scale::Paper { 100 } else { 20 };
        CustomLoadConfig { threads, kinds, rate, bound, interval_ms, seed: job.seed }
    }
}
