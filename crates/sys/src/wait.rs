//! Waiting for a condition with a deadline, and retrying a failed operation. A signal that interrupts fsarena can end a wait.

use crate::cancel;
use std::io;
use std::time::{Duration, Instant};

/// The shortest pause between two polls.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The pause between two attempts of [`retry`].
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The number of attempts of [`retry_while_busy`].
const BUSY_ATTEMPTS: u32 = 100;

/// Whether a signal that interrupts fsarena ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// The signal ends the wait.
    BySignal,
    /// The wait continues, because it is part of the clean-up.
    Never,
}

/// Why a wait ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitError {
    /// The deadline passed.
    TimedOut,
    /// This signal interrupted fsarena.
    Cancelled(i32),
}

/// Calls `poll` until it returns a value, and returns that value. Sleeps between the calls: 1 ms at first, later a sixteenth
/// of the time waited so far, at most 50 ms. Calls `poll` at least once, and once more after the deadline.
///
/// # Errors
/// The deadline has passed, or a signal ended the wait.
pub fn wait_until<T>(deadline: Instant, cancel: Cancel, mut poll: impl FnMut() -> Option<T>) -> Result<T, WaitError> {
    let start = Instant::now();
    loop {
        let now = Instant::now();
        if let Some(value) = poll() {
            return Ok(value);
        }
        if let (Cancel::BySignal, Some(signal)) = (cancel, cancel::received_signal()) {
            return Err(WaitError::Cancelled(signal));
        }
        if now >= deadline {
            return Err(WaitError::TimedOut);
        }
        let pause = ((now - start) / 16).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        std::thread::sleep(pause.min(deadline.saturating_duration_since(Instant::now())));
    }
}

/// Calls `attempt` up to `attempts` times, as long as it fails with an error for which `is_temporary` returns true. Returns
/// the result of the last call.
pub fn retry<T, E>(
    attempts: u32,
    is_temporary: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..attempts {
        match attempt() {
            Err(error) if is_temporary(&error) => std::thread::sleep(RETRY_PAUSE),
            result => return result,
        }
    }
    attempt()
}

/// Calls `attempt` up to 100 times, as long as it fails with EBUSY: udev may have a device open, or the last process of a
/// control group may still be exiting. Returns the result of the last call.
pub(crate) fn retry_while_busy<T>(attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    retry(BUSY_ATTEMPTS, |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy, attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_first_value_or_at_the_deadline() {
        let mut polls = 0;
        let mut third = || {
            polls += 1;
            (polls == 3).then_some(polls)
        };
        let far = Instant::now() + Duration::from_secs(60);
        assert_eq!(wait_until(far, Cancel::BySignal, &mut third), Ok(3));
        assert_eq!(wait_until(Instant::now(), Cancel::Never, || Some("at once")), Ok("at once"));
        let start = Instant::now();
        let never = wait_until(start + Duration::from_millis(30), Cancel::Never, || None::<()>);
        assert_eq!(never, Err(WaitError::TimedOut));
        assert!(start.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn only_temporary_errors_are_retried_and_not_for_ever() {
        let retry_and_count = |attempts, busy_calls: u32| {
            let mut calls = 0;
            let attempt = || {
                calls += 1;
                if calls <= busy_calls { Err("busy") } else { Err("lost") }
            };
            (retry(attempts, |error| *error == "busy", attempt) as Result<(), _>, calls)
        };
        assert_eq!(retry_and_count(5, 2), (Err("lost"), 3));
        assert_eq!(retry_and_count(2, 2), (Err("busy"), 2));
    }
}
