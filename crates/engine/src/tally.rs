//! The tallies in which workers count operations, and the collector that merges the tallies of all workers into intervals.
//!
//! Each worker owns its tally. When an interval is over, the worker sends the tally to the collector and continues with an
//! empty one that the collector returned. A worker never waits and shares no memory while it counts. It compares the time
//! stamp of every operation with the end of the interval.

use crate::histogram::{LatencyTally, SparseHistogram, histogram, quantiles, sparse};
use crate::steady::{self, Assessment};
use crate::{clock::Scale, series::SeriesInterval};
use fsarena_sys::cpu::Cpu;
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

/// The kind of each lane of a tally, which counts one kind of operation. An open loop has a second lane for each kind, with
/// latencies from the intended start.
pub fn lanes(kinds: &[OpKind], open_loop: bool) -> Vec<OpKind> {
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
    pub next: u32,
    /// The latencies of each lane; see [`lanes`].
    pub tally: Vec<LatencyTally>,
    /// CPU time since the last tally.
    pub cpu: Cpu,
}

/// The times of a run, in ticks of its clock.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The start.
    pub start: u64,
    /// Length of an interval.
    pub interval: u64,
    /// The end; `u64::MAX` if time does not bound the run.
    pub deadline: u64,
    /// Converts ticks to nanoseconds.
    pub scale: Scale,
}

/// A worker's connection to the collector.
pub struct CollectorLink<'a> {
    /// The number of the worker.
    pub thread: u32,
    /// Sends full tallies to the collector.
    pub out: Sender<IntervalTally>,
    /// Receives emptied tallies from the collector.
    pub back: Receiver<Vec<LatencyTally>>,
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
    pub times: Times,
    interval: u32,
    kinds: &'a [OpKind],
    link: Option<CollectorLink<'a>>,
    budget: &'a Budget,
    threads: u32,
    /// Whether the workers occupy all processors, so that spinning would disturb other workers.
    pub crowded: bool,
    cpu: Cpu,
}

impl<'a> Recorder<'a> {
    /// Makes the recorder of one of `threads` workers, with a lane for each kind.
    pub fn new(
        kinds: &'a [OpKind],
        times: Times,
        link: Option<CollectorLink<'a>>,
        budget: &'a Budget,
        threads: u32,
    ) -> Recorder<'a> {
        let boundary = times.start.saturating_add(times.interval).min(times.deadline);
        let crowded = std::thread::available_parallelism().map_or(1, |n| n.get()) <= threads as usize;
        let cpu = Cpu::of_this_thread();
        let tally = empty_tally(kinds);
        Recorder { tally, boundary, times, interval: 0, kinds, link, budget, threads, crowded, cpu }
    }

    /// Claims operations from the budget. Returns the number that the worker may perform; 0 if none are left.
    pub fn claim(&self) -> u64 {
        self.budget.claim(self.threads)
    }

    /// Counts an operation, in an open loop also from its intended start. Returns whether the worker continues.
    #[inline(always)]
    pub fn count(&mut self, lane: usize, start: u64, intended: Option<u64>, end: u64) -> bool {
        let goes_on = end < self.boundary || self.end_interval(end);
        self.tally[lane].record(self.times.scale.ns(end.saturating_sub(start)));
        if let Some(intended) = intended {
            self.count_from_intended(lane, intended, end);
        }
        goes_on
    }

    /// Counts an operation of an open loop from its intended start.
    #[inline(always)]
    pub fn count_from_intended(&mut self, lane: usize, intended: u64, end: u64) {
        let behind = self.tally.len() / 2 + lane;
        self.tally[behind].record(self.times.scale.ns(end.saturating_sub(intended)));
    }

    /// Sends the tally to the collector at the end of an interval. At the end of the run it returns false and does not send
    /// the tally yet, because the last operation still has to be counted.
    #[cold]
    #[inline(never)]
    pub fn end_interval(&mut self, now: u64) -> bool {
        let stopped = self.link.as_ref().is_some_and(|link| link.stop.load(Ordering::Relaxed));
        if stopped || now >= self.times.deadline {
            return false;
        }
        let next = ((now - self.times.start) / self.times.interval) as u32;
        self.send_tally(next);
        let boundary = self.times.start + (u64::from(next) + 1) * self.times.interval;
        self.boundary = boundary.min(self.times.deadline);
        true
    }

    /// Sends the last tally.
    pub fn close(&mut self) {
        self.send_tally(u32::MAX);
    }

    fn send_tally(&mut self, next: u32) {
        let Some(link) = &self.link else { return };
        let cpu = Cpu::of_this_thread();
        // If the collector has not returned a tally yet, allocate one instead of waiting.
        let empty = link.back.try_recv().unwrap_or_else(|_| empty_tally(self.kinds));
        let tally = std::mem::replace(&mut self.tally, empty);
        let Recorder { interval, cpu: before, .. } = *self;
        let _ = link.out.send(IntervalTally {
            thread: link.thread,
            interval,
            next,
            tally,
            cpu: cpu.since(before),
        });
        (self.cpu, self.interval) = (cpu, next);
    }
}

