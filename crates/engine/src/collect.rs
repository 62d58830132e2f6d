//! From the tallies of all workers to the series of intervals.

use super::histogram::{Sparse, histogram, quantiles, sparse};
use super::series::Stretch;
use super::steady::{self, Assessment};
use super::tally::{Counted, Cpu, Kind, Tally};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

/// One interval of the series, all threads and kinds of operations together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// An interval with all that a later choice of the warm-up needs.
#[derive(Debug)]
pub struct Finished {
    /// Its figures.
    pub interval: Interval,
    raw: Vec<Sparse>,
    corrected: Vec<Sparse>,
    /// CPU time of the workers in it.
    pub cpu: Cpu,
}

impl Finished {
    /// The counts of the interval, in the form that a series merges.
    pub fn stretch(&self) -> Stretch<'_> {
        Stretch {
            start_s: self.interval.start_s,
            length_s: self.interval.length_s,
            operations: self.interval.operations,
            bytes: self.interval.bytes,
            latencies: &self.raw,
        }
    }
}

/// An interval that some worker may still add to.
struct Growing {
    raw: Vec<Histogram<u64>>,
    corrected: Vec<Histogram<u64>>,
    cpu: Cpu,
}

impl Growing {
    /// Histograms of the kinds in use. Others take hardly any memory: nothing will be counted in them.
    fn new(kinds: &[Kind], raw: bool, corrected: bool) -> Growing {
        let small = || Histogram::new_with_bounds(1, 2, 0).expect("the bounds are sound");
        let [raw, corrected] = [raw, corrected].map(|counted| {
            kinds.iter().map(|kind| if counted && kind.used { histogram() } else { small() }).collect()
        });
        Growing { raw, corrected, cpu: Cpu::default() }
    }
}

/// Collects tallies. An interval is finished when every worker is beyond it: a worker that hangs in one
/// operation holds the series up, never the other workers.
pub struct Collector<'a> {
    kinds: &'a [Kind],
    interval_s: f64,
    open_loop: bool,
    growing: BTreeMap<u32, Growing>,
    next: Vec<u32>,
    back: Vec<Sender<Box<Tally>>>,
    /// Intervals that are over, in order.
    pub finished: Vec<Finished>,
    /// Operations of each worker.
    pub by_thread: Vec<u64>,
}

impl<'a> Collector<'a> {
    /// A collector; `back` takes emptied tallies to their workers.
    pub fn new(
        kinds: &'a [Kind],
        interval_s: f64,
        open_loop: bool,
        back: Vec<Sender<Box<Tally>>>,
    ) -> Collector<'a> {
        let threads = back.len();
        Collector {
            kinds,
            interval_s,
            open_loop,
            growing: BTreeMap::new(),
            next: vec![0; threads],
            back,
            finished: vec![],
            by_thread: vec![0; threads],
        }
    }

    /// Takes in what a worker counted; gives the number of intervals that this finished.
    pub fn take(&mut self, counted: Counted) -> usize {
        let Counted { thread, interval, next, mut tally, cpu } = counted;
        let new = || Growing::new(self.kinds, true, self.open_loop);
        let growing = self.growing.entry(interval).or_insert_with(new);
        growing.cpu.user_ns += cpu.user_ns;
        growing.cpu.system_ns += cpu.system_ns;
        for (number, lane) in tally.lanes.iter().enumerate() {
            self.by_thread[thread as usize] += lane.raw.count();
            lane.raw.add_to(&mut growing.raw[number]);
            lane.corrected.add_to(&mut growing.corrected[number]);
        }
        tally.clear();
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
            let growing = self.growing.remove(&index);
            let growing = growing.unwrap_or_else(|| Growing::new(self.kinds, false, false));
            self.finished.push(self.finish(index, growing));
        }
        self.finished.len() - before
    }

    fn finish(&self, index: u32, Growing { raw, corrected, cpu }: Growing) -> Finished {
        let mut all = histogram();
        for part in &raw {
            all.add(part).expect("all histograms of the engine have the same bounds");
        }
        let bytes = raw.iter().zip(self.kinds).map(|(part, kind)| part.len() * kind.bytes).sum();
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
        let [raw, corrected] = [raw, corrected].map(|all| all.iter().map(sparse).collect());
        Finished { interval, raw, corrected, cpu }
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

/// Raw and corrected latencies of each kind.
pub type Sums = Vec<(Histogram<u64>, Histogram<u64>)>;

/// Sums intervals up.
pub fn sum(kinds: usize, intervals: &[Finished]) -> Sums {
    let mut sums: Sums = (0..kinds).map(|_| (histogram(), histogram())).collect();
    for one in intervals {
        for (number, sum) in sums.iter_mut().enumerate() {
            for (histogram, counts) in [(&mut sum.0, &one.raw[number]), (&mut sum.1, &one.corrected[number])]
            {
                counts.iter().for_each(|&(value, count)| histogram.saturating_record_n(value, count));
            }
        }
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

    const KINDS: [Kind; 2] =
        [Kind { name: "read", bytes: 4096, used: true }, Kind { name: "sync", bytes: 0, used: true }];

    fn counted(thread: u32, interval: u32, next: u32, latencies: &[u64], syncs: &[u64]) -> Counted {
        let mut tally = Tally::new(&KINDS, false);
        latencies.iter().for_each(|&ns| tally.lanes[0].raw.record(ns));
        syncs.iter().for_each(|&ns| tally.lanes[1].raw.record(ns));
        Counted { thread, interval, next, tally, cpu: Cpu { user_ns: 10, system_ns: 20 } }
    }

    fn collector() -> Collector<'static> {
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
        assert_eq!(sums[0].0, expected);
        assert_eq!(sums[0].0.len(), 2 * 20 * 501);
        assert_eq!(sums[1].0.len(), 40);
        assert_eq!(collector.finished.iter().map(|one| one.interval.operations).sum::<u64>(), 2 * 20 * 502);
        // A cut leaves the others whole.
        assert_eq!(sum(2, &collector.finished[15..])[0].0.len(), 2 * 5 * 501);
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
