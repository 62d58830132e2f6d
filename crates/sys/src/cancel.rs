//! Signals that interrupt fsarena. While fsarena has something to clean up, a signal only sets a flag, and fsarena stops at the
//! next safe point. Otherwise the signal ends the process at once.

use libc::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use std::io;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The signals below the real-time range that end a process by default and that a user, a shell, a service manager or a
/// resource limit sends. Three kinds are left out: SIGPIPE, which Rust ignores; SIGXFSZ, after which a write fails with an
/// error ([`crate::limits`]); and the signals of program faults (SIGSEGV and others).
const NAMED_SIGNALS: [i32; 13] = [
    SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGSTKFLT, SIGXCPU, SIGVTALRM, SIGPROF, SIGIO, SIGPWR,
];

/// All signals after which fsarena cleans up and ends: those in `NAMED_SIGNALS`, and the real-time signals, whose default
/// action ends a process too.
pub fn terminating_signals() -> impl Iterator<Item = i32> {
    NAMED_SIGNALS.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// The first signal that interrupted fsarena; 0 if none did.
static FIRST_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The number of [`DeferredSignals`] that exist.
static DEFERRAL_COUNT: AtomicUsize = AtomicUsize::new(0);

/// While one of these exists, signals only set a flag, and its holder cleans up before the process ends.
#[derive(Debug)]
#[must_use = "once it is dropped, signals end the process at once"]
pub struct DeferredSignals(());

/// Defers signals until the returned value is dropped: while there is something to clean up or to finish.
pub fn defer_signals() -> DeferredSignals {
    DEFERRAL_COUNT.fetch_add(1, Ordering::SeqCst);
    DeferredSignals(())
}

impl Drop for DeferredSignals {
    fn drop(&mut self) {
        DEFERRAL_COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Installs handlers for [`terminating_signals`]. While signals are deferred, a signal only sets a flag, and a second signal
/// does not shorten the clean-up. Otherwise a signal ends the process at once. Signals that were ignored at the start of this
/// process stay ignored, so that nohup(1) works.
///
/// # Errors
/// The system refuses a handler.
pub fn install_handlers() -> io::Result<()> {
    for signal in terminating_signals() {
        if is_ignored(signal)? {
            continue;
        }
        let handler = move || {
            store_if_first(&FIRST_SIGNAL, signal);
            if DEFERRAL_COUNT.load(Ordering::SeqCst) == 0 {
                raise_default(signal);
            }
        };
        // SAFETY: atomics and the system calls of `raise_default` are async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, handler)? };
    }
    Ok(())
}

/// Whether this process ignores a signal.
pub(crate) fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: an all-zero sigaction is valid, without a new action the call only reads, and the pointer is to a local.
    let (result, action) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &mut action), action)
    };
    if result == 0 { Ok(action.sa_sigaction == libc::SIG_IGN) } else { Err(io::Error::last_os_error()) }
}

/// Restores the default action of a signal and raises it, which ends the process.
fn raise_default(signal: i32) {
    // SAFETY: async-signal-safe system calls on locals; an all-zero signal set is valid.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Stores a signal in `first`, unless it has one already.
fn store_if_first(first: &AtomicI32, signal: i32) {
    let _ = first.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
}

/// The first signal that interrupted fsarena; None if none did.
pub fn received_signal() -> Option<i32> {
    Some(FIRST_SIGNAL.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// Returns an error if a signal interrupted fsarena.
///
/// # Errors
/// [`crate::Error::Interrupted`].
pub fn check() -> Result<(), crate::Error> {
    match received_signal() {
        Some(signal) => Err(crate::Error::Interrupted { signal }),
        None => Ok(()),
    }
}

/// Ends the process by the default action of a signal, so that the shell sees that a signal ended it. For the end of `main`,
/// after the clean-up.
pub fn die_by_signal(signal: i32) -> ! {
    raise_default(signal);
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ignored_reports_the_action_of_a_signal() {
        // Rust ignores SIGPIPE before main, and leaves SIGTERM alone.
        assert!(is_ignored(libc::SIGPIPE).unwrap());
        assert!(!is_ignored(SIGTERM).unwrap());
    }

    #[test]
    fn signals_of_faults_and_uncatchable_signals_do_not_interrupt() {
        let signals: Vec<i32> = terminating_signals().collect();
        assert!(signals.contains(&libc::SIGRTMAX()) && signals.contains(&SIGXCPU));
        for other in [
            libc::SIGPIPE,
            libc::SIGCHLD,
            libc::SIGCONT,
            libc::SIGTSTP,
            libc::SIGWINCH,
            libc::SIGURG,
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGABRT,
            libc::SIGKILL,
            libc::SIGSTOP,
            libc::SIGXFSZ,
        ] {
            assert!(!signals.contains(&other), "{other}");
        }
    }

    #[test]
    fn only_the_first_signal_is_recorded() {
        let first = AtomicI32::new(0);
        store_if_first(&first, SIGTERM);
        store_if_first(&first, SIGINT);
        assert_eq!(first.into_inner(), SIGTERM);
    }
}
