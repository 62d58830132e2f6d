//! The result of a load.

use crate::drive::{self, DriveSettings, Work, WorkerCounts};
use crate::histogram::{empty_histogram, to_latencies};
use crate::job::{Bound, Warmup};
use crate::tally::{self, FinishedInterval, Interval, OnInterval, lane_kinds};
use crate::{calibrate::Calibration, error::Result, extent_check::ExtentCheck, series};
use fsarena_core::{metric::MAX_GENERATOR_SHARE, sample::TaskOutput, series::SeriesPoint};
use fsarena_sys::cpu::CpuTime;
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
    pub corrected_latency: Option<Histogram<u64>>,
}

/// How evenly the threads progressed over the whole run, including the warm-up: intervals do not count threads separately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Operations of the slowest thread.
    pub fewest_operations: u64,
    /// Operations of the fastest thread.
    pub most_operations: u64,
    /// [`jain_index`] over the operations of all threads.
    pub jain_index: f64,
}

/// The results of a load. They leave out the warm-up, except where a field includes it.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// Counts of each kind of operation that occurred.
    pub kinds: Vec<OpStats>,
    /// Latencies of all kinds together, as sysbench counts them.
    pub latency: Histogram<u64>,
    /// The corrected latencies of all kinds together; open loops only.
    pub corrected_latency: Option<Histogram<u64>>,
    /// Nanoseconds from the end of the warm-up to the end of the last operation.
    pub elapsed_ns: u64,
    /// CPU time of the workers in that time. The sum is exact. It is split into user and system time in the ratio that the whole
    /// process has. If a worker reported an interval late, part of its time counts in the next interval.
    pub cpu: CpuTime,
    /// All intervals, including the warm-up.
    pub intervals: Vec<Interval>,
    /// The intervals merged to the points that a run stores.
    pub series: Vec<SeriesPoint>,
    /// The number of intervals that were left out as warm-up. 0 if the run was not longer than the warm-up that was set.
    pub warmup_intervals: usize,
    /// Whether the series after the warm-up is steady; None if it is too short for a decision. See [`crate::steady`]. The reading
    /// of an open loop lacks it too, because its rate is fixed.
    pub is_steady: Option<bool>,
    /// Nanoseconds that the slowest thread's final syncs took, after the elapsed time.
    pub final_sync_ns: u64,
    /// Number of final syncs.
    pub final_syncs: u64,
    /// How evenly the threads progressed, including the warm-up.
    pub fairness: Fairness,
    /// The cost of the load generator itself.
    pub calibration: Calibration,
    /// The load generator's share of the processor time, 0–1.
    pub client_share: f64,
    /// Whether that share is above [`MAX_GENERATOR_SHARE`].
    pub is_client_bound: bool,
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
        settings: &DriveSettings,
        work: &'a impl Work<'a>,
        calibration: Calibration,
        on_interval: OnInterval,
    ) -> Result<LoadOutcome> {
        let counts = drive::run_workers(settings, work, on_interval)?;
        let warmup_intervals = count_warmup_intervals(settings, &counts);
        let measured = &counts.finished_intervals[warmup_intervals..];
        let elapsed_ns = counts.elapsed_ns.saturating_sub(warmup_intervals as u64 * settings.interval_ns());
        let kinds = op_stats(settings, measured);
        let (mut latency, mut corrected_latency) = (empty_histogram(), settings.rate.map(|_| empty_histogram()));
        for kind in &kinds {
            latency.add(&kind.latency).expect("all histograms of the engine have the same bounds");
            if let (Some(all), Some(of_kind)) = (&mut corrected_latency, &kind.corrected_latency) {
                all.add(of_kind).expect("all histograms of the engine have the same bounds");
            }
        }
        let mut cpu = CpuTime::default();
        for finished in measured {
            cpu += finished.cpu;
        }
        let kind_count = settings.kinds.len();
        let series_intervals: Vec<_> =
            counts.finished_intervals.iter().map(|finished| finished.series_interval(kind_count)).collect();
        let client_share = client_share_of(&calibration, latency.len(), elapsed_ns, counts.operations_by_thread.len());
        Ok(LoadOutcome {
            kinds,
            latency,
            corrected_latency,
            elapsed_ns,
            cpu: cpu.split_like(counts.process_cpu),
            series: series::merge_to_points(&series_intervals, warmup_intervals),
            warmup_intervals,
            is_steady: counts.assessment.is_steady,
            final_sync_ns: counts.final_sync_ns,
            final_syncs: counts.final_syncs,
            fairness: fairness(&counts.operations_by_thread),
            calibration,
            client_share,
            is_client_bound: client_share > MAX_GENERATOR_SHARE,
            verified_blocks: 0,
            extent_check: None,
            intended_per_s: settings.rate.map(|rate| rate.per_s),
            intervals: counts.finished_intervals.into_iter().map(|finished| finished.interval).collect(),
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
            latencies: to_latencies(self.corrected_latency.as_ref().unwrap_or(&self.latency)),
            ..TaskOutput::from(self.readings())
        }
    }

    /// Counts of the kind of this name, if it occurred.
    pub fn kind(&self, name: &str) -> Option<&OpStats> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

/// Counts and latencies of each kind that occurred in these intervals.
fn op_stats(settings: &DriveSettings, intervals: &[FinishedInterval]) -> Vec<OpStats> {
    let mut latencies = tally::sum_lanes(lane_kinds(settings.kinds, settings.rate.is_some()).len(), intervals);
    // An open loop has a second lane of each kind.
    let mut corrected_latencies = latencies.split_off(settings.kinds.len()).into_iter();
    let mut stats = vec![];
    for (kind, latency) in settings.kinds.iter().zip(latencies) {
        let corrected_latency = corrected_latencies.next();
        let count = latency.len();
        if count > 0 {
            // All operations of a kind have the same size.
            stats.push(OpStats { name: kind.name, count, bytes: count * kind.bytes, latency, corrected_latency });
        }
    }
    stats
}

/// Number of intervals to leave out as warm-up.
fn count_warmup_intervals(settings: &DriveSettings, counts: &WorkerCounts) -> usize {
    let count = match settings.warmup {
        Warmup::None => 0,
        Warmup::Seconds(seconds) => intervals_begun_in(seconds, settings.interval_ns()),
        // The bound is an amount of work, and all of it counts. Leaving a part out would change the bound.
        Warmup::Detect if matches!(settings.bound, Bound::Operations(_) | Bound::Bytes(_)) => 0,
        Warmup::Detect => counts.assessment.warmup_intervals,
    };
    // If the run is not longer than its warm-up, all its intervals count.
    if count < counts.finished_intervals.len() { count } else { 0 }
}

/// The number of intervals of this length that begin in the first `seconds` seconds.
fn intervals_begun_in(seconds: f64, interval_ns: u64) -> usize {
    // Rounded to whole nanoseconds: the product 8.3 * 1e9 is 8300000000.000001, which would add an interval.
    ((seconds * 1e9).round() / interval_ns as f64).ceil() as usize
}

/// The load generator's share of the processor time: its cost per operation divided by the processor time that was available
/// per operation.
fn client_share_of(calibration: &Calibration, operations: u64, elapsed_ns: u64, threads: usize) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get()).min(threads.max(1));
    let available_ns = elapsed_ns as f64 * processors as f64;
    if available_ns > 0.0 { calibration.cost_ns() * operations as f64 / available_ns } else { 0.0 }
}

