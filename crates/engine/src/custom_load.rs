//! Loads with custom operations of several system calls, such as a request to a cache or a transaction. They use the same
//! workers, tallies and schedules as loads on files.

use super::clock::{self, Clock};
use super::drive::{DriveSettings, Work};
use super::job::{Bound, Rate, Warmup};
use super::schedule::{self, Schedule};
use super::tally::{OpKind, Recorder};
use super::{calibrate::Calibration, error::Result, outcome::LoadOutcome};

/// The number of requests to draw when the cost of drawing one is measured.
const CALIBRATION_DRAWS: u32 = 2_000;

/// A load with custom operations.
pub trait CustomLoad: Sync {
    /// The private state of a thread.
    type ThreadState;
    /// One operation, drawn but not yet started.
    type Request;

    /// Creates the private state of a thread. Threads have numbers from 0; the number `u32::MAX` is for measuring the cost of
    /// [`CustomLoad::draw`].
    ///
    /// # Errors
    /// A resource that the thread requires is unavailable.
    fn thread_state(&self, thread: u32) -> Result<Self::ThreadState>;

    /// Draws the next operation. The latency of the operation includes this time. The engine also measures it once before the
    /// load, as the cost of the load generator.
    fn draw(&self, state: &mut Self::ThreadState) -> Self::Request;

    /// Performs an operation and returns its kind: an index into [`CustomLoadConfig::kinds`].
    ///
    /// # Errors
    /// The operation failed; this ends the load.
    fn perform(&self, state: &mut Self::ThreadState, request: Self::Request) -> Result<usize>;
}

/// The settings of a custom load.
#[derive(Debug, Clone, Copy)]
pub struct CustomLoadConfig<'a> {
    /// Number of threads.
    pub threads: u32,
    /// Names of the kinds of operations.
    pub kinds: &'a [&'static str],
    /// The operations per second of all threads together; None for a closed loop.
    pub rate: Option<Rate>,
    /// When the load ends: after seconds or operations.
    pub bound: Bound,
    /// Milliseconds of one interval of the series.
    pub interval_ms: u32,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// Runs a custom load to its end.
///
/// # Errors
/// A resource that the load requires is missing, or an operation failed.
pub fn run<L: CustomLoad>(config: &CustomLoadConfig, load: &L) -> Result<LoadOutcome> {
    // The engine does not know how many bytes a custom operation moves.
    let kinds: Vec<OpKind> = config.kinds.iter().map(|&name| OpKind { name, bytes: 0, used: true }).collect();
    // Each operation reads the clock at its start and at its end.
    let calibration = Calibration::with_generator(draw_ns(load)? + 2.0 * Clock::best().cost_ns);
    let settings = DriveSettings {
        threads: config.threads,
        kinds: &kinds,
        interval_ms: config.interval_ms.max(1),
        bound: config.bound,
        // These loads also measure how a cache fills, so the start counts.
        warmup: Warmup::None,
        rate: config.rate,
    };
    LoadOutcome::measure(&settings, &CustomWork { load, config }, calibration, &mut |_| {})
}

/// Nanoseconds that drawing a request takes.
fn draw_ns<L: CustomLoad>(load: &L) -> Result<f64> {
    let mut state = load.thread_state(u32::MAX)?;
    Ok(clock::fastest_ns_per_call(3, CALIBRATION_DRAWS, |_| drop(std::hint::black_box(load.draw(&mut state)))))
}

struct CustomWork<'a, L> {
    load: &'a L,
    config: &'a CustomLoadConfig<'a>,
}

impl<'a, L: CustomLoad> Work<'a> for CustomWork<'_, L> {
    type Worker = (L::ThreadState, Option<Schedule>);

    fn prepare(&self, thread: u32) -> Result<Self::Worker> {
        let config = self.config;
        let schedule = config.rate.map(|rate| Schedule::new(rate, config.threads, thread, config.seed));
        Ok((self.load.thread_state(thread)?, schedule))
    }

    fn perform_operations(&self, worker: &mut Self::Worker, recorder: &mut Recorder, clock: Clock) -> Result {
        let (state, schedule) = worker;
        loop {
            let claimed = recorder.claim();
            if claimed == 0 {
                return Ok(());
            }
            for _ in 0..claimed {
                let start = schedule::wait_for_next_start(schedule, recorder, clock);
                let Some((start, intended_start)) = start else { return Ok(()) };
                let request = self.load.draw(state);
                let kind = self.load.perform(state, request)?;
                if !recorder.count(kind, start, intended_start, clock.now()) {
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

    /// A load that counts its operations. Every third operation is of the second kind.
    struct CountingLoad(AtomicU64);

    impl CustomLoad for CountingLoad {
        type ThreadState = u64;
        type Request = u64;

        fn thread_state(&self, _: u32) -> Result<u64> {
            Ok(0)
        }

        fn draw(&self, state: &mut u64) -> u64 {
            *state += 1;
            *state
        }

        fn perform(&self, _: &mut u64, request: u64) -> Result<usize> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(usize::from(request.is_multiple_of(3)))
        }
    }

    fn config(bound: Bound, rate: Option<Rate>) -> CustomLoadConfig<'static> {
        CustomLoadConfig { threads: 2, kinds: &["one", "two"], rate, bound, interval_ms: 10, seed: 1 }
    }

    #[test]
    fn a_load_bounded_by_operations_performs_exactly_that_number() {
        let load = CountingLoad(AtomicU64::new(0));
        let outcome = run(&config(Bound::Operations(300), None), &load).unwrap();
        assert_eq!((outcome.operations(), load.0.into_inner()), (300, 300));
        let kind = |name| outcome.kind(name).unwrap().count;
        assert!(kind("one") + kind("two") == 300 && kind("two") >= 98, "{}", kind("two"));
        assert!(outcome.calibration.generator_ns > 0.0 && outcome.corrected_latency.is_none());
    }

    #[test]
    fn an_open_loop_starts_operations_at_its_rate() {
        let rate = Rate { per_s: 1000.0, arrivals: Arrivals::Fixed };
        // Fixed gaps of 1 ms over 200 ms. A slow machine catches up on operations that are due, unless the run ends first;
        // then the test tries again.
        let outcome = (0..20)
            .map(|_| run(&config(Bound::Seconds(0.2), Some(rate)), &CountingLoad(AtomicU64::new(0))).unwrap())
            .inspect(|outcome| assert!(outcome.operations() <= 202, "{}", outcome.operations()))
            .find(|outcome| outcome.operations() >= 150)
            .expect("one of the runs starts three quarters of its operations");
        assert_eq!(outcome.corrected_latency.as_ref().unwrap().len(), outcome.operations());
        assert_eq!(outcome.intended_per_s, Some(1000.0));
    }
}
