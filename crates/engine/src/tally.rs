//! The tallies in which workers count operations, and the collector that merges the tallies of all workers into intervals.
//!
//! Each worker owns its tally. When an interval is over, the worker sends the tally to the collector and continues with an
//! empty one that the collector returned. A worker never waits and shares no memory while it counts. It compares the time
//! stamp of every operation with the end of the interval.

use crate::histogram::{LatencyTally, SparseHistogram, empty_histogram, quantiles, to_sparse};
use crate::steady::{self, Assessment};
use crate::{clock::TickScale, series::SeriesInterval};
use fsarena_sys::cpu::CpuTime;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// A kind of operation with a separate count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpKind {
    /// Its name in readings.
    pub name: &'static str,
    /// Bytes that one operation moves.
    pub bytes: u64,
    /// Whether this run has such operations.
    pub used: bool,
}

/// Returns the kind of each lane of a tally. A lane counts one kind of operation. An open loop has a second lane for each kind,
/// with latencies from the intended start.
pub fn lane_kinds(kinds: &[OpKind], open_loop: bool) -> Vec<OpKind> {
    kinds.repeat(if open_loop { 2 } else { 1 })
}

/// Makes an empty tally with a lane for each kind.
fn empty_tally(kinds: &[OpKind]) -> Vec<LatencyTally> {
    kinds.iter().map(|kind| LatencyTally::new(kind.used)).collect()
}

/// The message with which a worker sends the tally of an interval to the collector.
pub struct IntervalTally {
    /// The worker.
    pub thread: u32,
    /// The interval that the tally belongs to.
    pub interval: u32,
    /// The interval in which the worker continues; `u32::MAX` if it has ended.
    pub next_interval: u32,
    /// The latencies of each lane; see [`lane_kinds`].
    pub tally: Vec<LatencyTally>,
    /// CPU time since the last tally.
    pub cpu: CpuTime,
}

/// The times of a run, in ticks of its clock.
#[derive(Debug, Clone, Copy)]
pub struct RunTimes {
    /// The start.
    pub start: u64,
    /// Length of an interval.
    pub interval_length: u64,
    /// The end; `u64::MAX` if time does not bound the run.
    pub deadline: u64,
    /// Converts ticks to nanoseconds.
    pub scale: TickScale,
}

/// A worker's connection to the collector.
pub struct CollectorLink<'a> {
    /// The number of the worker.
    pub thread: u32,
    /// Sends full tallies to the collector.
    pub to_collector: Sender<IntervalTally>,
    /// Receives emptied tallies from the collector.
    pub from_collector: Receiver<Vec<LatencyTally>>,
    /// Set when the run has to end.
    pub stop: &'a AtomicBool,
}

/// Counts the operations of one worker and decides when it stops.
pub struct Recorder<'a> {
    /// The counts of the current interval.
    pub tally: Vec<LatencyTally>,
    /// The time from which [`Recorder::end_interval`] must be called, in ticks: the end of the interval or of the run.
    pub boundary: u64,
    /// The times of the run.
    pub times: RunTimes,
    /// The number of the current interval.
    interval: u32,
    /// The kind of each lane; see [`lane_kinds`].
    lane_kinds: &'a [OpKind],
    link: Option<CollectorLink<'a>>,
    budget: &'a OperationBudget,
    threads: u32,
    /// Whether the workers occupy all processors, so that spinning would disturb other workers.
    pub cpus_are_busy: bool,
    /// The CPU time of this thread when it sent the last tally.
    cpu_before: CpuTime,
}

