//! The settings of `postgres`, and what they come to.

use super::conf;
use crate::error::{Error, Result};
use crate::{task::info, workload::Job};
use fsarena_core::{cell::TaskInfo, names::distinct, setting::SettingDef};

/// The settings.
pub const SETTINGS: &[SettingDef] = &[
    SettingDef::ints("scale_factors", 1..=1_000_000, &[10])
        .help("scale factors of pgbench, a database each: about 15 MB for each unit"),
    SettingDef::modes("modes", &["read-only", "simple-update"], &["read-only", "simple-update"])
        .help("transactions, each a task: pgbench -S, pgbench -N"),
    SettingDef::int("clients", 1..=10_000, 4).help("connections (pgbench -c)"),
    SettingDef::int("jobs", 0..=1024, 0)
        .help("threads of pgbench (-j); 0 for one a CPU, and at most one a client"),
    SettingDef::choice("protocol", &["prepared", "simple", "extended"], "prepared")
        .help("how queries are sent (pgbench -M)"),
    SettingDef::int("seconds", 0..=604_800, 0)
        .help("length of a task (pgbench -T); 0 for 60 s at scale paper, 5 s at quick, 1 s at tiny"),
    SettingDef::int("update_seconds", 0..=604_800, 0)
        .help("length of a task of simple-update; 0 for that of every task"),
    SettingDef::float("rate", 0.0..=1e7, 0.0).help(
        "transactions a second (pgbench -R), with latencies from when each was due; 0 for as many as can be",
    ),
    SettingDef::float("sampling", 1e-6..=1.0, 1.0)
        .help("share of transactions whose latency is logged (pgbench --sampling-rate)"),
    SettingDef::texts("conf").help("settings of postgresql.conf, `NAME=VALUE` each"),
];

/// What one cell does.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The tasks in their order.
    pub tasks: Vec<Load>,
    /// Connections.
    pub clients: u32,
    /// Threads of pgbench.
    pub jobs: u32,
    /// `prepared`, `simple`, `extended`.
    pub protocol: String,
    /// Seconds of a task, read-only and simple-update.
    pub seconds: [u64; 2],
    /// Transactions a second, where they are paced.
    pub rate: Option<f64>,
    /// Share of transactions whose latency is logged.
    pub sampling: f64,
    /// Settings of postgresql.conf.
    pub conf: Vec<(String, String)>,
    /// The seed of pgbench's choices.
    pub seed: u64,
}

/// One task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The scale factor.
    pub scale: i64,
    /// Whether it writes.
    pub updates: bool,
}

impl Chosen {
    /// Of a job.
    ///
    /// # Errors
    /// A setting of postgresql.conf that is none, or that fsarena needs itself.
    pub fn of(job: &Job) -> Result<Chosen> {
        let settings = &job.settings;
        let above_0 = |id| Some(settings.int(id) as u64).filter(|number| *number > 0);
        let seconds = job.number("seconds", [60, 5, 1]);
        let clients = settings.int("clients") as u32;
        let cpus = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        Ok(Chosen {
            tasks: loads(job),
            clients,
            jobs: above_0("jobs").map_or_else(cpus, |jobs| jobs as u32).min(clients),
            protocol: settings.text("protocol").into(),
            seconds: [seconds, above_0("update_seconds").unwrap_or(seconds)],
            rate: Some(settings.float("rate")).filter(|rate| *rate > 0.0),
            sampling: settings.float("sampling"),
            conf: conf::parse(&settings.words("conf")).map_err(Error::Plan)?,
            seed: job.seed,
        })
    }

    /// The scale factor of each database, the last one first: the first task finds its data in the page cache.
    pub fn databases(&self) -> impl Iterator<Item = i64> {
        distinct(self.tasks.iter().map(|load| load.scale)).into_iter().rev()
    }

    /// How long a task is.
    pub fn seconds(&self, load: Load) -> u64 {
        self.seconds[usize::from(load.updates)]
    }
}

/// The tasks: for each scale factor, each mode.
pub fn loads(job: &Job) -> Vec<Load> {
    let modes = job.settings.words("modes");
    let of = |scale| modes.iter().map(move |mode| Load { scale, updates: *mode == "simple-update" });
    distinct(job.settings.ints("scale_factors").into_iter().flat_map(of))
}

impl Load {
    /// How reports name it.
    pub fn info(self) -> TaskInfo {
        let (name, title) = match self.updates {
            false => ("read-only", "Select by key (pgbench -S)"),
            true => ("simple-update", "Update, select, insert and commit (pgbench -N)"),
        };
        info(name, title, [("scale", self.scale.to_string())])
    }
}

/// The name of the database with this scale factor.
pub fn database(scale: i64) -> String {
    format!("scale_{scale}")
}
