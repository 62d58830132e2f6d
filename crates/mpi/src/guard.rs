//! The guard: a process on each machine that cleans up if mpirun kills the ranks.
//!
//! Open MPI 4.1 sends SIGKILL 50 ms after SIGTERM: too early to end all work and to remove its files. The signals do not
//! reach the guard, because it is in a separate process group. It reads from a pipe that its rank holds open; when the rank
//! dies, the pipe closes, and the guard undoes the changes that the journals of dead processes list.

use fsarena_run::RunError;
use fsarena_sys::{kernel::SysRoot, undo};
use std::process::{ChildStdin, Command, Stdio};
use std::{ffi::OsStr, io::Read, os::unix::process::CommandExt, time::Duration};

/// The only argument of the guard's process.
const GUARD_ARGUMENT: &str = "guard";
/// How long the guard waits for the other ranks of its machine to die.
const EXIT_DELAY: Duration = Duration::from_millis(200);

/// Starts the guard of this machine. It cleans up once the returned pipe is closed.
///
/// # Errors
/// If the guard cannot be started.
pub fn start() -> Result<ChildStdin, RunError> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("fsarena-mpi").arg(GUARD_ARGUMENT).process_group(0);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let start_error = |error: std::io::Error| {
        RunError::Missing(format!("the process that cleans up after a kill cannot be started: {error}"))
    };
    let pipe = child.map_err(start_error)?.stdin.take();
    pipe.ok_or_else(|| start_error(std::io::Error::other("no pipe")))
}

/// If this process was started as a guard, runs the guard and exits; else returns at once.
pub fn run_if_guard() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(GUARD_ARGUMENT)) || args.next().is_some() {
        return;
    }
    drop(std::io::stdin().read_to_end(&mut vec![]));
    std::thread::sleep(EXIT_DELAY);
    let recovered = undo::recover(&SysRoot::host(), &undo::state_dir(), None, &mut |_| ());
    std::process::exit(i32::from(recovered.is_err()))
}
