//! What a load came to.

use crate::drive::{self, Collected, Drive, Work};
use crate::histogram::{histogram, latencies};
use crate::job::{Bound, UringUse, Warmup};
use crate::tally::{self, Interval, OnInterval, lanes};
use crate::{calibrate::Calibration, error::Result, extent_check::ExtentCheck, series};
use fsarena_core::{metric::CLIENT_BOUND, sample::TaskOutput, series::Point};
use fsarena_sys::cpu::Cpu;
use hdrhistogram::Histogram;

/// What the operations of one kind came to.
#[derive(Debug, Clone)]
pub struct OpStats {
    /// `read`, `write`, `sync`, or a metadata operation.
    pub name: &'static str,
    /// Operations.
    pub count: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Latencies in nanoseconds, from start to end.
    pub latency: Histogram<u64>,
    /// Latencies in nanoseconds from the intended start: what a user would have waited who does not slow
    /// down with the system (coordinated omission corrected). Open loops only.
    pub corrected: Option<Histogram<u64>>,
}

/// How evenly threads came off, over the whole run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// Operations of the thread that did least.
    pub least: u64,
    /// Operations of the thread that did most.
    pub most: u64,
    /// Jain's index (Σx)² / (n·Σx²): 1 where all did alike, 1/n where one did everything.
    pub jain: f64,
}

/// The features of the machine that the load used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FeaturesUsed {
    /// io_uring features, where it was used.
    pub ring: Option<UringUse>,
    /// The kinds of the files' extents; absent if the load created the files or does not read or write them.
    pub extent_check: Option<ExtentCheck>,
}

/// The results of a load, without its warm-up.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// By kind, those that occurred.
    pub kinds: Vec<OpStats>,
    /// Latencies of all kinds together, as sysbench counts them.
    pub latency: Histogram<u64>,
    /// All corrected latencies; open loops only.
    pub corrected: Option<Histogram<u64>>,
    /// Nanoseconds from the end of the warm-up to the end of the last operation.
    pub elapsed_ns: u64,
    /// CPU time of the workers in that time. The sum is exact; the split into user and system is that of the whole
    /// process. If a worker was late, part of its time counts in the next interval.
    pub cpu: Cpu,
    /// All intervals, those of the warm-up too.
    pub intervals: Vec<Interval>,
    /// The same merged to the points that a run keeps.
    pub series: Vec<Point>,
    /// How many intervals were cut as warm-up.
    pub warmup_intervals: usize,
    /// Whether what follows is steady, none where it is too short to tell: see [`super::steady`].
    pub steady: Option<bool>,
    /// The longest that a thread's final syncs took, nanoseconds. They follow the elapsed time.
    pub final_sync_ns: u64,
    /// Number of final syncs.
    pub final_syncs: u64,
    /// How evenly threads progressed.
    pub fairness: Fairness,
    /// What the generator itself costs.
    pub calibration: Calibration,
    /// The generator's cost as a share of an operation.
    pub client_share: f64,
    /// Whether that is above 10%.
    pub client_bound: bool,
    /// Number of verified blocks, all intact: a damaged block ends the job.
    pub verified_blocks: u64,
    /// The features of the machine that the load used.
    pub used: FeaturesUsed,
    /// The requested operations a second of an open loop.
    pub asked_per_s: Option<f64>,
}

