//! A process on each machine that cleans up where mpirun kills the ranks.
//!
//! Open MPI 4.1 sends SIGKILL 50 ms after SIGTERM: too early to end all work and to remove its files. The guard is in a
//! separate process group, where this does not reach it. It holds a pipe of its rank, and when that is gone, it undoes
//! what the journals of dead processes name.

use fsarena_run::RunError;
use fsarena_sys::{kernel::SysRoot, undo};
use std::process::{ChildStdin, Command, Stdio};
use std::{ffi::OsStr, io::Read, os::unix::process::CommandExt, time::Duration};

/// The argument that makes a process the guard.
const ARGUMENT: &str = "guard";
/// How long the guard waits for the other ranks of its machine to die.
const EXIT_DELAY: Duration = Duration::from_millis(200);

/// Starts the guard of this machine. It cleans up once the returned pipe is closed.
///
/// # Errors
/// If the guard cannot be started.
pub fn start() -> Result<ChildStdin, RunError> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("fsarena-mpi").arg(ARGUMENT).process_group(0);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let pipe = child.and_then(|mut child| child.stdin.take().ok_or_else(|| std::io::Error::other("no pipe")));
    pipe.map_err(|error| {
        RunError::Missing(format!("the process that cleans up after a kill cannot be started: {error}"))
    })
}

/// Runs the guard and exits if this process was started as one; returns otherwise.
pub fn run_if_guard() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(ARGUMENT)) || args.next().is_some() {
        return;
    }
    drop(std::io::stdin().read_to_end(&mut vec![]));
    std::thread::sleep(EXIT_DELAY);
    let recovered = undo::recover(&SysRoot::host(), &undo::state_dir(), &mut |_| ());
    std::process::exit(i32::from(recovered.is_err()))
}
