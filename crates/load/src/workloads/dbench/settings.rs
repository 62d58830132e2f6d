//! The settings of the workloads `dbench`, `dbench-tool` and `dbench-like`.

use crate::dbench::{ClientMode, PlayerOptions};
use crate::payload::{self, payload_content};
use crate::workload::Job;
use fsarena_core::names::distinct;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use std::time::Duration;

/// The source of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadSource {
    /// A loadfile.
    Loadfile,
    /// The generator of [`crate::dbench::synthetic`], which depends only on the seed.
    Synthetic,
}

/// One of the workloads `dbench`, `dbench-tool` and `dbench-like`.
pub struct DbenchWorkload {
    /// Its name, help and settings.
    pub def: &'static WorkloadDef,
    /// The source of the load.
    pub source: LoadSource,
}

/// The metrics to compare by. Elapsed times are not among them, because the load runs for a set time.
pub const METRICS: &[&str] = &["throughput"];

const CLIENTS: SettingDef =
    SettingDef::ints("clients", 1..=1024, &[4]).help("numbers of clients; each number is a task");
const CLIENT_MODE: SettingDef = SettingDef::choice("by", &["processes", "threads"], "processes")
    .help("whether clients are processes, as in the real dbench, or threads");
const SECONDS: SettingDef = SettingDef::float("seconds", 0.0..=86_400.0, 0.0)
    .help("length of the measured phase; 0 for 60 s at scale paper, 5 s at quick, 0.5 s at tiny");
const WARM_UP: SettingDef = SettingDef::float("warm_up", -1.0..=86_400.0, -1.0)
    .help("seconds of the warm-up; a negative number for a fifth of the measured phase, as in the real dbench");
const RATE: SettingDef = SettingDef::float("rate", 0.0..=1e6, 0.0)
    .help("megabytes (10^6) a second at most for each client (dbench -R); 0 for no limit");
const PAYLOAD: SettingDef = payload::PAYLOAD
    .help("data of writes for which the loadfile has no pattern: incompressible noise, or zeros as dbench writes them");
const SYNTHETIC_PAYLOAD: SettingDef =
    payload::PAYLOAD.help("data of writes: incompressible noise, or zeros as dbench writes them");

/// The settings of workloads with a loadfile. `default_engine` plays it by default: `native` for fsarena, or `dbench`.
pub const fn loadfile_settings(default_engine: &'static str) -> [SettingDef; 8] {
    let engine = SettingDef::choice("engine", &["native", "dbench"], default_engine)
        .help("program that plays the loadfile: fsarena itself, or the real dbench");
    let loadfile = SettingDef::path("loadfile").help(
        "a loadfile of dbench 4.0 or 5.0, also packed with gzip; empty for the installed one (apt install dbench)",
    );
    [engine, loadfile, CLIENTS, CLIENT_MODE, SECONDS, WARM_UP, RATE, PAYLOAD]
}

/// The settings of the synthetic load.
pub const SYNTHETIC_SETTINGS: [SettingDef; 6] = [CLIENTS, CLIENT_MODE, SECONDS, WARM_UP, RATE, SYNTHETIC_PAYLOAD];

/// The resolved settings of a job.
#[derive(Debug, Clone)]
pub struct DbenchSettings {
    /// Whether the real dbench plays.
    pub uses_real_dbench: bool,
    /// Numbers of clients in the order of the plan and without repetitions. Each number is a task.
    pub clients: Vec<u32>,
    /// The player's options. `options.clients` is the largest number in `clients`.
    pub options: PlayerOptions,
}

impl DbenchSettings {
    /// Reads the settings, which are complete and checked.
    pub fn resolve(job: &Job) -> DbenchSettings {
        let settings = &job.settings;
        let seconds = job.seconds_or_by_scale("seconds", [60.0, 5.0, 0.5]);
        let warm_up = match settings.float("warm_up") {
            warm_up if warm_up < 0.0 => seconds / 5.0,
            warm_up => warm_up,
        };
        let clients = distinct(settings.ints("clients").into_iter().map(|number| number as u32));
        let options = PlayerOptions {
            clients: clients.iter().copied().max().unwrap_or(1),
            mode: if settings.text("by") == "threads" { ClientMode::Threads } else { ClientMode::Processes },
            measured: Duration::from_secs_f64(seconds),
            warm_up: Duration::from_secs_f64(warm_up),
            rate_mb_s: Some(settings.float("rate")).filter(|rate| *rate > 0.0),
            content: payload_content(settings),
            seed: job.seed,
        };
        let uses_real_dbench = settings.0.contains_key("engine") && settings.text("engine") == "dbench";
        DbenchSettings { uses_real_dbench, clients, options }
    }
}
