//! From the tallies of all workers to the series of intervals.

use super::histogram::Latencies;
use super::histogram::{Sparse, histogram, quantiles, sparse};
use super::series::Stretch;
use super::steady::{self, Assessment};
use super::tally::{Counted, Kind, lanes};
use fsarena_sys::cpu::Cpu;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::{collections::BTreeMap, sync::mpsc::Sender};

/// One interval of the series, all threads and kinds of operations together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// Its number, from 0.
    pub index: u32,
    /// When it began, in seconds after the start.
    pub start_s: f64,
    /// How long it is, in seconds. Only the last is shorter.
    pub length_s: f64,
    /// Operations that ended in it.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Operations a second.
    pub iops_per_s: f64,
    /// Bytes a second.
    pub bandwidth_bytes_per_s: f64,
    /// Median latency in nanoseconds; 0 where nothing ended.
    pub latency_p50_ns: u64,
    /// 99th percentile of latency in nanoseconds.
    pub latency_p99_ns: u64,
    /// 99.9th percentile of latency in nanoseconds.
    pub latency_p999_ns: u64,
}

/// The callback that receives each interval as soon as it is over.
pub type Tell<'a> = &'a mut dyn FnMut(&Interval);

/// An interval with all that a later choice of the warm-up needs.
#[derive(Debug)]
pub struct Finished {
    /// Its figures.
    pub interval: Interval,
    /// The latencies of each lane.
    latencies: Vec<Sparse>,
    /// CPU time of the workers in it.
    pub cpu: Cpu,
}

impl Finished {
    /// The counts of the interval, in the form that a series merges: the first `kinds` lanes.
    pub fn stretch(&self, kinds: usize) -> Stretch<'_> {
        Stretch {
            start_s: self.interval.start_s,
            length_s: self.interval.length_s,
            operations: self.interval.operations,
            bytes: self.interval.bytes,
            latencies: &self.latencies[..kinds],
        }
    }
}

/// An interval that some worker may still add to.
struct Growing {
    lanes: Vec<Histogram<u64>>,
    cpu: Cpu,
}

impl Growing {
    /// Nothing yet; a lane takes hardly any memory where nothing will be counted in it.
    fn new(used: impl Iterator<Item = bool>) -> Growing {
        let unused = || Histogram::new_with_bounds(1, 2, 0).expect("the bounds are sound");
        let lanes = used.map(|used| if used { histogram() } else { unused() }).collect();
        Growing { lanes, cpu: Cpu::default() }
    }
}

/// Collects tallies. An interval is finished when every worker is beyond it: a worker that hangs in one
/// operation holds the series up, never the other workers.
pub struct Collector {
    /// The kind of each lane; those from intended starts are not counted as operations.
    lanes: Vec<Kind>,
    kinds: usize,
    interval_s: f64,
    growing: BTreeMap<u32, Growing>,
    next: Vec<u32>,
    back: Vec<Sender<Vec<Latencies>>>,
    /// Intervals that are over, in order.
    pub finished: Vec<Finished>,
    /// Operations of each worker.
    pub by_thread: Vec<u64>,
}

impl Collector {
    /// A collector; `back` takes emptied tallies to their workers.
    pub fn new(
        kinds: &[Kind],
        interval_s: f64,
        open_loop: bool,
        back: Vec<Sender<Vec<Latencies>>>,
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

    /// Takes in what a worker counted; gives the number of intervals that this finished.
    pub fn take(&mut self, counted: Counted) -> usize {
        let Counted { thread, interval, next, mut tally, cpu } = counted;
        let new = || Growing::new(self.lanes.iter().map(|kind| kind.used));
        let growing = self.growing.entry(interval).or_insert_with(new);
        growing.cpu += cpu;
        self.by_thread[thread as usize] += tally[..self.kinds].iter().map(Latencies::count).sum::<u64>();
        for (lane, sum) in tally.iter_mut().zip(&mut growing.lanes) {
            lane.add_to(sum);
            lane.clear();
        }
        // A worker that has ended takes nothing back.
        let _ = self.back[thread as usize].send(tally);
        self.next[thread as usize] = next;
        self.finish_before(self.next.iter().copied().min().unwrap_or(0))
    }

    /// Finishes every interval before one; intervals in which no worker counted anything are in the series
    /// too, with nothing in them.
    fn finish_before(&mut self, limit: u32) -> usize {
        let before = self.finished.len();
        let last = self.growing.last_key_value().map_or(0, |(&index, _)| index + 1);
        for index in before as u32..limit.min(last) {
            let empty = || Growing::new(self.lanes.iter().map(|_| false));
            let growing = self.growing.remove(&index).unwrap_or_else(empty);
            self.finished.push(self.finish(index, growing));
        }
        self.finished.len() - before
    }

    fn finish(&self, index: u32, Growing { lanes, cpu }: Growing) -> Finished {
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
        interval.last(self.interval_s);
        Finished { interval, latencies: lanes.iter().map(sparse).collect(), cpu }
    }

    /// What the series of operations a second says of warm-up and steadiness.
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

/// Sums intervals up, lane by lane.
pub fn sum(lanes: usize, intervals: &[Finished]) -> Vec<Histogram<u64>> {
    let mut sums: Vec<_> = (0..lanes).map(|_| histogram()).collect();
    for (number, sum) in sums.iter_mut().enumerate() {
        let counts = intervals.iter().flat_map(|one| &one.latencies[number]);
        counts.for_each(|&(value, count)| sum.saturating_record_n(value, count));
    }
    sums
}

impl Interval {
    /// Sets the length, and the rates that follow from it.
    pub fn last(&mut self, length_s: f64) {
        self.length_s = length_s;
        let rate = |amount: u64| if length_s > 0.0 { amount as f64 / length_s } else { 0.0 };
        self.iops_per_s = rate(self.operations);
        self.bandwidth_bytes_per_s = rate(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::tally;

    const KINDS: [Kind; 2] =
        [Kind { name: "read", bytes: 4096, used: true }, Kind { name: "sync", bytes: 0, used: true }];

    fn counted(thread: u32, interval: u32, next: u32, latencies: &[u64], syncs: &[u64]) -> Counted {
        let mut tally = tally(&KINDS);
        latencies.iter().for_each(|&ns| tally[0].record(ns));
        syncs.iter().for_each(|&ns| tally[1].record(ns));
        Counted { thread, interval, next, tally, cpu: Cpu { user_ns: 10, system_ns: 20 } }
    }

    fn collector() -> Collector {
        let back = (0..2).map(|_| std::sync::mpsc::channel().0).collect();
        Collector::new(&KINDS, 0.1, false, back)
    }

    #[test]
    fn an_interval_is_finished_when_all_workers_are_beyond_it() {
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
    fn merging_loses_nothing() {
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
        let sums = sum(2, &collector.finished);
        assert_eq!(sums[0], expected);
        assert_eq!(sums[0].len(), 2 * 20 * 501);
        assert_eq!(sums[1].len(), 40);
        assert_eq!(collector.finished.iter().map(|one| one.interval.operations).sum::<u64>(), 2 * 20 * 502);
        // A cut leaves the others whole.
        assert_eq!(sum(2, &collector.finished[15..])[0].len(), 2 * 5 * 501);
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
