//! What the generator itself costs, measured in every run.

use super::check_signals;
use super::clock::{self, Clock, Monotonic};
use super::error::Error;
use super::files::Layout;
use super::job::{Content, Engine, Job};
use super::ring::Ring;
use super::ring_loop;
use super::stream::Op;
use super::tally::{Budget, Kind, Recorder, Tally, Times};
use super::worker::Load;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Operations of one round; the best of three counts, because only disturbances make a round slower.
const ROUND: u64 = 20_000;
const ROUNDS: usize = 3;
/// Large blocks take long to fill, so fewer of them make a round.
const ROUND_BYTES: u64 = 64 << 20;
const FEWEST: u64 = 4;

/// What the generator itself costs on this machine, with this job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// `tsc` or `clock_monotonic`.
    pub clock: String,
    /// Nanoseconds of one stamp.
    pub clock_ns: f64,
    /// Nanoseconds of one operation of the job that moves nothing: drawing it, filling what is written,
    /// stamping and counting.
    pub generator_ns: f64,
    /// Nanoseconds of one NOP through a ring of the job's depth, stamping and counting included; io_uring
    /// only.
    pub ring_nop_ns: Option<f64>,
}

impl Calibration {
    /// What one operation costs beyond the work asked for, in nanoseconds.
    pub fn cost_ns(&self) -> f64 {
        self.generator_ns + self.ring_nop_ns.unwrap_or(0.0)
    }
}

/// Calibrates with a job's own pattern, payload and depth.
///
/// # Errors
/// Where buffers or a ring cannot be had.
pub fn calibrate(job: &Job, layout: Layout) -> Result<Calibration, Error> {
    // One thread alone: an open loop would wait, verification needs files.
    let alone = Job { threads: 1, rate: None, verify: false, batch: job.depth, ..job.clone() };
    let chosen = clock::choose();
    let generator_ns = best(&alone, layout, false)?;
    let ring_nop_ns = match job.engine {
        Engine::IoUring => Some(best(&alone, layout, true)?),
        _ => None,
    };
    Ok(Calibration { clock: chosen.name().into(), clock_ns: chosen.cost_ns, generator_ns, ring_nop_ns })
}

fn best(job: &Job, layout: Layout, nop: bool) -> Result<f64, Error> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        check_signals()?;
        best = best.min(round(job, layout, nop)?);
    }
    Ok(best)
}

/// Nanoseconds an operation in one round.
fn round(job: &Job, layout: Layout, nop: bool) -> Result<f64, Error> {
    match clock::choose().tsc {
        Some(tsc) => round_by(job, layout, nop, tsc),
        None => round_by(job, layout, nop, Monotonic),
    }
}

fn round_by<C: Clock>(job: &Job, layout: Layout, nop: bool, clock: C) -> Result<f64, Error> {
    let scale = clock::choose().scale;
    let moved = if job.content == Content::Zeros || !job.writes() || nop { 1 } else { job.block_bytes };
    let operations = (ROUND_BYTES / u64::from(moved)).clamp(FEWEST, ROUND);
    let load = Load {
        job,
        layout,
        paths: &[],
        files: &[],
        mappings: None,
        counter: AtomicU64::new(0),
        ring_use: Mutex::new(None),
        verified: AtomicU64::new(0),
    };
    let mut worker = load.worker(0)?;
    if nop {
        worker.ring = Some(Ring::new(job, &[], &mut worker.slots)?);
    }
    let budget = Budget::new(Some(operations));
    let start = clock.now();
    let times = Times { start, interval: u64::MAX, deadline: u64::MAX, scale };
    let fresh = || Tally::new(&kinds(job), false);
    let mut recorder = Recorder::new(&fresh, times, None, &budget, 1);
    let begun = clock.now();
    match nop {
        true => ring_loop::run(&load, &mut worker, &mut recorder, clock, true)?,
        false => load.work_on_nothing(&mut worker, &mut recorder, clock)?,
    }
    Ok(scale.ns(clock.now() - begun) as f64 / operations as f64)
}

/// The kinds of operations of a job.
pub fn kinds(job: &Job) -> [Kind; 3] {
    let bytes = u64::from(job.block_bytes);
    [
        Kind { name: Op::Read.name(), bytes, used: job.reads() },
        Kind { name: Op::Write.name(), bytes, used: job.writes() },
        Kind { name: Op::Sync.name(), bytes: 0, used: job.sync_every.is_some() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_a_cost() {
        let layout = Layout { files: 2, per_file: 1000, block: 4096 };
        let found = calibrate(&Job::default(), layout).unwrap();
        assert!(found.clock_ns > 0.0 && found.generator_ns > 0.0);
        assert_eq!(found.cost_ns(), found.generator_ns);
        assert_eq!(found.ring_nop_ns, None);
    }
}
