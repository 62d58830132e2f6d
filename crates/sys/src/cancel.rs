//! Signals that ask fsarena to stop. While there is something to clean up, a signal only sets a flag, and fsarena stops where
//! that is safe. Otherwise the signal ends the process at once.

use libc::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGXCPU,
};
use std::io;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The signals whose default is to end a process and that ask for nothing else: a user, a shell, a service manager or a
/// limit of this process sends them. Not SIGPIPE, which Rust ignores, and not those that a fault of a program raises.
const NAMED: [i32; 13] = [
    SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGSTKFLT, SIGXCPU, SIGVTALRM, SIGPROF,
    SIGIO, SIGPWR,
];

/// Every signal after which fsarena cleans up and ends: those of `NAMED`, and the real-time signals, whose default is to end
/// a process too.
pub fn signals() -> impl Iterator<Item = i32> {
    NAMED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

static REQUESTED: AtomicI32 = AtomicI32::new(0);
/// The number of [`DeferredSignals`] that exist.
static DEFERRED: AtomicUsize = AtomicUsize::new(0);

/// While one of these exists, signals only set a flag, and its holder cleans up before the process ends.
#[derive(Debug)]
#[must_use = "signals end the process at once when it is dropped"]
pub struct DeferredSignals(());

/// Defers signals until the returned value is dropped, because there is something to clean up or to finish.
pub fn defer_signals() -> DeferredSignals {
    DEFERRED.fetch_add(1, Ordering::SeqCst);
    DeferredSignals(())
}

impl Drop for DeferredSignals {
    fn drop(&mut self) {
        DEFERRED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Installs handlers for [`signals`]. While signals are deferred, a signal only sets a flag, and a second one does not cut the
/// clean-up short. Otherwise a signal ends the process at once. Signals that this process was started to ignore stay
/// ignored: that is how nohup(1) works.
///
/// # Errors
/// Where the system refuses a handler.
pub fn install() -> io::Result<()> {
    for signal in signals() {
        if is_ignored(signal)? {
            continue;
        }
        let obey = move || {
            note(&REQUESTED, signal);
            if DEFERRED.load(Ordering::SeqCst) == 0 {
                end_by(signal);
            }
        };
        // SAFETY: atomics and the system calls of `end_by` are async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, obey)? };
    }
    Ok(())
}

/// Whether this process ignores a signal.
pub(crate) fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: an all-zero sigaction is valid, without a new action the call only reads, and the pointer is to a local.
    let (done, action) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &mut action), action)
    };
    if done == 0 { Ok(action.sa_sigaction == libc::SIG_IGN) } else { Err(io::Error::last_os_error()) }
}

/// Ends the process by the default of a signal, whichever signal it is.
fn end_by(signal: i32) {
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

/// Records a signal, unless one is recorded already: the process ends by the first one.
fn note(asked: &AtomicI32, signal: i32) {
    let _ = asked.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
}

/// The signal that asked fsarena to stop, if one did.
pub fn requested() -> Option<i32> {
    Some(REQUESTED.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// Returns an error if a signal asked fsarena to stop.
///
/// # Errors
/// [`crate::Error::Interrupted`].
pub fn check() -> Result<(), crate::Error> {
    requested().map_or(Ok(()), |signal| Err(crate::Error::Interrupted { signal }))
}

/// Ends the process by the default action of a signal, so that the shell sees the reason. For the end of `main`, after the
/// clean-up.
pub fn die_by(signal: i32) -> ! {
    end_by(signal);
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_known() {
        // Rust ignores SIGPIPE before main, and leaves SIGTERM alone.
        assert!(is_ignored(libc::SIGPIPE).unwrap());
        assert!(!is_ignored(SIGTERM).unwrap());
    }

    #[test]
    fn signals_that_must_keep_their_meaning_are_not_among_those_that_end_a_run() {
        let ending: Vec<i32> = signals().collect();
        assert!(ending.contains(&libc::SIGRTMAX()) && ending.contains(&SIGXCPU));
        for kept in [
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
            assert!(!ending.contains(&kept), "{kept}");
        }
    }

    #[test]
    fn only_the_first_signal_counts() {
        let asked = AtomicI32::new(0);
        note(&asked, SIGTERM);
        note(&asked, SIGINT);
        assert_eq!(asked.into_inner(), SIGTERM);
    }
}