/// The number of operations that all workers together may still perform. Workers claim several at once, so that they rarely
/// access the shared counter. The total is exact.
#[derive(Debug)]
pub struct Budget(Option<AtomicU64>);

impl Budget {
    /// Makes a budget of this number of operations; unlimited if None.
    pub fn new(operations: Option<u64>) -> Budget {
        Budget(operations.map(AtomicU64::new))
    }

    fn claim(&self, threads: u32) -> u64 {
        let Some(left) = &self.0 else { return u64::MAX };
        let share = |left: u64| (left / (4 * u64::from(threads))).clamp(1, 1024).min(left);
        match left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left > 0).then(|| left - share(left)))
        {
            Ok(before) => share(before),
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
    /// Its length in seconds. Only the last interval is shorter.
    pub length_s: f64,
    /// Operations that ended in it.
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
    pub cpu: Cpu,
}

impl FinishedInterval {
    /// The counts of the first `kinds` lanes, in the form that a series merges.
    pub fn stretch(&self, kinds: usize) -> SeriesInterval<'_> {
        SeriesInterval {
            start_s: self.interval.start_s,
            length_s: self.interval.length_s,
            operations: self.interval.operations,
            bytes: self.interval.bytes,
            latencies: &self.latencies[..kinds],
        }
    }
}

/// An interval to which workers may still add operations.
struct OpenInterval {
    lanes: Vec<Histogram<u64>>,
    cpu: Cpu,
}

impl OpenInterval {
    /// Makes an empty interval. An unused lane takes hardly any memory.
    fn new(used: impl Iterator<Item = bool>) -> OpenInterval {
        let unused = || Histogram::new_with_bounds(1, 2, 0).expect("the bounds are sound");
        let lanes = used.map(|used| if used { histogram() } else { unused() }).collect();
        OpenInterval { lanes, cpu: Cpu::default() }
    }
}

/// Merges the tallies of all workers. An interval is finished when every worker has passed it. A worker that hangs in one
/// operation delays the series, but not the other workers.
pub struct Collector {
    /// The kind of each lane. Lanes of latencies from intended starts do not count as operations.
    lanes: Vec<OpKind>,
    kinds: usize,
    interval_s: f64,
    growing: BTreeMap<u32, OpenInterval>,
    next: Vec<u32>,
    back: Vec<Sender<Vec<LatencyTally>>>,
    /// Intervals that are over, in order.
    pub finished: Vec<FinishedInterval>,
    /// Operations of each worker.
    pub by_thread: Vec<u64>,
}

impl Collector {
    /// Makes a collector that returns emptied tallies to their workers through `back`.
    pub fn new(
        kinds: &[OpKind],
        interval_s: f64,
        open_loop: bool,
        back: Vec<Sender<Vec<LatencyTally>>>,
    ) -> Collector {
        Collector {
            lanes: lanes(kinds, open_loop),
            kinds: kinds.len(),
            interval_s,
            growing: BTreeMap::new(),
            next: vec![0; back.len()],
            by_thread: vec![0; back.len()],
            back,
            finished: vec![],
        }
    }

