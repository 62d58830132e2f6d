//! The cost of the load generator itself, measured in every run.

use crate::clock::{self, Clock};
use crate::error::{EngineError, Result};
use crate::job::{Bound, Content, Engine, LoadJob};
use crate::tally::{OpKind, OperationBudget, Recorder, RunTimes};
use crate::{block_io::NullIo, files::BlockLayout, load::FileLoad, ring::Ring, ring_loop, stream::Op, sync_loop};
use serde::Serialize;

/// The largest number of operations of one round.
const MAX_OPERATIONS: u64 = 20_000;
/// The number of rounds. The fastest counts, because disturbances only make a round slower.
const ROUNDS: usize = 3;
/// The most bytes that one round fills. Large blocks take long to fill, so a round has fewer of them.
const MAX_BYTES: u64 = 64 << 20;
/// The fewest operations of one round.
const MIN_OPERATIONS: u64 = 4;

/// The cost of the load generator on this machine with one job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// `tsc` or `clock_monotonic`.
    pub clock: &'static str,
    /// Nanoseconds to take one time stamp.
    pub clock_ns: f64,
    /// Nanoseconds of one operation of the job without its I/O: choosing its kind and offset at random, filling the
    /// buffer of a write, taking the time and counting.
    pub generator_ns: f64,
    /// Nanoseconds of one NOP through a ring of the job's depth, including taking the time and counting; io_uring only.
    pub ring_nop_ns: Option<f64>,
}

impl Calibration {
    /// A calibration with a measured cost of the generator and the cost of the clock in use.
    pub(crate) fn with_generator(generator_ns: f64) -> Calibration {
        let chosen = Clock::best();
        Calibration { clock: chosen.name(), clock_ns: chosen.cost_ns, generator_ns, ring_nop_ns: None }
    }

    /// Nanoseconds that the generator adds to one operation. With io_uring this is an upper estimate: both parts
    /// include taking the time and counting.
    pub fn cost_ns(&self) -> f64 {
        self.generator_ns + self.ring_nop_ns.unwrap_or(0.0)
    }
}

/// Measures the cost of the load generator with a job's pattern, content and depth.
///
/// # Errors
/// Buffers or a ring are unavailable, or a signal arrived.
pub fn calibrate(job: &LoadJob, layout: BlockLayout) -> Result<Calibration> {
    // One thread is enough. An open loop would wait, and verification needs files. A system
    // call waits for as many completions as the ring can have in flight. The cost is one of all operations, syncs included.
    let bound = Bound::Operations(MAX_OPERATIONS);
    let calibration_job = LoadJob { threads: 1, rate: None, verify: false, batch: job.depth, bound, ..job.clone() };
    let mut calibration = Calibration::with_generator(fastest_ns_per_operation(&calibration_job, layout, false)?);
    if job.engine == Engine::IoUring {
        calibration.ring_nop_ns = Some(fastest_ns_per_operation(&calibration_job, layout, true)?);
    }
    Ok(calibration)
}

/// Nanoseconds of an operation in the fastest round. `with_nops` is as in [`ns_per_operation`].
fn fastest_ns_per_operation(job: &LoadJob, layout: BlockLayout, with_nops: bool) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        check_cancelled()?;
        best = best.min(ns_per_operation(job, layout, with_nops)?);
    }
    Ok(best)
}

/// Returns an error if a signal arrived: before its first operation, a load has no result yet.
pub fn check_cancelled() -> Result {
    fsarena_sys::cancel::check().map_err(|_| EngineError::Resource {
        problem: "the load was cancelled before its first operation".into(),
        source: std::io::ErrorKind::Interrupted.into(),
        advice: "",
    })
}

/// Nanoseconds of an operation in one round. If `with_nops`, each operation is a
/// NOP through a ring. Otherwise it is one of the job, but [`NullIo`] does no I/O.
fn ns_per_operation(job: &LoadJob, layout: BlockLayout, with_nops: bool) -> Result<f64> {
    let clock = Clock::best();
    // The bytes that an operation fills, for the limit `MAX_BYTES`; at least 1, because it is a divisor.
    let budgeted_bytes = if job.content == Content::Zeros || !job.writes() || with_nops { 1 } else { job.block_bytes };
    let operations = (MAX_BYTES / u64::from(budgeted_bytes)).clamp(MIN_OPERATIONS, MAX_OPERATIONS);
    let load = FileLoad::new(job, layout, &[], &[], None);
    let mut worker = load.create_worker(0)?;
    if with_nops {
        worker.ring = Some(Ring::new(job, &[], &mut worker.buffers)?);
    }
    let budget = OperationBudget::new(Some(operations));
    let start = clock.now();
    let times = RunTimes { start, interval_length: u64::MAX, deadline: u64::MAX, scale: clock.scale };
    let kinds = op_kinds(job);
    let mut recorder = Recorder::new(&kinds, times, None, &budget, job.threads);
    let start_ns = clock::monotonic_ns();
    if with_nops {
        ring_loop::run(&load, &mut worker, &mut recorder, clock, with_nops)?
    } else {
        sync_loop::run(&load, &mut worker, &mut recorder, &NullIo, clock)?
    }
    Ok((clock::monotonic_ns() - start_ns) as f64 / operations as f64)
}

/// The kinds of operations, each with whether the job has it.
pub fn op_kinds(job: &LoadJob) -> [OpKind; 3] {
    let bytes = u64::from(job.block_bytes);
    [
        OpKind { name: Op::Read.name(), bytes, used: job.reads() },
        OpKind { name: Op::Write.name(), bytes, used: job.writes() },
        OpKind { name: Op::Sync.name(), bytes: 0, used: job.sync_every.is_some() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_a_cost() {
        let layout = BlockLayout { file_count: 2, blocks_per_file: 1000, block_bytes: 4096 };
        let calibration = calibrate(&LoadJob::default(), layout).unwrap();
        assert!(calibration.clock_ns > 0.0 && calibration.generator_ns > 0.0);
        assert_eq!(calibration.cost_ns(), calibration.generator_ns);
        assert_eq!(calibration.ring_nop_ns, None);
    }
}
