//! The result of a load.

use crate::drive::{self, Collected, DriveSettings, Work};
use crate::histogram::{histogram, latencies};
use crate::job::{Bound, Warmup};
use crate::tally::{self, FinishedInterval, Interval, OnInterval, lanes};
use crate::{calibrate::Calibration, error::Result, extent_check::ExtentCheck, series};
use fsarena_core::{metric::CLIENT_BOUND, sample::TaskOutput, series::Point};
use fsarena_sys::cpu::Cpu;
use hdrhistogram::Histogram;

/// Counts and latencies of one kind of operation.
#[derive(Debug, Clone)]
pub struct OpStats {
    /// `read`, `write`, `sync`, or a metadata operation.
    pub name: &'static str,
    /// Number of operations.
    pub count: u64,
    /// Bytes that these read or wrote.
    pub bytes: u64,
    /// Latencies in nanoseconds, from start to end.
    pub latency: Histogram<u64>,
    /// Latencies in nanoseconds from the intended start, which corrects for coordinated omission: they include the time that
    /// an operation waits for slow earlier ones. Open loops only.
    pub corrected: Option<Histogram<u64>>,
}

/// How evenly the threads progressed over the whole run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Operations of the slowest thread.
    pub least: u64,
    /// Operations of the fastest thread.
    pub most: u64,
    /// [`jain`]'s index over the operations of all threads.
    pub jain: f64,
}

/// The results of a load, without its warm-up.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// Counts of each kind of operation that occurred.
    pub kinds: Vec<OpStats>,
    /// Latencies of all kinds together, as sysbench counts them.
    pub latency: Histogram<u64>,
    /// All corrected latencies; open loops only.
    pub corrected: Option<Histogram<u64>>,
    /// Nanoseconds from the end of the warm-up to the end of the last operation.
    pub elapsed_ns: u64,
    /// CPU time of the workers in that time. The sum is exact; the split into user and system time is the ratio of the whole
    /// process. If a worker reported an interval late, part of its time counts in the next interval.
    pub cpu: Cpu,
    /// All intervals, including the warm-up.
    pub intervals: Vec<Interval>,
    /// The intervals merged to the points that a run stores.
    pub series: Vec<Point>,
    /// The number of intervals that were left out as warm-up.
    pub warmup_intervals: usize,
    /// Whether the rest is steady; None if it is too short for a decision. See [`crate::steady`].
    pub steady: Option<bool>,
    /// Nanoseconds that the slowest thread's final syncs took, after the elapsed time.
    pub final_sync_ns: u64,
    /// Number of final syncs.
    pub final_syncs: u64,
    /// How evenly threads progressed.
    pub fairness: Fairness,
    /// The cost of the load generator itself.
    pub calibration: Calibration,
    /// The load generator's share of the processor time, 0–1.
    pub client_share: f64,
    /// Whether that share is above [`CLIENT_BOUND`].
    pub client_bound: bool,
    /// Number of verified blocks, all intact: a damaged block ends the job.
    pub verified_blocks: u64,
    /// The result of the extent check; None if the load recreated the files or does not use files.
    pub extent_check: Option<ExtentCheck>,
    /// The intended operations per second of an open loop; None for a closed loop.
    pub intended_per_s: Option<f64>,
}