impl LoadOutcome {
    /// Runs a load, cuts its warm-up and sums the rest up. Intervals are told as they are over.
    ///
    /// # Errors
    /// What could not be had before the start, or the first operation that failed.
    pub(crate) fn measure<'a>(
        drive: &Drive,
        work: &'a impl Work<'a>,
        calibration: Calibration,
        tell: OnInterval,
    ) -> Result<LoadOutcome> {
        let collected = drive::drive(drive, work, tell)?;
        let (cut, open_loop) = (cut(drive, &collected), drive.rate.is_some());
        let kept = &collected.finished[cut..];
        let elapsed_ns = collected.elapsed_ns.saturating_sub(cut as u64 * drive.interval_ns());
        let (mut latency, mut corrected) = (histogram(), open_loop.then(histogram));
        let mut kinds = vec![];
        let mut cpu = Cpu::default();
        let mut raw = tally::sum_lanes(lanes(drive.kinds, open_loop).len(), kept);
        let mut later = raw.split_off(drive.kinds.len()).into_iter();
        for (kind, raw) in drive.kinds.iter().zip(raw) {
            let later = later.next();
            if raw.is_empty() {
                continue;
            }
            latency.add(&raw).expect("all histograms of the engine have the same bounds");
            if let (Some(corrected), Some(later)) = (&mut corrected, &later) {
                corrected.add(later).expect("all histograms of the engine have the same bounds");
            }
            let (name, count) = (kind.name, raw.len());
            kinds.push(OpStats { name, count, bytes: count * kind.bytes, latency: raw, corrected: later });
        }
        kept.iter().for_each(|one| cpu += one.cpu);
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
            used: FeaturesUsed::default(),
            asked_per_s: drive.rate.map(|rate| rate.per_s),
            intervals: collected.finished.into_iter().map(|one| one.interval).collect(),
        })
    }

    /// Operations, all kinds together.
    pub fn operations(&self) -> u64 {
        self.latency.len()
    }

    /// Bytes moved, all kinds together.
    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.bytes).sum()
    }

    /// What a sample takes over.
    pub fn found(&self) -> TaskOutput {
        TaskOutput {
            series: self.series.clone(),
            latencies: latencies(self.corrected.as_ref().unwrap_or(&self.latency)),
            ..TaskOutput::from(self.readings())
        }
    }

    /// What one kind came to, where it occurred.
    pub fn kind(&self, name: &str) -> Option<&OpStats> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

/// The number of intervals to leave out.
fn cut(drive: &Drive, collected: &Collected) -> usize {
    let cut = match drive.warmup {
        Warmup::None => 0,
        Warmup::Seconds(seconds) => (seconds * 1e9 / drive.interval_ns() as f64).ceil() as usize,
        // A bound by work says how much work counts; to leave out a part of it would be another bound.
        Warmup::Detect if matches!(drive.bound, Bound::Operations(_) | Bound::Bytes(_)) => 0,
        Warmup::Detect => collected.assessment.cut,
    };
    // A run shorter than its warm-up reports all its intervals.
    if cut < collected.finished.len() { cut } else { 0 }
}

/// The generator's share of the machine's time: its cost an operation over the processor time that there
/// was for one.
fn client_share(calibration: &Calibration, operations: u64, elapsed_ns: u64, threads: usize) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get()).min(threads.max(1));
    let there_was = elapsed_ns as f64 * processors as f64;
    if there_was > 0.0 { calibration.cost_ns() * operations as f64 / there_was } else { 0.0 }
}

fn fairness(by_thread: &[u64]) -> Fairness {
    let (least, most) = (by_thread.iter().copied().min(), by_thread.iter().copied().max());
    Fairness { least: least.unwrap_or(0), most: most.unwrap_or(0), jain: jain(by_thread) }
}

/// Jain's index (Σx)² / (n·Σx²): 1 where all did alike, 1/n where one did everything.
pub fn jain(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|&x| x as f64).sum();
    let squares: f64 = counts.iter().map(|&x| (x as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_by_hand() {
        assert_eq!(fairness(&[5, 5, 5, 5]).jain, 1.0);
        assert_eq!(fairness(&[8, 0, 0, 0]), Fairness { least: 0, most: 8, jain: 0.25 });
        // (1+2+3)² / (3 · 14).
        assert!((fairness(&[1, 2, 3]).jain - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!(fairness(&[0, 0]).jain, 1.0);
    }

    #[test]
    fn a_generator_is_judged_by_the_processor_time_of_an_operation() {
        let calibration = Calibration { clock: "tsc", clock_ns: 20.0, generator_ns: 50.0, ring_nop_ns: None };
        // One thread, 1000 ns an operation.
        assert_eq!(client_share(&calibration, 1000, 1_000_000, 1), 0.05);
        assert_eq!(client_share(&calibration, 0, 0, 1), 0.0);
    }
}
