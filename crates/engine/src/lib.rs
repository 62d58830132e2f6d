//! The load engine: drives files as hard, or exactly as fast, as asked, and stays out of the way.
//!
//! ```text
//! Files::prepare → Job::check → attest → calibrate → drive (workers → tallies → intervals) → Outcome
//! ```
//!
//! Every latency is recorded; nothing in a hot loop allocates, dispatches dynamically or shares memory. What
//! the generator itself costs is measured in every run and said with the result.

pub mod act;
pub mod attest;
mod cadence;
mod calibrate;
mod check;
pub mod clock;
mod collect;
mod device;
mod drive;
mod error;
mod files;
mod fill;
mod job;
mod mapping;
pub mod meta;
mod offsets;
mod one;
mod open;
mod outcome;
mod pace;
pub mod readings;
mod ring;
mod ring_loop;
mod schedule;
pub mod series;
pub mod steady;
mod stream;
pub mod strides;
mod tally;
#[cfg(test)]
mod tests;
pub mod verify;
mod worker;

pub use calibrate::Calibration;
pub use collect::Interval;
pub use collect::{histogram, quantiles};
pub use error::Error;
pub use files::{FileSpec, Files};
pub use job::{
    Allow, Arrivals, Bound, Content, Durability, Engine, Job, Mixing, Open, Pattern, Rate, SyncCall,
    SyncEvery, UringUse, Warmup,
};
pub use offsets::Offsets;
pub use open::dio_align;
pub use outcome::{Fairness, OfKind, Outcome, Used, latencies};
pub use ring::RingUse;
pub use tally::Cpu;

use drive::Drive;
use files::Layout;
use fsarena_sys::kernel::Kernel;
use mapping::Mappings;
use outcome::Shape;
use rustix::fd::{AsFd, BorrowedFd};
use worker::Load;

/// Runs a job on its files. Intervals are told while it runs.
///
/// # Errors
/// Where the job contradicts itself or does not fit its files; where threads, rings or memory cannot be had;
/// and the first operation that failed or block that was wrong, which ends the job.
pub fn run(job: &Job, files: &Files, on_interval: &mut dyn FnMut(&Interval)) -> Result<Outcome, Error> {
    job.check()?;
    let layout = files.layout(job)?;
    check_room(job, files, layout)?;
    check_memory(job)?;
    let attestation = if job.open.recreate { None } else { Some(attest::attest(files, job.allow)?) };
    let calibration = calibrate::calibrate(job, layout)?;
    check_signals()?;
    let owned = open::open_all(job, files)?;
    let open: Vec<BorrowedFd> = owned.iter().map(AsFd::as_fd).collect();
    let mappings = match job.engine {
        Engine::Mmap => {
            let data_only = job.sync_call == SyncCall::Fdatasync;
            Some(Mappings::new(&open, &files.paths, files.bytes, job.writes(), data_only)?)
        }
        _ => None,
    };
    let load = Load::new(job, files, layout, &open, mappings.as_ref());
    let kinds = calibrate::kinds(job);
    let interval_ns = u64::from(job.interval_ms) * 1_000_000;
    let drive = Drive {
        threads: job.threads,
        kinds: &kinds,
        interval_ns,
        at_most_ns: seconds(job).map(|seconds| (seconds * 1e9) as u64),
        operations: operations(job),
        until_steady: matches!(job.bound, Bound::Steady { .. }),
        open_loop: job.rate.is_some(),
    };
    let collected = drive::drive(&drive, &load, on_interval)?;
    let shape = Shape {
        kinds: &kinds,
        warmup: job.warmup,
        bound: job.bound,
        interval_ns,
        open_loop: job.rate.is_some(),
    };
    let mut outcome = Outcome::new(&shape, collected, calibration);
    outcome.used = Used { ring: load.ring_in_use(), attestation };
    outcome.verified_blocks = load.verified.into_inner();
    outcome.asked_per_s = job.rate.map(|rate| rate.per_s);
    outcome.arrivals = job.rate.map(|rate| rate.arrivals);
    Ok(outcome)
}

/// Verified writes need blocks that only one thread writes, and more of them than are in flight.
fn check_room(job: &Job, files: &Files, layout: Layout) -> Result<(), Error> {
    let needed = 2 * u64::from(job.threads) * u64::from(job.depth);
    if job.verify && job.writes() && layout.blocks() < needed {
        let why = format!(
            "verified writes need at least two blocks for each operation in flight: {needed}, and there are {}",
            layout.blocks()
        );
        return Err(Error::Files { path: files.paths[0].clone(), why });
    }
    Ok(())
}

/// Before the first operation a signal ends a load without figures.
fn check_signals() -> Result<(), Error> {
    fsarena_sys::cancel::check().map_err(|_| Error::Resource {
        what: "the load was not begun".into(),
        source: std::io::ErrorKind::Interrupted.into(),
        advice: "",
    })
}

/// The buffers fit into memory that is free, before any is made: else the kernel would end a process, maybe another one.
fn check_memory(job: &Job) -> Result<(), Error> {
    let buffers = u64::from(job.threads) * u64::from(job.depth);
    let needed = buffers.saturating_mul(u64::from(job.block_bytes));
    match fsarena_sys::host::available_memory(&Kernel::host()) {
        Some(available) if needed > available => {
            Err(Error::Memory { buffers, block: job.block_bytes, available })
        }
        _ => Ok(()),
    }
}

fn seconds(job: &Job) -> Option<f64> {
    match job.bound {
        Bound::Seconds(seconds) | Bound::Steady { at_most_s: seconds } => Some(seconds),
        _ => None,
    }
}

fn operations(job: &Job) -> Option<u64> {
    match job.bound {
        Bound::Operations(operations) => Some(operations),
        Bound::Bytes(bytes) => Some(bytes.div_ceil(u64::from(job.block_bytes))),
        _ => None,
    }
}