    /// Adds a worker's tally. Returns the number of intervals that this finished.
    pub fn take(&mut self, counted: IntervalTally) -> usize {
        let IntervalTally { thread, interval, next, mut tally, cpu } = counted;
        let new = || OpenInterval::new(self.lanes.iter().map(|kind| kind.used));
        let growing = self.growing.entry(interval).or_insert_with(new);
        growing.cpu += cpu;
        self.by_thread[thread as usize] += tally[..self.kinds].iter().map(LatencyTally::count).sum::<u64>();
        for (lane, sum) in tally.iter_mut().zip(&mut growing.lanes) {
            lane.add_to(sum);
            lane.clear();
        }
        // A worker that has ended takes nothing back.
        let _ = self.back[thread as usize].send(tally);
        self.next[thread as usize] = next;
        self.finish_before(self.next.iter().copied().min().unwrap_or(0))
    }

    /// Finishes every interval before `limit`, including intervals without operations.
    fn finish_before(&mut self, limit: u32) -> usize {
        let before = self.finished.len();
        let last = self.growing.last_key_value().map_or(0, |(&index, _)| index + 1);
        for index in before as u32..limit.min(last) {
            let empty = || OpenInterval::new(self.lanes.iter().map(|_| false));
            let growing = self.growing.remove(&index).unwrap_or_else(empty);
            self.finished.push(self.finish(index, growing));
        }
        self.finished.len() - before
    }