/// How evenly threads with these numbers of operations progressed.
fn fairness(operations_by_thread: &[u64]) -> Fairness {
    Fairness {
        fewest_operations: operations_by_thread.iter().copied().min().unwrap_or(0),
        most_operations: operations_by_thread.iter().copied().max().unwrap_or(0),
        jain_index: jain_index(operations_by_thread),
    }
}

/// Jain's index of fairness (Σx)² / (n·Σx²): 1 if all counts are equal, 1/n if all but one are 0.
pub fn jain_index(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|&x| x as f64).sum();
    let squares: f64 = counts.iter().map(|&x| (x as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_matches_values_computed_by_hand() {
        assert_eq!(jain_index(&[5, 5, 5, 5]), 1.0);
        assert_eq!(fairness(&[8, 0, 0, 0]), Fairness { fewest_operations: 0, most_operations: 8, jain_index: 0.25 });
        // (1+2+3)² / (3 · 14).
        assert!((jain_index(&[1, 2, 3]) - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!(jain_index(&[0, 0]), 1.0);
    }

    #[test]
    fn a_warm_up_ends_with_the_interval_in_which_it_ends() {
        let intervals = [0.0, 0.1, 0.11, 8.2, 8.3, 8.301].map(|seconds| intervals_begun_in(seconds, 100_000_000));
        assert_eq!(intervals, [0, 1, 2, 82, 83, 84]);
    }

    #[test]
    fn the_client_share_is_the_generators_share_of_processor_time() {
        let calibration = Calibration { clock: "tsc", clock_ns: 20.0, generator_ns: 50.0, ring_nop_ns: None };
        // One thread, 1000 ns an operation.
        assert_eq!(client_share_of(&calibration, 1000, 1_000_000, 1), 0.05);
        assert_eq!(client_share_of(&calibration, 0, 0, 1), 0.0);
    }
}
