//! The readings of a cache while it serves, and the CPU and I/O cost of serving requests.

use crate::error::{Result, at};
use fsarena_core::metric::reading;
use fsarena_core::sample::{Fold, ReadingDef, Readings, TaskOutput, Unit};
use fsarena_engine::Outcome;
use fsarena_sys::cpu::{self, CpuTimes};
use fsarena_sys::kernel::SysRoot;
use std::path::Path;

/// The metrics that answer which filesystem a proxy should use: the arrivals are paced, so elapsed times say nothing.
pub const ANSWERS: &[&str] = &["cpu_per_request", "iowait_per_request", "corrected_latency_p99_ns"];

/// The share of requests that the cache answered.
pub const HIT_RATIO: &str = "hit_ratio";
/// Mean size of the files in the data set at the end.
pub const MEAN_FILE: &str = "file_mean_bytes";
/// Bytes that clients got.
pub const SERVED: &str = "served_bytes";
/// Objects that were thrown out of the cache.
pub const REPLACED: &str = "replaced_count";
/// Operations as filebench counts them.
pub const FLOWOPS: &str = "flowops_per_s";
/// CPU time of the clients and the origin.
pub const CLIENT_CPU: &str = "client_cpu_ns";
/// Requests that failed.
pub const FAILED: &str = "failed_count";

/// Every reading of a workload that serves requests, beside those of the load engine and of any service.
pub const DEFS: &[ReadingDef] = &[
    ReadingDef::higher(HIT_RATIO, Unit::Ratio).help("requests that the cache answered / all requests"),
    ReadingDef::higher(SERVED, Unit::Bytes).help("bytes of objects that clients got"),
    ReadingDef::neutral(REPLACED, Unit::Count).help("objects thrown out of the cache to make room"),
    ReadingDef::neutral(MEAN_FILE, Unit::Bytes)
        .tasks(Fold::None)
        .clients(Fold::Mean)
        .help("mean size of the files in the data set when the task ended: filebench's webproxy shrinks it while it measures"),
    ReadingDef::higher(FLOWOPS, Unit::PerSecond)
        .help("operations a second as filebench counts them: 19 a turn of webproxy's loop"),
    reading::cpu_time(CLIENT_CPU).help("CPU time of clients and origin, user and system"),
    ReadingDef::lower(FAILED, Unit::Count).help("requests that failed or were cut short"),
];

/// What the kernel's own threads had used when serving began, and how long CPUs had waited for I/O.
pub struct Account {
    kernel: SysRoot,
    threads: CpuTimes,
    iowait_ns: Option<f64>,
}

impl Account {
    /// Begins.
    pub fn begin() -> Account {
        let kernel = SysRoot::host();
        let (threads, iowait_ns) = (cpu::kernel_threads(&kernel), iowait_ns(&kernel));
        Account { kernel, threads, iowait_ns }
    }

    /// Ends: what is still in memory is written first, because writing it is part of what serving cost. Whatever
    /// a task does before and after its serving is left out, of iowait too.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn end(self, root: &Path, readings: &mut Readings) -> Result<()> {
        let synced = std::fs::File::open(root).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
        synced.map_err(at("sync", root))?;
        let threads = cpu::kernel_threads(&self.kernel);
        if !threads.is_empty() {
            readings.set(reading::KERNEL_THREADS, cpu::used(&self.threads, &threads) as f64);
        }
        if let (Some(before), Some(now)) = (self.iowait_ns, iowait_ns(&self.kernel)) {
            readings.set(reading::IOWAIT, (now - before).max(0.0));
        }
        Ok(())
    }
}

/// The fifth number of `/proc/stat`'s first line, in ticks of 10 ms as user programs see them.
fn iowait_ns(kernel: &SysRoot) -> Option<f64> {
    let text = kernel.read("proc/stat").ok()?;
    let ticks: f64 = text.lines().next()?.split_ascii_whitespace().nth(5)?.parse().ok()?;
    Some(ticks * 1e9 / rustix::param::clock_ticks_per_second() as f64)
}

/// The findings of a service that runs as threads of this process. Each operation is `each` requests.
///
/// # Errors
/// If syncing the files of the service fails.
pub fn of_threads(outcome: &Outcome, each: u64, account: Account, root: &Path) -> Result<TaskOutput> {
    let mut found = outcome.found();
    let readings = &mut found.readings;
    readings.set(reading::REQUESTS, (outcome.operations() * each) as f64);
    readings.set(reading::SERVICE_USER, outcome.cpu.user_ns as f64);
    readings.set(reading::SERVICE_SYSTEM, outcome.cpu.system_ns as f64);
    account.end(root, readings)?;
    Ok(found)
}