    fn finish(&self, index: u32, OpenInterval { lanes, cpu }: OpenInterval) -> FinishedInterval {
        let (mut all, mut bytes) = (histogram(), 0);
        for (lane, kind) in lanes.iter().zip(&self.lanes).take(self.kinds) {
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
        FinishedInterval { interval, latencies: lanes.iter().map(sparse).collect(), cpu }
    }

    /// Assesses warm-up and steadiness from the operations per second of each interval.
    pub fn assess(&self) -> Assessment {
        let intervals = self.finished.iter().map(|one| &one.interval);
        let whole = intervals.filter(|one| one.length_s >= 0.5 * self.interval_s);
        steady::assess(&whole.map(|one| one.iops_per_s).collect::<Vec<_>>())
    }

    /// Whether all workers have ended.
    pub fn ended(&self) -> bool {
        self.next.iter().all(|&next| next == u32::MAX)
    }
}

/// Sums the latencies of intervals, lane by lane.
pub fn sum_lanes(lanes: usize, intervals: &[FinishedInterval]) -> Vec<Histogram<u64>> {
    let mut sums: Vec<_> = (0..lanes).map(|_| histogram()).collect();
    for (number, sum) in sums.iter_mut().enumerate() {
        let counts = intervals.iter().flat_map(|one| &one.latencies[number]);
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
            let budget = Budget::new(Some(operations));
            let spent: u64 = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|_| {
                        scope.spawn(|| {
                            std::iter::repeat_with(|| budget.claim(threads))
                                .take_while(|&n| n > 0)
                                .sum::<u64>()
                        })
                    })
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).sum()
            });
            assert_eq!(spent, operations);
        }
        assert_eq!(Budget::new(None).claim(4), u64::MAX);
    }

    #[test]
    fn a_tally_is_sent_at_each_interval_and_the_deadline_ends_the_run() {
        let (out, messages) = std::sync::mpsc::channel();
        let (_give, back) = std::sync::mpsc::channel();
        let stop = AtomicBool::new(false);
        let budget = Budget::new(None);
        let kinds = [OpKind { name: "read", bytes: 1, used: true }];
        // One tick is a nanosecond of the kernel's clock; the start is at 1000, intervals are 100 long.

        let times = Times { start: 1000, interval: 100, deadline: 1450, scale: Scale::NANOSECONDS };
        let link = CollectorLink { thread: 3, out, back, stop: &stop };
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
            .map(|IntervalTally { interval, next, tally, .. }| (interval, next, tally[0].count()))
            .collect();
        assert_eq!(sent, [(0, 1, 1), (1, 4, 0), (4, u32::MAX, 0)]);
    }

    const KINDS: [OpKind; 2] =
        [OpKind { name: "read", bytes: 4096, used: true }, OpKind { name: "sync", bytes: 0, used: true }];

    fn counted(thread: u32, interval: u32, next: u32, latencies: &[u64], syncs: &[u64]) -> IntervalTally {
        let mut tally = empty_tally(&KINDS);
        latencies.iter().for_each(|&ns| tally[0].record(ns));
        syncs.iter().for_each(|&ns| tally[1].record(ns));
        IntervalTally { thread, interval, next, tally, cpu: Cpu { user_ns: 10, system_ns: 20 } }
    }

    fn collector() -> Collector {
        let back = (0..2).map(|_| std::sync::mpsc::channel().0).collect();
        Collector::new(&KINDS, 0.1, false, back)
    }

    #[test]
    fn an_interval_is_finished_when_all_workers_have_passed_it() {
        let mut collector = collector();
        assert_eq!(collector.take(counted(0, 0, 1, &[1000; 30], &[])), 0);
        assert_eq!(collector.take(counted(0, 1, 2, &[1000; 10], &[])), 0);
        // The other worker hung in one operation from interval 0 to 3.
        assert_eq!(collector.take(counted(1, 0, 3, &[3000], &[9000])), 2);
        let first = &collector.finished[0].interval;
        assert_eq!((first.index, first.operations, first.bytes), (0, 32, 31 * 4096));
        assert!((first.iops_per_s - 320.0).abs() < 1e-9);
        assert_eq!(first.latency_p50_ns, 1000);
        assert_eq!(collector.finished[0].cpu, Cpu { user_ns: 20, system_ns: 40 });
        assert_eq!(collector.take(counted(0, 2, u32::MAX, &[1000], &[])), 1);
        assert_eq!(collector.take(counted(1, 3, u32::MAX, &[70_000_000], &[])), 1);
        assert_eq!(collector.finished.len(), 4);
        assert_eq!(collector.by_thread, [41, 3]);
    }

    #[test]
    fn merging_tallies_keeps_every_latency() {
        let mut collector = collector();
        let mut expected = histogram();
        for interval in 0..20 {
            for thread in 0..2 {
                // Latencies over seven decades, and one beyond `LONGEST_NS`.
                let latencies: Vec<u64> = (0..500)
                    .map(|n| 17u64.pow(n % 6) * u64::from(n + 1 + interval))
                    .chain([u64::MAX])
                    .collect();
                latencies.iter().for_each(|&ns| expected.saturating_record(ns));
                let next = if interval == 19 { u32::MAX } else { interval + 1 };
                collector.take(counted(thread, interval, next, &latencies, &[5]));
            }
        }
        let sums = sum_lanes(2, &collector.finished);
        assert_eq!(sums[0], expected);
        assert_eq!(sums[0].len(), 2 * 20 * 501);
        assert_eq!(sums[1].len(), 40);
        assert_eq!(collector.finished.iter().map(|one| one.interval.operations).sum::<u64>(), 2 * 20 * 502);
        // Without the first 15 intervals, the others are complete.
        assert_eq!(sum_lanes(2, &collector.finished[15..])[0].len(), 2 * 5 * 501);
    }

    #[test]
    fn an_interval_without_operations_is_in_the_series() {
        let mut collector = collector();
        collector.take(counted(0, 0, 5, &[1], &[]));
        collector.take(counted(1, 0, 5, &[1], &[]));
        collector.take(counted(0, 5, u32::MAX, &[1], &[]));
        collector.take(counted(1, 5, u32::MAX, &[], &[]));
        let operations: Vec<u64> = collector.finished.iter().map(|one| one.interval.operations).collect();
        assert_eq!(operations, [2, 0, 0, 0, 0, 1]);
    }
}
