//! `dbench-like`: clients of a file server with a generated load that has the statistics of dbench's loadfile.

use crate::workloads::dbench::settings::{DbenchWorkload, LoadSource, METRICS, SYNTHETIC_SETTINGS};
use fsarena_core::setting::WorkloadDef;

/// The workload that plays a generated load, which only fsarena's player can play.
pub const DBENCH_LIKE: DbenchWorkload = DbenchWorkload {
    def: &WorkloadDef {
        id: "dbench-like",
        help: "clients of a file server: a generated load with the statistics of dbench's loadfile; needs nothing installed",
        metrics: METRICS,
        settings: &SYNTHETIC_SETTINGS,
    },
    source: LoadSource::Synthetic,
};
