//! The resource limits of this process, as `ulimit` of a shell or a service manager sets them.
//!
//! fsarena raises its own soft limits to the hard ones. A program that it starts gets back the number of open files that
//! the user gave to fsarena: some programs size tables by it, and select(2) fails on file numbers from 1024.

use crate::Error;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Open files that a run needs in one process, whatever the work: it was seen to end with 16 and to go well with 24.
const OPEN_FILES: u64 = 64;

/// The soft limit of open files that the user gave, where fsarena has raised it. None within: no limit.
static GIVEN: OnceLock<Option<u64>> = OnceLock::new();
/// Held while the limit of open files is that of the user.
static LOWERED: Mutex<()> = Mutex::new(());

/// Prepares this process for its limits. Call it once, at the beginning of `main`.
///
/// Raises the soft limits to the hard ones. Has a write beyond the limit of file sizes fail with EFBIG instead of ending
/// the process by SIGXFSZ; a handler does that, because a program that this process starts gets the default back.
pub fn prepare() {
    // Files; processes and threads; buffers that io_uring locks.
    for resource in [Resource::Nofile, Resource::Nproc, Resource::Memlock] {
        let Rlimit { current, maximum } = getrlimit(resource);
        let raised = current != maximum && setrlimit(resource, Rlimit { current: maximum, maximum }).is_ok();
        // Where raising is refused, the limit stays as it is, and what it stops says so.
        if raised && resource == Resource::Nofile {
            // A second call finds nothing to raise.
            let _ = GIVEN.set(current);
        }
    }
    if !crate::cancel::is_ignored(libc::SIGXFSZ).unwrap_or(true) {
        // SAFETY: the handler does nothing. Without it the signal ends the process, as it did before.
        let _ = unsafe { signal_hook::low_level::register(libc::SIGXFSZ, || {}) };
    }
}

/// Starts a program with the limit of open files that the user gave to fsarena.
///
/// For the moment of the start this process has it too: the limit of a child cannot be set on its own without fork(2),
/// which takes longer than posix_spawn(3), and the start of a command is measured.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let Some(given) = GIVEN.get() else { return command.spawn() };
    let one_at_a_time = LOWERED.lock().unwrap_or_else(PoisonError::into_inner);
    let own = getrlimit(Resource::Nofile);
    let lowered = Rlimit { current: *given, maximum: own.maximum };
    // Neither change can fail: both values are within the hard limit.
    let _ = setrlimit(Resource::Nofile, lowered);
    let started = command.spawn();
    let _ = setrlimit(Resource::Nofile, own);
    drop(one_at_a_time);
    match started {
        // This process holds more files than the user's limit allows, so the program cannot be started under it.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => command.spawn(),
        started => started,
    }
}

/// The number of files that this process may have open; none where there is no limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Checks that a run has as many open files as it needs whatever its work is.
///
/// # Errors
/// [`Error::Limit`] with the number needed.
pub fn check_open_files() -> Result<(), Error> {
    match getrlimit(Resource::Nofile).maximum {
        Some(hard) if hard < OPEN_FILES => Err(Error::Limit(format!(
            "a run needs {OPEN_FILES} open files in one process, and the hard limit is {hard}: raise it (`ulimit -Hn \
             {OPEN_FILES}` as root, or LimitNOFILE= of the service)"
        ))),
        _ => Ok(()),
    }
}

/// The size in bytes beyond which this process may write no file; none where there is no such limit.
pub fn file_size() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Checks that this process may write a file of a size; `what` names the file.
///
/// # Errors
/// [`Error::Limit`] with the size needed.
pub fn check_file_size(what: &str, bytes: u64) -> Result<(), Error> {
    match file_size() {
        Some(most) if most < bytes => {
            let (most, bytes) = (bytesize::ByteSize(most), bytesize::ByteSize(bytes));
            Err(Error::Limit(format!(
                "this process may write files of at most {most}, and {what} needs {bytes}: raise the limit of file sizes \
                 (`ulimit -f unlimited`)"
            )))
        }
        _ => Ok(()),
    }
}