impl<'a> Recorder<'a> {
    /// Makes the recorder of one of `threads` workers, with these lanes.
    pub fn new(
        lane_kinds: &'a [OpKind],
        times: RunTimes,
        link: Option<CollectorLink<'a>>,
        budget: &'a OperationBudget,
        threads: u32,
    ) -> Recorder<'a> {
        let boundary = times.start.saturating_add(times.interval_length).min(times.deadline);
        let cpus_are_busy = std::thread::available_parallelism().map_or(1, |n| n.get()) <= threads as usize;
        let cpu_before = CpuTime::of_this_thread();
        let tally = empty_tally(lane_kinds);
        Recorder { tally, boundary, times, interval: 0, lane_kinds, link, budget, threads, cpus_are_busy, cpu_before }
    }

    /// Claims operations from the budget. Returns the number that the worker may perform; 0 if none are left.
    pub fn claim(&self) -> u64 {
        self.budget.claim(self.threads)
    }

    /// Counts an operation, in an open loop also from its intended start. Returns whether the worker continues.
    #[inline(always)]
    pub fn count(&mut self, lane: usize, start: u64, intended_start: Option<u64>, end: u64) -> bool {
        let continues = end < self.boundary || self.end_interval(end);
        self.tally[lane].record(self.times.scale.ns(end.saturating_sub(start)));
        if let Some(intended_start) = intended_start {
            self.count_from_intended_start(lane, intended_start, end);
        }
        continues
    }

    /// Counts an operation of an open loop from its intended start.
    #[inline(always)]
    pub fn count_from_intended_start(&mut self, lane: usize, intended_start: u64, end: u64) {
        let intended_lane = self.tally.len() / 2 + lane;
        self.tally[intended_lane].record(self.times.scale.ns(end.saturating_sub(intended_start)));
    }

    /// Ends an interval: sends its tally to the collector and returns true. If the run has ended, only returns false;
    /// [`Recorder::close`] then sends the tally, after the worker has counted its last operation.
    #[cold]
    #[inline(never)]
    pub fn end_interval(&mut self, now: u64) -> bool {
        let stopped = self.link.as_ref().is_some_and(|link| link.stop.load(Ordering::Relaxed));
        if stopped || now >= self.times.deadline {
            return false;
        }
        let next_interval = ((now - self.times.start) / self.times.interval_length) as u32;
        self.send_tally(next_interval);
        let boundary = self.times.start + (u64::from(next_interval) + 1) * self.times.interval_length;
        self.boundary = boundary.min(self.times.deadline);
        true
    }

    /// Sends the last tally.
    pub fn close(&mut self) {
        self.send_tally(u32::MAX);
    }

    /// Sends the tally of the current interval to the collector and continues with an empty one in `next_interval`.
    fn send_tally(&mut self, next_interval: u32) {
        let Some(link) = &self.link else { return };
        let cpu = CpuTime::of_this_thread();
        // If the collector has not returned a tally yet, allocate one instead of waiting.
        let empty = link.from_collector.try_recv().unwrap_or_else(|_| empty_tally(self.lane_kinds));
        let tally = std::mem::replace(&mut self.tally, empty);
        let Recorder { interval, cpu_before, .. } = *self;
        let _ = link.to_collector.send(IntervalTally {
            thread: link.thread,
            interval,
            next_interval,
            tally,
            cpu: cpu.since(cpu_before),
        });
        (self.cpu_before, self.interval) = (cpu, next_interval);
    }
}

/// The number of operations that all workers together may still perform. Workers claim several at once, so that they rarely
/// access the shared counter. The total is exact.
#[derive(Debug)]
pub struct OperationBudget(Option<AtomicU64>);

impl OperationBudget {
    /// Makes a budget of this number of operations; unlimited if None.
    pub fn new(operations: Option<u64>) -> OperationBudget {
        OperationBudget(operations.map(AtomicU64::new))
    }

    /// Takes operations for one of `threads` workers. Returns their number; 0 if none are left. Portions become smaller towards
    /// the end, so that the workers finish at nearly the same time.
    fn claim(&self, threads: u32) -> u64 {
        let Some(remaining) = &self.0 else { return u64::MAX };
        let portion = |remaining: u64| (remaining / (4 * u64::from(threads))).clamp(1, 1024).min(remaining);
        let take = |remaining: u64| (remaining > 0).then(|| remaining - portion(remaining));
        match remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(before) => portion(before),
            Err(_) => 0,
        }
    }
}

/// One interval of the series, all threads and kinds of operations together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// Its number, from 0.
    pub index: u32,
    /// When it began, in seconds after the start.
    pub start_s: f64,
    /// Its length in seconds. All intervals have the same length, except the last one: it ends when the last worker ends.
    pub length_s: f64,
    /// Operations that ended in it. An operation that ends after the deadline of the run counts in the interval in which it
    /// began.
    pub operations: u64,
    /// Bytes that these read or wrote.
    pub bytes: u64,
    /// Operations per second.
    pub iops_per_s: f64,
    /// Bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Median latency in nanoseconds; 0 if no operation ended.
    pub latency_p50_ns: u64,
    /// 99th percentile of latency in nanoseconds.
    pub latency_p99_ns: u64,
    /// 99.9th percentile of latency in nanoseconds.
    pub latency_p999_ns: u64,
}

/// A callback that receives each interval as soon as it is over.
pub type OnInterval<'a> = &'a mut dyn FnMut(&Interval);

