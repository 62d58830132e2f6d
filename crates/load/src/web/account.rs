//! What serving costs, by whom.

use crate::engine::Outcome;
use crate::step::Error;
use fsarena_core::metric::reading;
use fsarena_core::sample::Readings;
use fsarena_sys::cpu::{self, Times};
use fsarena_sys::kernel::Kernel;
use std::path::Path;

/// What the kernel's own threads had used when serving began.
pub struct Account {
    kernel: Kernel,
    before: Times,
}

impl Account {
    /// Begins.
    pub fn begin() -> Account {
        let kernel = Kernel::host();
        let before = cpu::kernel_threads(&kernel);
        Account { kernel, before }
    }

    /// Ends: what is still in memory is written first, because writing it is part of what serving cost. None
    /// where this kernel does not tell.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn kernel_threads_ns(self, root: &Path) -> Result<Option<u64>, Error> {
        let doing = || format!("syncing {}", root.display());
        let dir = std::fs::File::open(root).map_err(Error::io(doing()))?;
        rustix::fs::syncfs(&dir).map_err(Error::io(doing()))?;
        let after = cpu::kernel_threads(&self.kernel);
        Ok((!after.is_empty()).then(|| cpu::used(&self.before, &after)))
    }
}

/// The readings of a service that is this process's own threads, each operation being so many requests.
///
/// # Errors
/// Where what it wrote cannot be synced.
pub fn of_threads(
    outcome: &Outcome,
    requests_each: u64,
    account: Account,
    root: &Path,
) -> Result<Readings, Error> {
    let mut readings = outcome.readings();
    readings.set(reading::REQUESTS, (outcome.operations() * requests_each) as f64);
    readings.set(reading::SERVICE_USER, outcome.cpu.user_ns as f64);
    readings.set(reading::SERVICE_SYSTEM, outcome.cpu.system_ns as f64);
    if let Some(ns) = account.kernel_threads_ns(root)? {
        readings.set(reading::KERNEL_THREADS, ns as f64);
    }
    Ok(readings)
}
