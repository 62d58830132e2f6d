//! Signals that ask fsarena to stop. Where something is to be cleaned up they are noted in a flag and obeyed where it is
//! safe; elsewhere they end the process at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

static ASKED: AtomicI32 = AtomicI32::new(0);
/// How many [`InOrder`] there are.
static IN_ORDER: AtomicUsize = AtomicUsize::new(0);

/// While one of these exists, a signal is only noted, and its holder cleans up and ends in order.
#[derive(Debug)]
#[must_use = "signals end the process at once when it is dropped"]
pub struct InOrder(());

/// From now on there is something to clean up, or to finish.
pub fn in_order() -> InOrder {
    IN_ORDER.fetch_add(1, Ordering::SeqCst);
    InOrder(())
}

impl Drop for InOrder {
    fn drop(&mut self) {
        IN_ORDER.fetch_sub(1, Ordering::SeqCst);
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP are only noted while something is to be cleaned up, and a second one does not cut
/// that short. While nothing is, they end the process at once, whatever it computes or waits for.
/// Signals that this process was started to ignore stay ignored: that is how nohup(1) works.
///
/// # Errors
/// Where the system refuses a handler.
pub fn install() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if is_ignored(signal)? {
            continue;
        }
        let obey = move || {
            note(&ASKED, signal);
            if IN_ORDER.load(Ordering::SeqCst) == 0 {
                // Returns only where the signal's default is not to end the process.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // SAFETY: atomics and the emulation of the default handler are async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, obey)? };
    }
    Ok(())
}

/// Whether the kernel's mask of ignored signals has it.
fn is_ignored(signal: i32) -> io::Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    let mask = mask.ok_or_else(|| io::Error::other("/proc/self/status has no mask of ignored signals"))?;
    Ok(mask >> (signal - 1) & 1 == 1)
}

/// The first signal is the one to die by.
fn note(asked: &AtomicI32, signal: i32) {
    let _ = asked.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
}

/// The signal that asked to stop, if one did.
pub fn requested() -> Option<i32> {
    Some(ASKED.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// An error where a signal asked to stop.
///
/// # Errors
/// [`crate::Error::Interrupted`].
pub fn check() -> Result<(), crate::Error> {
    requested().map_or(Ok(()), |signal| Err(crate::Error::Interrupted { signal }))
}

/// Ends the process as the signal would have, so that the shell sees what happened. For the end of
/// `main`, after everything is cleaned up.
pub fn die_by(signal: i32) -> ! {
    // Returns only where the signal's default is not to end the process.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        // Rust ignores SIGPIPE before main, and leaves SIGTERM alone.
        assert!(is_ignored(signal_hook::consts::SIGPIPE).unwrap());
        assert!(!is_ignored(SIGTERM).unwrap());
    }

    #[test]
    fn only_the_first_signal_counts() {
        let asked = AtomicI32::new(0);
        note(&asked, SIGTERM);
        note(&asked, SIGINT);
        assert_eq!(asked.into_inner(), SIGTERM);
    }
}
