//! Operations that are more than one system call: a request to a cache, a turn of a personality's loop.
//!
//! The same workers, tallies and schedules as for blocks of files. What an operation is, its actor says.

use super::clock::{self, Clock};
use super::drive::{Drive, Work};
use super::job::{Bound, Rate, Warmup};
use super::schedule::{self, Schedule};
use super::tally::{Kind, Recorder};
use super::{calibrate::Calibration, error::Result, outcome::Outcome};

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
    fn own(&self, thread: u32) -> Result<Self::Own>;

    /// Draws the next operation. The engine measures this cost separately, as the generator's.
    fn draw(&self, own: &mut Self::Own) -> Self::Request;

    /// Performs an operation and returns its kind: an index into [`Acting::kinds`].
    ///
    /// # Errors
    /// The first that fails ends the load.
    fn act(&self, own: &mut Self::Own, request: Self::Request) -> Result<usize>;
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
pub fn run<A: Actor>(acting: &Acting, actor: &A) -> Result<Outcome> {
    let kinds: Vec<Kind> = acting.kinds.iter().map(|&name| Kind { name, bytes: 0, used: true }).collect();
    let calibration = Calibration::of(drawing_ns(actor)? + 2.0 * clock::choose().cost_ns);
    let drive = Drive {
        threads: acting.threads,
        kinds: &kinds,
        interval_ms: acting.interval_ms.max(1),
        bound: acting.bound,
        // These loads measure how a cache fills and ages, so the start counts.
        warmup: Warmup::None,
        rate: acting.rate,
    };
    Outcome::of(&drive, &Stage { actor, acting }, calibration, &mut |_| {})
}

/// Nanoseconds that drawing a request takes.
fn drawing_ns<A: Actor>(actor: &A) -> Result<f64> {
    let mut own = actor.own(u32::MAX)?;
    Ok(clock::best_ns(3, DRAWS, |_| drop(std::hint::black_box(actor.draw(&mut own)))))
}

struct Stage<'a, A> {
    actor: &'a A,
    acting: &'a Acting<'a>,
}

impl<'a, A: Actor> Work<'a> for Stage<'_, A> {
    type Worker = (A::Own, Option<Schedule>);

    fn prepare(&self, thread: u32) -> Result<Self::Worker> {
        let acting = self.acting;
        let schedule = acting.rate.map(|rate| Schedule::new(rate, acting.threads, thread, acting.seed));
        Ok((self.actor.own(thread)?, schedule))
    }

    fn work<C: Clock>(&self, worker: &mut Self::Worker, recorder: &mut Recorder, clock: C) -> Result {
        let (own, schedule) = worker;
        loop {
            let claimed = recorder.claim();
            if claimed == 0 {
                return Ok(());
            }
            for _ in 0..claimed {
                let begun = schedule::begin(schedule, recorder, clock);
                let Some((start, intended)) = begun else { return Ok(()) };
                let request = self.actor.draw(own);
                let kind = self.actor.act(own, request)?;
                if !recorder.count(kind, start, intended, clock.now()) {
                    return Ok(());
                }
            }
        }
    }
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

        fn own(&self, _: u32) -> Result<u64> {
            Ok(0)
        }

        fn draw(&self, own: &mut u64) -> u64 {
            *own += 1;
            *own
        }

        fn act(&self, _: &mut u64, request: u64) -> Result<usize> {
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
