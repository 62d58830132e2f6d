//! The resource limits of this process (setrlimit(2)), which a shell (`ulimit`) or a service manager sets.
//!
//! fsarena raises its own soft limits to the hard limits. The programs that it starts get the original soft limit of open
//! files: some programs size tables by it, and select(2) fails for file descriptors from 1024 on.
//!
//! [`limit_remedy`] returns what the user can do if a system call failed because of a limit.

use crate::Error;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError};

pub use crate::error::{NO_THREADS_MESSAGE, SPAWN_PANIC_TEXT, limit_remedy, remedy_suffix};

/// The number of open files that fsarena requires in one process. In tests a run failed with a limit of 16 and succeeded with
/// 24.
const MIN_OPEN_FILES: u64 = 64;

/// The original soft limit of open files, set once fsarena has raised it. `Some(None)` means that it was unlimited.
static ORIGINAL_NOFILE: OnceLock<Option<u64>> = OnceLock::new();
/// Held by the thread that has lowered the limit of open files to the original one for the start of a program.
static LOWERED_LIMIT_LOCK: Mutex<()> = Mutex::new(());

/// Raises the resource limits of this process. Call it once, at the beginning of `main`.
///
/// Raises the soft limits to the hard ones. Handles SIGXFSZ, so that a write beyond the limit of file sizes fails with
/// EFBIG instead of killing the process. SIGXFSZ is not ignored instead, because child processes would inherit that.
pub fn raise_soft_limits() {
    // Open files; processes and threads; memory that io_uring locks for buffers.
    for resource in [Resource::Nofile, Resource::Nproc, Resource::Memlock] {
        let Rlimit { current, maximum } = getrlimit(resource);
        let raised = current != maximum && setrlimit(resource, Rlimit { current: maximum, maximum }).is_ok();
        // If the kernel refuses, the limit stays; the operation that later exceeds it reports the error.
        if raised && resource == Resource::Nofile {
            // `set` fails only in a second call, which has nothing to raise.
            let _ = ORIGINAL_NOFILE.set(current);
        }
    }
    if !crate::cancel::is_ignored(libc::SIGXFSZ).unwrap_or(true) {
        // SAFETY: the handler does nothing. Without it the signal ends the process, as it did before.
        let _ = unsafe { signal_hook::low_level::register(libc::SIGXFSZ, || {}) };
    }
}

/// Starts a program with the original soft limit of open files.
///
/// This process lowers its own limit while it starts the program. To lower it only in the child would require fork(2), which
/// takes longer than posix_spawn(3), and the start of a command is part of its measured time. Other threads of this process
/// have the lower limit in the meantime: if more files are open than it allows, another one cannot be opened.
///
/// # Errors
/// The errors of [`Command::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let Some(original_limit) = ORIGINAL_NOFILE.get() else { return command.spawn() };
    let guard = LOWERED_LIMIT_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let own_limit = getrlimit(Resource::Nofile);
    let lowered = Rlimit { current: *original_limit, maximum: own_limit.maximum };
    // Neither change can fail: both values are within the hard limit.
    let _ = setrlimit(Resource::Nofile, lowered);
    let spawned = command.spawn();
    let _ = setrlimit(Resource::Nofile, own_limit);
    drop(guard);
    match spawned {
        // This process has more open files than the original limit, so it cannot start the program under that limit.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => command.spawn(),
        spawned => spawned,
    }
}

/// The number of files that this process may have open; None if unlimited.
pub fn max_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Checks that the hard limit of open files is high enough for any run.
///
/// # Errors
/// [`Error::Missing`] with the number needed.
pub fn check_open_files() -> Result<(), Error> {
    match getrlimit(Resource::Nofile).maximum {
        Some(hard_limit) if hard_limit < MIN_OPEN_FILES => Err(Error::Missing(format!(
            "a run needs {MIN_OPEN_FILES} open files in one process, and the hard limit is {hard_limit}: raise it (`ulimit -Hn \
             {MIN_OPEN_FILES}` as root, or LimitNOFILE= of the service)"
        ))),
        _ => Ok(()),
    }
}

/// The largest file that this process may write, in bytes; None if unlimited.
pub fn max_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Checks that this process may write a file of `bytes` bytes; `file` describes the file in the error: `an image`.
///
/// # Errors
/// [`Error::Missing`] with the size needed.
pub fn check_file_size(file: &str, bytes: u64) -> Result<(), Error> {
    match max_file_bytes() {
        Some(limit) if limit < bytes => {
            let (limit, bytes) = (bytesize::ByteSize(limit), bytesize::ByteSize(bytes));
            Err(Error::Missing(format!(
                "this process may write files of at most {limit}, and {file} needs {bytes}: raise the limit of file sizes \
                 (`ulimit -f unlimited`)"
            )))
        }
        _ => Ok(()),
    }
}