/// A finished interval with its latencies, which are summed later, when the end of the warm-up is known.
#[derive(Debug)]
pub struct FinishedInterval {
    /// Its figures.
    pub interval: Interval,
    /// The latencies of each lane.
    latencies: Vec<SparseHistogram>,
    /// CPU time of the workers in it.
    pub cpu: CpuTime,
}

impl FinishedInterval {
    /// The counts of the first `kind_count` lanes, in the form that a series merges.
    pub fn series_interval(&self, kind_count: usize) -> SeriesInterval<'_> {
        SeriesInterval {
            start_s: self.interval.start_s,
            length_s: self.interval.length_s,
            operations: self.interval.operations,
            bytes: self.interval.bytes,
            latencies: &self.latencies[..kind_count],
        }
    }
}

/// An interval to which workers may still add operations.
struct OpenInterval {
    lanes: Vec<Histogram<u64>>,
    cpu: CpuTime,
}

impl OpenInterval {
    /// Makes an empty interval. An unused lane takes hardly any memory.
    fn new(used: impl Iterator<Item = bool>) -> OpenInterval {
        let unused = || Histogram::new_with_bounds(1, 2, 0).expect("the bounds are sound");
        let lanes = used.map(|used| if used { empty_histogram() } else { unused() }).collect();
        OpenInterval { lanes, cpu: CpuTime::default() }
    }
}

/// Merges the tallies of all workers. An interval is finished when every worker has passed it. A worker that hangs in one
/// operation delays the series, but not the other workers.
pub struct Collector {
    /// The kind of each lane. Lanes of latencies from intended starts do not count as operations.
    lane_kinds: Vec<OpKind>,
    kind_count: usize,
    interval_s: f64,
    open_intervals: BTreeMap<u32, OpenInterval>,
    /// The interval in which each worker continues; `u32::MAX` for one that has ended.
    next_intervals: Vec<u32>,
    /// Returns emptied tallies, by worker.
    to_workers: Vec<Sender<Vec<LatencyTally>>>,
    /// Intervals that are over, in order.
    pub finished_intervals: Vec<FinishedInterval>,
    /// The number of these intervals that were reported.
    reported_count: usize,
    /// Operations of each worker.
    pub operations_by_thread: Vec<u64>,
}

impl Collector {
    /// Makes a collector that returns emptied tallies to their workers through `to_workers`: one
    /// sender for each worker.
    pub fn new(
        kinds: &[OpKind],
        interval_s: f64,
        open_loop: bool,
        to_workers: Vec<Sender<Vec<LatencyTally>>>,
    ) -> Collector {
        Collector {
            lane_kinds: lane_kinds(kinds, open_loop),
            kind_count: kinds.len(),
            interval_s,
            open_intervals: BTreeMap::new(),
            next_intervals: vec![0; to_workers.len()],
            operations_by_thread: vec![0; to_workers.len()],
            to_workers,
            finished_intervals: vec![],
            reported_count: 0,
        }
    }

    /// Calls `on_interval` with each finished interval that was not reported before.
    pub fn report_intervals(&mut self, on_interval: OnInterval) {
        for finished in &self.finished_intervals[self.reported_count..] {
            on_interval(&finished.interval);
        }
        self.reported_count = self.finished_intervals.len();
    }

    /// Adds a worker's tally. Returns the number of intervals that this finished.
    pub fn add_tally(&mut self, message: IntervalTally) -> usize {
        let IntervalTally { thread, interval, next_interval, mut tally, cpu } = message;
        let new = || OpenInterval::new(self.lane_kinds.iter().map(|kind| kind.used));
        let open = self.open_intervals.entry(interval).or_insert_with(new);
        open.cpu += cpu;
        self.operations_by_thread[thread as usize] +=
            tally[..self.kind_count].iter().map(LatencyTally::count).sum::<u64>();
        for (lane, sum) in tally.iter_mut().zip(&mut open.lanes) {
            lane.add_to(sum);
            lane.clear();
        }
        // This fails if the worker has ended.
        let _ = self.to_workers[thread as usize].send(tally);
        self.next_intervals[thread as usize] = next_interval;
        self.finish_before(self.next_intervals.iter().copied().min().unwrap_or(0))
    }

    /// Finishes every interval before `limit`, including intervals without operations. Returns the number of finished
    /// intervals.
    fn finish_before(&mut self, limit: u32) -> usize {
        let count_before = self.finished_intervals.len();
        let open_end = self.open_intervals.last_key_value().map_or(0, |(&index, _)| index + 1);
        for index in count_before as u32..limit.min(open_end) {
            let empty = || OpenInterval::new(self.lane_kinds.iter().map(|_| false));
            let open = self.open_intervals.remove(&index).unwrap_or_else(empty);
            self.finished_intervals.push(self.finish(index, open));
        }
        self.finished_intervals.len() - count_before
    }

