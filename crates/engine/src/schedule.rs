//! The intended start times of an open loop, and the wait for them.

use crate::clock::Clock;
use crate::job::{Arrivals, Rate};
use crate::tally::{Recorder, RunTimes};
use fsarena_core::schedule::mix;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Exp};
use std::{num::NonZeroU64, time::Duration};

/// Nanoseconds to spin before an intended start, because a sleep ends some tens of microseconds late. Workers spin only if
/// processors are free.
const SPIN_NS: u64 = 60_000;

/// The intended start times of one thread, in nanoseconds after the start of the run.
///
/// With Poisson arrivals, each thread draws an independent stream; together they are a Poisson stream of the full rate. With
/// fixed gaps, the threads are evenly shifted, so that together they have fixed gaps too.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// When the next operation is due.
    due_ns: f64,
    /// The mean gap between operations of this thread.
    gap_ns: f64,
    /// Draws the gaps of Poisson arrivals; None for fixed gaps.
    poisson_gaps: Option<(Exp<f64>, Xoshiro256PlusPlus)>,
}

impl Schedule {
    /// Makes the schedule of one of several threads.
    ///
    /// # Panics
    /// If the rate has not been checked.
    pub fn new(rate: Rate, threads: u32, thread: u32, seed: u64) -> Schedule {
        let gap_ns = 1e9 * f64::from(threads) / rate.per_s;
        let mut schedule = Schedule { due_ns: 0.0, gap_ns, poisson_gaps: None };
        match rate.arrivals {
            Arrivals::Fixed => schedule.due_ns = gap_ns * f64::from(thread) / f64::from(threads),
            Arrivals::Poisson => {
                let gaps = Exp::new(1.0 / gap_ns).expect("the rate is checked");
                let seed = mix(seed, u64::from(thread));
                schedule.poisson_gaps = Some((gaps, Xoshiro256PlusPlus::seed_from_u64(seed)));
                schedule.advance();
            }
        }
        schedule
    }

    /// When the next operation is due.
    fn due_ns(&self) -> u64 {
        self.due_ns as u64
    }

    /// Moves on to the next operation.
    pub fn advance(&mut self) {
        self.due_ns += match &mut self.poisson_gaps {
            Some((gaps, rng)) => gaps.sample(rng),
            None => self.gap_ns,
        };
    }
}

/// When the next operation of a schedule is due, in ticks.
pub fn next_due(times: &RunTimes, schedule: &Schedule) -> u64 {
    times.start.saturating_add(times.scale.ticks(schedule.due_ns()))
}

/// Sets the timer slack of this thread to 1 ns: by default the kernel may wake it up to 50 µs late.
pub fn minimize_timer_slack() {
    // If this fails, operations start later than intended. Latencies do not include this delay: for a worker that slept, the
    // time at which it woke up counts as the intended start.
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Waits until `due`, in ticks, and closes each interval that ends meanwhile. Returns the time at which the wait ended, or
/// None if the run ended first.
pub fn wait_until(due: u64, recorder: &mut Recorder, clock: Clock) -> Option<u64> {
    loop {
        let now = clock.now();
        if now >= recorder.boundary && !recorder.end_interval(now) {
            return None;
        }
        if now >= due {
            return Some(now);
        }
        let remaining_ns = recorder.times.scale.ns(due.min(recorder.boundary) - now);
        let spin_ns = if recorder.cpus_are_busy { 0 } else { SPIN_NS };
        if remaining_ns > spin_ns {
            std::thread::sleep(Duration::from_nanos(remaining_ns - spin_ns));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Waits until the next operation of an open loop is due; does not wait in a closed loop. Returns the start and, for an open
/// loop, the intended start; None if the run ended meanwhile.
pub fn wait_for_next_start(
    schedule: &mut Option<Schedule>,
    recorder: &mut Recorder,
    clock: Clock,
) -> Option<(u64, Option<u64>)> {
    let now = clock.now();
    let Some(schedule) = schedule else { return Some((now, None)) };
    let due = next_due(&recorder.times, schedule);
    schedule.advance();
    let start = wait_until(due, recorder, clock)?;
    // If the worker waited for the start and woke up late, the measured system did not cause this delay.
    Some((start, Some(if now < due { start } else { due })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sorted start times of all threads before `until_ns`, in nanoseconds, at 10,000 operations per second.
    fn due_times_ns(arrivals: Arrivals, threads: u32, until_ns: u64) -> Vec<u64> {
        let rate = Rate { per_s: 10_000.0, arrivals };
        let mut all = vec![];
        for thread in 0..threads {
            let mut schedule = Schedule::new(rate, threads, thread, 3);
            while schedule.due_ns() < until_ns {
                all.push(schedule.due_ns());
                schedule.advance();
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn fixed_gaps_stay_fixed_over_threads() {
        let all = due_times_ns(Arrivals::Fixed, 4, 1_000_000_000);
        assert_eq!(all.len(), 10_000);
        assert!(all.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(100_000) <= 1));
    }

    #[test]
    fn poisson_arrivals_have_the_intended_rate() {
        // In 40 s at 10,000/s, 400,000 are expected, with a standard deviation of 632; 1% is 6.3 standard deviations.
        for threads in [1, 4, 16] {
            let all = due_times_ns(Arrivals::Poisson, threads, 40_000_000_000);
            assert!((all.len() as f64 / 400_000.0 - 1.0).abs() < 0.01, "{}", all.len());
        }
    }

    #[test]
    fn poisson_gaps_are_exponential_over_threads() {
        let all = due_times_ns(Arrivals::Poisson, 4, 20_000_000_000);
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The standard deviation divided by the mean is 1 for exponential gaps, and 0 for fixed ones.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
        let longer = gaps.iter().filter(|gap| **gap > 100_000.0).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0f64).exp()).abs() < 0.01, "{longer}");
    }
}
