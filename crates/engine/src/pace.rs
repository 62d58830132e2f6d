//! Waiting for the moment at which an operation is due.

use super::clock::Clock;
use super::tally::Desk;
use std::time::Duration;

/// Sleeping wakes up late by some ten microseconds; the last stretch is spun where processors are free.
const SPIN_NS: u64 = 60_000;

/// Has the kernel wake this thread when it asked for it, not up to 50 µs later.
pub fn exact_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// Waits until a moment, in ticks, and turns at every boundary on the way. Gives the moment at which it
/// went on; absent where the run ended meanwhile.
pub fn wait_until<C: Clock>(due: u64, desk: &mut Desk, clock: C) -> Option<u64> {
    loop {
        let now = clock.now();
        if now >= desk.boundary && !desk.turn(now) {
            return None;
        }
        if now >= due {
            return Some(now);
        }
        let left_ns = desk.times.scale.ns(due.min(desk.boundary) - now);
        let spin_ns = if desk.crowded() { 0 } else { SPIN_NS };
        if left_ns > spin_ns {
            std::thread::sleep(Duration::from_nanos(left_ns - spin_ns));
        } else {
            std::hint::spin_loop();
        }
    }
}
