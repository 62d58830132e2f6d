//! Waiting for the moment at which an operation is due.

use super::clock::Clock;
use super::schedule::Schedule;
use super::tally::Recorder;
use std::num::NonZeroU64;
use std::time::Duration;

/// Sleeping wakes up late by some ten microseconds; the last stretch is spun where processors are free.
const SPIN_NS: u64 = 60_000;

/// Sets the timer slack of this thread to 1 ns: by default the kernel may wake it up to 50 µs late.
pub fn exact_timers() {
    // Refusal only makes the waits less exact, and the report states how late operations began.
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Waits until a moment, in ticks, and closes each interval that ends meanwhile. Returns the moment at which
/// the wait ended, or nothing if the run ended first.
pub fn wait_until<C: Clock>(due: u64, recorder: &mut Recorder, clock: C) -> Option<u64> {
    loop {
        let now = clock.now();
        if now >= recorder.boundary && !recorder.turn(now) {
            return None;
        }
        if now >= due {
            return Some(now);
        }
        let left_ns = recorder.times.scale.ns(due.min(recorder.boundary) - now);
        let spin_ns = if recorder.crowded() { 0 } else { SPIN_NS };
        if left_ns > spin_ns {
            std::thread::sleep(Duration::from_nanos(left_ns - spin_ns));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Waits until the next operation is due, where there is a schedule. Returns the start, and the intended start of an
/// open loop; none if the run ended meanwhile.
pub fn begin<C: Clock>(
    schedule: &mut Option<Schedule>,
    recorder: &mut Recorder,
    clock: C,
) -> Option<(u64, Option<u64>)> {
    let now = clock.now();
    let Some(schedule) = schedule else { return Some((now, None)) };
    let due = recorder.times.due(schedule);
    schedule.advance();
    let start = wait_until(due, recorder, clock)?;
    // A worker that waited for its time and woke up late was not held up by what is measured.
    Some((start, Some(if now < due { start } else { due })))
}