impl LoadOutcome {
    /// Runs a load, leaves out its warm-up and summarises the rest. Calls `on_interval` as soon as an interval is over.
    ///
    /// # Errors
    /// A worker cannot start, or an operation failed.
    pub(crate) fn measure<'a>(
        drive: &DriveSettings,
        work: &'a impl Work<'a>,
        calibration: Calibration,
        on_interval: OnInterval,
    ) -> Result<LoadOutcome> {
        let collected = drive::run_workers(drive, work, on_interval)?;
        let cut = warmup_intervals(drive, &collected);
        let kept = &collected.finished[cut..];
        let elapsed_ns = collected.elapsed_ns.saturating_sub(cut as u64 * drive.interval_ns());
        let kinds = op_stats(drive, kept);
        let (mut latency, mut corrected) = (histogram(), drive.rate.map(|_| histogram()));
        for kind in &kinds {
            latency.add(&kind.latency).expect("all histograms of the engine have the same bounds");
            if let (Some(all), Some(of_kind)) = (&mut corrected, &kind.corrected) {
                all.add(of_kind).expect("all histograms of the engine have the same bounds");
            }
        }
        let mut cpu = Cpu::default();
        for finished in kept {
            cpu += finished.cpu;
        }
        let stretches: Vec<_> = collected.finished.iter().map(|one| one.stretch(drive.kinds.len())).collect();
        let client_share = client_share(&calibration, latency.len(), elapsed_ns, collected.by_thread.len());
        Ok(LoadOutcome {
            kinds,
            latency,
            corrected,
            elapsed_ns,
            cpu: cpu.split_as(collected.process_cpu),
            series: series::points(&stretches, cut),
            warmup_intervals: cut,
            steady: collected.assessment.steady,
            final_sync_ns: collected.final_sync_ns,
            final_syncs: collected.final_syncs,
            fairness: fairness(&collected.by_thread),
            calibration,
            client_share,
            client_bound: client_share > CLIENT_BOUND,
            verified_blocks: 0,
            extent_check: None,
            intended_per_s: drive.rate.map(|rate| rate.per_s),
            intervals: collected.finished.into_iter().map(|one| one.interval).collect(),
        })
    }

    /// The number of operations of all kinds.
    pub fn operations(&self) -> u64 {
        self.latency.len()
    }

    /// The bytes read and written by operations of all kinds.
    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.bytes).sum()
    }

    /// Readings, series and latencies in the form that a sample stores.
    pub fn task_output(&self) -> TaskOutput {
        TaskOutput {
            series: self.series.clone(),
            latencies: latencies(self.corrected.as_ref().unwrap_or(&self.latency)),
            ..TaskOutput::from(self.readings())
        }
    }

    /// Counts of the kind of this name, if it occurred.
    pub fn kind(&self, name: &str) -> Option<&OpStats> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

/// Counts and latencies of each kind that occurred in these intervals.
fn op_stats(drive: &DriveSettings, intervals: &[FinishedInterval]) -> Vec<OpStats> {
    let mut latencies = tally::sum_lanes(lanes(drive.kinds, drive.rate.is_some()).len(), intervals);
    let mut corrected = latencies.split_off(drive.kinds.len()).into_iter();
    let mut stats = vec![];
    for (kind, latency) in drive.kinds.iter().zip(latencies) {
        let corrected = corrected.next();
        let count = latency.len();
        if count > 0 {
            stats.push(OpStats { name: kind.name, count, bytes: count * kind.bytes, latency, corrected });
        }
    }
    stats
}

/// Number of intervals to leave out as warm-up.
fn warmup_intervals(drive: &DriveSettings, collected: &Collected) -> usize {
    let cut = match drive.warmup {
        Warmup::None => 0,
        Warmup::Seconds(seconds) => (seconds * 1e9 / drive.interval_ns() as f64).ceil() as usize,
        // The bound is an amount of work, and all of it counts. Leaving a part out would change the bound.
        Warmup::Detect if matches!(drive.bound, Bound::Operations(_) | Bound::Bytes(_)) => 0,
        Warmup::Detect => collected.assessment.cut,
    };
    // A run shorter than its warm-up reports all its intervals.
    if cut < collected.finished.len() { cut } else { 0 }
}

/// The load generator's share of the processor time: its cost per operation divided by the processor time that was available
/// per operation.
fn client_share(calibration: &Calibration, operations: u64, elapsed_ns: u64, threads: usize) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get()).min(threads.max(1));
    let available_ns = elapsed_ns as f64 * processors as f64;
    if available_ns > 0.0 { calibration.cost_ns() * operations as f64 / available_ns } else { 0.0 }
}

fn fairness(by_thread: &[u64]) -> Fairness {
    let (least, most) = (by_thread.iter().copied().min(), by_thread.iter().copied().max());
    Fairness { least: least.unwrap_or(0), most: most.unwrap_or(0), jain: jain(by_thread) }
}

/// Jain's index of fairness (Σx)² / (n·Σx²): 1 if all counts are equal, 1/n if all but one are 0.
pub fn jain(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|&x| x as f64).sum();
    let squares: f64 = counts.iter().map(|&x| (x as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_matches_values_computed_by_hand() {
        assert_eq!(fairness(&[5, 5, 5, 5]).jain, 1.0);
        assert_eq!(fairness(&[8, 0, 0, 0]), Fairness { least: 0, most: 8, jain: 0.25 });
        // (1+2+3)² / (3 · 14).
        assert!((fairness(&[1, 2, 3]).jain - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!(fairness(&[0, 0]).jain, 1.0);
    }

    #[test]
    fn the_client_share_is_the_generators_share_of_processor_time() {
        let calibration = Calibration { clock: "tsc", clock_ns: 20.0, generator_ns: 50.0, ring_nop_ns: None };
        // One thread, 1000 ns an operation.
        assert_eq!(client_share(&calibration, 1000, 1_000_000, 1), 0.05);
        assert_eq!(client_share(&calibration, 0, 0, 1), 0.0);
    }
}
