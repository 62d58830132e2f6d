//! The CPU and I/O cost of serving requests.

use crate::error::{Result, at};
use fsarena_core::metric::reading;
use fsarena_core::sample::{Found, Readings};
use fsarena_engine::Outcome;
use fsarena_sys::cpu::{self, Times};
use fsarena_sys::kernel::Kernel;
use std::path::Path;

/// What the kernel's own threads had used when serving began, and how long CPUs had waited for I/O.
pub struct Account {
    kernel: Kernel,
    threads: Times,
    iowait_ns: Option<f64>,
}

impl Account {
    /// Begins.
    pub fn begin() -> Account {
        let kernel = Kernel::host();
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
        synced.map_err(at("syncing", root))?;
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
fn iowait_ns(kernel: &Kernel) -> Option<f64> {
    let text = kernel.read("proc/stat").ok()?;
    let ticks: f64 = text.lines().next()?.split_ascii_whitespace().nth(5)?.parse().ok()?;
    Some(ticks * 1e9 / rustix::param::clock_ticks_per_second() as f64)
}

/// The findings of a service that runs as threads of this process. Each operation is `each` requests.
///
/// # Errors
/// If syncing the files of the service fails.
pub fn of_threads(outcome: &Outcome, each: u64, account: Account, root: &Path) -> Result<Found> {
    let mut found = outcome.found();
    let readings = &mut found.readings;
    readings.set(reading::REQUESTS, (outcome.operations() * each) as f64);
    readings.set(reading::SERVICE_USER, outcome.cpu.user_ns as f64);
    readings.set(reading::SERVICE_SYSTEM, outcome.cpu.system_ns as f64);
    account.end(root, readings)?;
    Ok(found)
}