    /// Computes the figures of an interval to which no worker adds operations any more.
    fn finish(&self, index: u32, OpenInterval { lanes, cpu }: OpenInterval) -> FinishedInterval {
        let (mut all, mut bytes) = (empty_histogram(), 0);
        for (lane, kind) in lanes.iter().zip(&self.lane_kinds).take(self.kind_count) {
            all.add(lane).expect("all histograms of the engine have the same bounds");
            bytes += lane.len() * kind.bytes;
        }
        let [latency_p50_ns, latency_p99_ns, latency_p999_ns] = quantiles(&all, [0.5, 0.99, 0.999]);
        let mut interval = Interval {
            index,
            start_s: f64::from(index) * self.interval_s,
            length_s: self.interval_s,
            operations: all.len(),
            bytes,
            iops_per_s: 0.0,
            bandwidth_bytes_per_s: 0.0,
            latency_p50_ns,
            latency_p99_ns,
            latency_p999_ns,
        };
        interval.set_length(self.interval_s);
        FinishedInterval { interval, latencies: lanes.iter().map(to_sparse).collect(), cpu }
    }

    /// Assesses warm-up and steadiness from the operations per second of each interval.
    pub fn assess(&self) -> Assessment {
        let intervals = self.finished_intervals.iter().map(|finished| &finished.interval);
        // The last interval can be too short for a rate.
        let usable = intervals.filter(|interval| interval.length_s >= 0.5 * self.interval_s);
        steady::assess(&usable.map(|interval| interval.iops_per_s).collect::<Vec<_>>())
    }

    /// Whether all workers have ended.
    pub fn all_workers_ended(&self) -> bool {
        self.next_intervals.iter().all(|&interval| interval == u32::MAX)
    }
}

/// Sums the latencies of intervals, lane by lane.
pub fn sum_lanes(lane_count: usize, intervals: &[FinishedInterval]) -> Vec<Histogram<u64>> {
    let mut sums: Vec<_> = (0..lane_count).map(|_| empty_histogram()).collect();
    for (number, sum) in sums.iter_mut().enumerate() {
        let counts = intervals.iter().flat_map(|finished| &finished.latencies[number]);
        counts.for_each(|&(value, count)| sum.saturating_record_n(value, count));
    }
    sums
}

