//! Facts of a run as readers see them: when it began, and on which machines.

use fsarena_core::{host::Host, record::RunRecord};

/// When a run began, from RFC 3339: `2026-11-22 10:00`.
pub fn begun(started: &str) -> String {
    started.chars().take(16).collect::<String>().replace('T', " ")
}

/// Its machines and their kernels: `alpha, Linux 6.8; beta, Linux 6.9`.
pub fn machines(record: &RunRecord) -> String {
    each_host(record, "; ", |host| format!("{}, Linux {}", host.hostname, host.kernel))
}

/// A fact of each machine.
pub fn each_host(record: &RunRecord, between: &str, fact: impl Fn(&Host) -> String) -> String {
    record.hosts.iter().map(fact).collect::<Vec<_>>().join(between)
}
