//! Operations that are more than one system call: a request to a cache, a turn of a personality's loop.
//!
//! The same workers, tallies and schedules as for blocks of files. What an operation is, its actor says.

use super::calibrate::Calibration;
use super::clock::{self, Clock};
use super::drive::{self, Drive, Work};
use super::error::Error;
use super::job::{Bound, Rate, Warmup};
use super::outcome::{Outcome, Shape};
use super::pace;
use super::schedule::Schedule;
use super::tally::{Kind, Recorder};
use std::time::Instant;

/// Draws taken to find what drawing costs.
const DRAWS: u32 = 2_000;

/// A load with custom operations.
pub trait Actor: Sync {
    /// The private state of a thread.
    type Own;
    /// One operation, drawn but not yet started.
    type Request;

    /// Creates the private state of a thread.
    ///
    /// # Errors
    /// If the thread cannot get a resource it requires.
    fn own(&self, thread: u32) -> Result<Self::Own, Error>;

    /// Draws the next operation. The engine measures this cost separately, as the generator's.
    fn draw(&self, own: &mut Self::Own) -> Self::Request;

    /// Performs an operation and returns its kind: an index into [`Acting::kinds`].
    ///
    /// # Errors
    /// The first that fails ends the load.
    fn act(&self, own: &mut Self::Own, request: Self::Request) -> Result<usize, Error>;
}

/// How an actor is driven.
#[derive(Debug, Clone, Copy)]
pub struct Acting<'a> {
    /// Threads.
    pub threads: u32,
    /// Names of the kinds of operations.
    pub kinds: &'a [&'static str],
    /// Operations a second of all threads together; unlimited if absent.
    pub rate: Option<Rate>,
    /// Where it ends: after seconds or operations.
    pub bound: Bound,
    /// Milliseconds of one interval of the series.
    pub interval_ms: u32,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// Lets an actor act.
///
/// # Errors
/// What could not be had before the start, or the first operation that failed.
pub fn run<A: Actor>(acting: &Acting, actor: &A) -> Result<Outcome, Error> {
    let kinds: Vec<Kind> = acting.kinds.iter().map(|&name| Kind { name, bytes: 0, used: true }).collect();
    let interval_ns = u64::from(acting.interval_ms.max(1)) * 1_000_000;
    let chosen = clock::choose();
    let calibration = Calibration {
        clock: chosen.name().into(),
        clock_ns: chosen.cost_ns,
        generator_ns: drawing_ns(actor)? + 2.0 * chosen.cost_ns,
        ring_nop_ns: None,
    };
    let (at_most_ns, operations) = match acting.bound {
        Bound::Seconds(seconds) | Bound::Steady { at_most_s: seconds } => {
            (Some((seconds * 1e9) as u64), None)
        }
        Bound::Operations(operations) | Bound::Bytes(operations) => (None, Some(operations)),
    };
    let drive = Drive {
        threads: acting.threads,
        kinds: &kinds,
        interval_ns,
        at_most_ns,
        operations,
        until_steady: matches!(acting.bound, Bound::Steady { .. }),
        open_loop: acting.rate.is_some(),
    };
    let collected = drive::drive(&drive, &Stage { actor, acting }, &mut |_| {})?;
    let shape = Shape {
        kinds: &kinds,
        // These loads measure how a cache fills and ages, so the start counts.
        warmup: Warmup::None,
        bound: acting.bound,
        interval_ns,
        open_loop: acting.rate.is_some(),
    };
    let mut outcome = Outcome::new(&shape, collected, calibration);
    outcome.asked_per_s = acting.rate.map(|rate| rate.per_s);
    outcome.arrivals = acting.rate.map(|rate| rate.arrivals);
    Ok(outcome)
}

/// Nanoseconds that drawing a request takes: the best of three rounds, because only disturbances slow it down.
fn drawing_ns<A: Actor>(actor: &A) -> Result<f64, Error> {
    let mut own = actor.own(u32::MAX)?;
    let mut round = || {
        let begun = Instant::now();
        (0..DRAWS).for_each(|_| drop(std::hint::black_box(actor.draw(&mut own))));
        begun.elapsed().as_nanos() as f64 / f64::from(DRAWS)
    };
    Ok((0..3).map(|_| round()).fold(f64::INFINITY, f64::min))
}

struct Stage<'a, A> {
    actor: &'a A,
    acting: &'a Acting<'a>,
}

