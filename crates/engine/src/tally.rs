//! What a worker counts, and how it is handed over without stopping the worker.
//!
//! Each worker owns the tally it counts into. When an interval is over it sends that tally away and takes
//! an empty one that came back; it never waits and shares no memory while it counts. Whether an interval is
//! over it sees from the stamp it has anyway.

use super::{clock::Scale, histogram::Latencies};
use fsarena_sys::cpu::Cpu;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// A kind of operation with a separate count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its name in readings.
    pub name: &'static str,
    /// Bytes that one operation moves.
    pub bytes: u64,
    /// Whether this run has such operations.
    pub used: bool,
}

/// The kind of each lane of a tally: in an open loop all kinds once more, for latencies from the intended start.
pub fn lanes(kinds: &[Kind], open_loop: bool) -> Vec<Kind> {
    kinds.repeat(if open_loop { 2 } else { 1 })
}

/// An empty tally: the latencies of each of these kinds.
pub fn tally(kinds: &[Kind]) -> Vec<Latencies> {
    kinds.iter().map(|kind| Latencies::new(kind.used)).collect()
}

/// What a worker counted in one interval, on its way to the collector.
pub struct Counted {
    /// The worker.
    pub thread: u32,
    /// The interval that the tally belongs to.
    pub interval: u32,
    /// The interval in which the worker continues; `u32::MAX` if it has ended.
    pub next: u32,
    /// The counts: the latencies of each [`Kind`] from start to end; in an open loop behind them those from the intended
    /// start.
    pub tally: Vec<Latencies>,
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
    /// The end, `u64::MAX` where time does not bound the run.
    pub deadline: u64,
    /// Turns ticks into nanoseconds.
    pub scale: Scale,
}

/// A worker's connection to the collector.
pub struct Link<'a> {
    /// The number of the worker.
    pub thread: u32,
    /// To the collector.
    pub out: Sender<Counted>,
    /// Emptied tallies from it.
    pub back: Receiver<Vec<Latencies>>,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
}

/// Where a worker counts and learns when to stop.
pub struct Recorder<'a> {
    /// The counts of the current interval.
    pub tally: Vec<Latencies>,
    /// The next moment at which [`Recorder::turn`] must be called, in ticks.
    pub boundary: u64,
    /// The times of the run.
    pub times: Times,
    interval: u32,
    kinds: &'a [Kind],
    link: Option<Link<'a>>,
    budget: &'a Budget,
    threads: u32,
    /// Whether there are more workers than processors to spare, so that spinning would disturb others.
    pub crowded: bool,
    cpu: Cpu,
}

impl<'a> Recorder<'a> {
    /// A recorder for one worker of several, with a lane for each kind.
    pub fn new(
        kinds: &'a [Kind],
        times: Times,
        link: Option<Link<'a>>,
        budget: &'a Budget,
        threads: u32,
    ) -> Recorder<'a> {
        let boundary = times.start.saturating_add(times.interval).min(times.deadline);
        let crowded = std::thread::available_parallelism().map_or(1, |n| n.get()) <= threads as usize;
        let cpu = Cpu::of_this_thread();
        let tally = tally(kinds);
        Recorder { tally, boundary, times, interval: 0, kinds, link, budget, threads, crowded, cpu }
    }

    /// Operations that the worker may do before it asks again; 0 where there are none left.
    pub fn claim(&self) -> u64 {
        self.budget.claim(self.threads)
    }

    /// Counts an operation, from its intended start too in an open loop. Returns whether the worker goes on.
    #[inline(always)]
    pub fn count(&mut self, lane: usize, start: u64, intended: Option<u64>, end: u64) -> bool {
        let goes_on = end < self.boundary || self.turn(end);
        self.tally[lane].record(self.times.scale.ns(end.saturating_sub(start)));
        if let Some(intended) = intended {
            self.correct(lane, intended, end);
        }
        goes_on
    }

    /// Counts an operation of an open loop from its intended start.
    #[inline(always)]
    pub fn correct(&mut self, lane: usize, intended: u64, end: u64) {
        let behind = self.tally.len() / 2 + lane;
        self.tally[behind].record(self.times.scale.ns(end.saturating_sub(intended)));
    }

    /// Hands the tally over when the boundary is reached, and says whether the worker goes on. Where it
    /// does not, nothing is handed over: the operation that reached the end still counts.
    #[cold]
    #[inline(never)]
    pub fn turn(&mut self, now: u64) -> bool {
        let stopped = self.link.as_ref().is_some_and(|link| link.stop.load(Ordering::Relaxed));
        if stopped || now >= self.times.deadline {
            return false;
        }
        let next = ((now - self.times.start) / self.times.interval) as u32;
        self.hand_over(next);
        let boundary = self.times.start + (u64::from(next) + 1) * self.times.interval;
        self.boundary = boundary.min(self.times.deadline);
        true
    }

    /// Hands over what is left at the end.
    pub fn close(&mut self) {
        self.hand_over(u32::MAX);
    }

    fn hand_over(&mut self, next: u32) {
        let Some(link) = &self.link else { return };
        let cpu = Cpu::of_this_thread();
        // The collector is rarely a whole interval behind; then a new tally is better than waiting.
        let empty = link.back.try_recv().unwrap_or_else(|_| tally(self.kinds));
        let tally = std::mem::replace(&mut self.tally, empty);
        let Recorder { interval, cpu: before, .. } = *self;
        let _ = link.out.send(Counted { thread: link.thread, interval, next, tally, cpu: cpu.since(before) });
        (self.cpu, self.interval) = (cpu, next);
    }
}

/// Operations that all workers may do together. Workers claim them by the handful, so that the counter is
/// out of the hot loops, and the sum is exact.
#[derive(Debug)]
pub struct Budget(Option<AtomicU64>);

impl Budget {
    /// So many operations, or as many as time allows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_exactly() {
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
    fn a_turn_hands_over_and_the_deadline_ends() {
        let (out, messages) = std::sync::mpsc::channel();
        let (_give, back) = std::sync::mpsc::channel();
        let stop = AtomicBool::new(false);
        let budget = Budget::new(None);
        let kinds = [Kind { name: "read", bytes: 1, used: true }];
        // One tick is a nanosecond of the kernel's clock; the start is at 1000, intervals are 100 long.

        let times = Times { start: 1000, interval: 100, deadline: 1450, scale: Scale::NANOSECONDS };
        let link = Link { thread: 3, out, back, stop: &stop };
        let mut recorder = Recorder::new(&kinds, times, Some(link), &budget, 1);
        assert_eq!(recorder.boundary, 1100);
        recorder.tally[0].record(5);
        assert!(recorder.turn(1130));
        assert_eq!(recorder.boundary, 1200);
        // An operation that took several intervals.
        assert!(recorder.turn(1420));
        assert_eq!(recorder.boundary, 1450);
        assert!(!recorder.turn(1450));
        recorder.close();
        let told: Vec<(u32, u32, u64)> = messages
            .try_iter()
            .map(|Counted { interval, next, tally, .. }| (interval, next, tally[0].count()))
            .collect();
        assert_eq!(told, [(0, 1, 1), (1, 4, 0), (4, u32::MAX, 0)]);
    }
}