impl Interval {
    /// Sets the length of the interval and the rates that follow from it.
    pub fn set_length(&mut self, length_s: f64) {
        self.length_s = length_s;
        let rate = |amount: u64| if length_s > 0.0 { amount as f64 / length_s } else { 0.0 };
        self.iops_per_s = rate(self.operations);
        self.bandwidth_bytes_per_s = rate(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_together_claim_exactly_the_budget() {
        for (operations, threads) in [(1, 8), (7, 3), (100_000, 8)] {
            let budget = OperationBudget::new(Some(operations));
            let spent: u64 = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|_| {
                        scope.spawn(|| {
                            std::iter::repeat_with(|| budget.claim(threads)).take_while(|&n| n > 0).sum::<u64>()
                        })
                    })
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).sum()
            });
            assert_eq!(spent, operations);
        }
        assert_eq!(OperationBudget::new(None).claim(4), u64::MAX);
    }

    #[test]
    fn a_tally_is_sent_at_each_interval_and_the_deadline_ends_the_run() {
        let (to_collector, messages) = std::sync::mpsc::channel();
        let (_empty_sender, from_collector) = std::sync::mpsc::channel();
        let stop = AtomicBool::new(false);
        let budget = OperationBudget::new(None);
        let kinds = [OpKind { name: "read", bytes: 1, used: true }];
        // One tick is a nanosecond; the run starts at 1000 and its intervals are 100 long.
        let times = RunTimes { start: 1000, interval_length: 100, deadline: 1450, scale: TickScale::NANOSECONDS };
        let link = CollectorLink { thread: 3, to_collector, from_collector, stop: &stop };
        let mut recorder = Recorder::new(&kinds, times, Some(link), &budget, 1);
        assert_eq!(recorder.boundary, 1100);
        recorder.tally[0].record(5);
        assert!(recorder.end_interval(1130));
        assert_eq!(recorder.boundary, 1200);
        // An operation that took several intervals.
        assert!(recorder.end_interval(1420));
        assert_eq!(recorder.boundary, 1450);
        assert!(!recorder.end_interval(1450));
        recorder.close();
        let sent: Vec<(u32, u32, u64)> = messages
            .try_iter()
            .map(|IntervalTally { interval, next_interval, tally, .. }| (interval, next_interval, tally[0].count()))
            .collect();
        assert_eq!(sent, [(0, 1, 1), (1, 4, 0), (4, u32::MAX, 0)]);
    }

    const KINDS: [OpKind; 2] =
        [OpKind { name: "read", bytes: 4096, used: true }, OpKind { name: "sync", bytes: 0, used: true }];

    /// The message of a worker with reads and syncs of these latencies in nanoseconds.
    fn message(thread: u32, interval: u32, next_interval: u32, latencies: &[u64], syncs: &[u64]) -> IntervalTally {
        let mut tally = empty_tally(&KINDS);
        latencies.iter().for_each(|&ns| tally[0].record(ns));
        syncs.iter().for_each(|&ns| tally[1].record(ns));
        IntervalTally { thread, interval, next_interval, tally, cpu: CpuTime { user_ns: 10, system_ns: 20 } }
    }

    fn collector() -> Collector {
        let to_workers = (0..2).map(|_| std::sync::mpsc::channel().0).collect();
        Collector::new(&KINDS, 0.1, false, to_workers)
    }

    #[test]
    fn an_interval_is_finished_when_all_workers_have_passed_it() {
        let mut collector = collector();
        assert_eq!(collector.add_tally(message(0, 0, 1, &[1000; 30], &[])), 0);
        assert_eq!(collector.add_tally(message(0, 1, 2, &[1000; 10], &[])), 0);
        // One operation of the other worker begins in interval 0 and ends in interval 3.
        assert_eq!(collector.add_tally(message(1, 0, 3, &[3000], &[9000])), 2);
        let first = &collector.finished_intervals[0].interval;
        assert_eq!((first.index, first.operations, first.bytes), (0, 32, 31 * 4096));
        assert!((first.iops_per_s - 320.0).abs() < 1e-9);
        assert_eq!(first.latency_p50_ns, 1000);
        assert_eq!(collector.finished_intervals[0].cpu, CpuTime { user_ns: 20, system_ns: 40 });
        assert_eq!(collector.add_tally(message(0, 2, u32::MAX, &[1000], &[])), 1);
        assert_eq!(collector.add_tally(message(1, 3, u32::MAX, &[70_000_000], &[])), 1);
        assert_eq!(collector.finished_intervals.len(), 4);
        assert_eq!(collector.operations_by_thread, [41, 3]);
    }

    #[test]
    fn merging_tallies_keeps_every_latency() {
        let mut collector = collector();
        let mut expected = empty_histogram();
        for interval in 0..20 {
            for thread in 0..2 {
                // Latencies over seven decades, and one beyond the longest latency of a histogram.
                let latencies: Vec<u64> =
                    (0..500).map(|n| 17u64.pow(n % 6) * u64::from(n + 1 + interval)).chain([u64::MAX]).collect();
                latencies.iter().for_each(|&ns| expected.saturating_record(ns));
                let next_interval = if interval == 19 { u32::MAX } else { interval + 1 };
                collector.add_tally(message(thread, interval, next_interval, &latencies, &[5]));
            }
        }
        let sums = sum_lanes(2, &collector.finished_intervals);
        assert_eq!(sums[0], expected);
        assert_eq!(sums[0].len(), 2 * 20 * 501);
        assert_eq!(sums[1].len(), 40);
        assert_eq!(
            collector.finished_intervals.iter().map(|finished| finished.interval.operations).sum::<u64>(),
            2 * 20 * 502
        );
        // The sums of the last 5 intervals are complete too.
        assert_eq!(sum_lanes(2, &collector.finished_intervals[15..])[0].len(), 2 * 5 * 501);
    }

    #[test]
    fn an_interval_without_operations_is_in_the_series() {
        let mut collector = collector();
        collector.add_tally(message(0, 0, 5, &[1], &[]));
        collector.add_tally(message(1, 0, 5, &[1], &[]));
        collector.add_tally(message(0, 5, u32::MAX, &[1], &[]));
        collector.add_tally(message(1, 5, u32::MAX, &[], &[]));
        let operations: Vec<u64> =
            collector.finished_intervals.iter().map(|finished| finished.interval.operations).collect();
        assert_eq!(operations, [2, 0, 0, 0, 0, 1]);
    }
}