struct Worker<O> {
    own: O,
    schedule: Option<Schedule>,
}

impl<A: Actor> Work for Stage<'_, A> {
    type Worker<'h>
        = Worker<A::Own>
    where
        Self: 'h;

    fn prepare(&self, thread: u32) -> Result<Worker<A::Own>, Error> {
        let acting = self.acting;
        let schedule = acting.rate.map(|rate| Schedule::new(rate, acting.threads, thread, acting.seed));
        Ok(Worker { own: self.actor.own(thread)?, schedule })
    }

    fn work<C: Clock>(
        &self,
        worker: &mut Worker<A::Own>,
        recorder: &mut Recorder,
        clock: C,
    ) -> Result<(), Error> {
        let scale = recorder.times.scale;
        loop {
            let claimed = recorder.claim();
            if claimed == 0 {
                return Ok(());
            }
            for _ in 0..claimed {
                let Some((start, intended)) = begin(&mut worker.schedule, recorder, clock) else {
                    return Ok(());
                };
                let request = self.actor.draw(&mut worker.own);
                let kind = self.actor.act(&mut worker.own, request)?;
                let end = clock.now();
                let turned = end >= recorder.boundary && !recorder.turn(end);
                let lane = &mut recorder.tally.lanes[kind];
                lane.raw.record(scale.ns(end.saturating_sub(start)));
                if worker.schedule.is_some() {
                    lane.corrected.record(scale.ns(end.saturating_sub(intended)));
                }
                if turned {
                    return Ok(());
                }
            }
        }
    }

    fn finish(&self, _: Worker<A::Own>) -> Result<u64, Error> {
        Ok(0)
    }
}

/// Waits until the next operation of an open loop is due. Returns the actual and the intended start; none if the
/// run ended meanwhile.
fn begin<C: Clock>(schedule: &mut Option<Schedule>, recorder: &mut Recorder, clock: C) -> Option<(u64, u64)> {
    let now = clock.now();
    let Some(schedule) = schedule else { return Some((now, now)) };
    let due = recorder.times.start.saturating_add(recorder.times.scale.ticks(schedule.due_ns()));
    schedule.advance();
    let start = pace::wait_until(due, recorder, clock)?;
    // A worker that woke up late was delayed by the scheduler, not by the measured operation.
    Some((start, if now < due { start } else { due }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrivals;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Counts; every third operation is of the second kind.
    struct Counter(AtomicU64);

    impl Actor for Counter {
        type Own = u64;
        type Request = u64;

        fn own(&self, _: u32) -> Result<u64, Error> {
            Ok(0)
        }

        fn draw(&self, own: &mut u64) -> u64 {
            *own += 1;
            *own
        }

        fn act(&self, _: &mut u64, request: u64) -> Result<usize, Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(usize::from(request.is_multiple_of(3)))
        }
    }

    fn acting(bound: Bound, rate: Option<Rate>) -> Acting<'static> {
        Acting { threads: 2, kinds: &["one", "two"], rate, bound, interval_ms: 10, seed: 1 }
    }

    #[test]
    fn a_number_of_operations_is_done_exactly() {
        let counter = Counter(AtomicU64::new(0));
        let outcome = run(&acting(Bound::Operations(300), None), &counter).unwrap();
        assert_eq!((outcome.operations(), counter.0.into_inner()), (300, 300));
        let kind = |name| outcome.kind(name).unwrap().count;
        assert!(kind("one") + kind("two") == 300 && kind("two") >= 98, "{}", kind("two"));
        assert!(outcome.calibration.generator_ns > 0.0 && outcome.corrected.is_none());
    }

    #[test]
    fn an_open_loop_starts_what_is_due() {
        let rate = Rate { per_s: 1000.0, arrivals: Arrivals::Fixed };
        // Fixed gaps of 1 ms over 200 ms; a slow machine does those that it missed at once, unless the end is among
        // them: then once more.
        let outcome = (0..20)
            .map(|_| run(&acting(Bound::Seconds(0.2), Some(rate)), &Counter(AtomicU64::new(0))).unwrap())
            .inspect(|outcome| assert!(outcome.operations() <= 202, "{}", outcome.operations()))
            .find(|outcome| outcome.operations() >= 150)
            .expect("none started three quarters of what was due");
        assert_eq!(outcome.corrected.as_ref().unwrap().len(), outcome.operations());
        assert_eq!(outcome.asked_per_s, Some(1000.0));
    }
}
