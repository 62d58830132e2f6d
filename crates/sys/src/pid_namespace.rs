//! PID namespaces, in which fsarena runs a program so that none of its processes can outlive it.
//!
//! The kernel kills all processes of a namespace when its first process, the init, exits. No process can escape that by
//! changing its environment, session or parent. fsarena's init only waits for one program, its child. It exits when that
//! program exits, or when the process that started the init dies. The kernel kills the remaining processes of the namespace
//! before the init can be reaped, so none is left once [`wait`] returns.

use crate::limits;
use crate::rights::{mount_proc, unshare_mount_namespace};
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountPropagationFlags;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::io::{Error, Result};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::{ffi::c_int, os::fd::AsFd};

/// If a signal ended the program, the init exits with this number plus the number of the signal, like a shell.
const SIGNAL_EXIT_BASE: c_int = 128;
/// The largest number of a signal.
const LAST_SIGNAL: c_int = 64;

/// Whether this process may start programs in a new PID namespace and mount a `/proc` for it. A child process tries both.
pub fn is_available() -> bool {
    let attempt = std::thread::spawn(|| {
        unshare_mount_namespace(MountPropagationFlags::PRIVATE)?;
        start_in_new_namespace(can_mount_proc)
    });
    attempt.join().is_ok_and(|mounted| mounted.unwrap_or(false))
}

/// Whether a child of this thread may mount its own /proc.
fn can_mount_proc() -> Result<bool> {
    // SAFETY: the child makes two system calls and allocates nothing.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            let mounted = mount_proc();
            // SAFETY: it ends the child at once.
            unsafe { libc::_exit(c_int::from(mounted.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer is to a live local.
            let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
            Ok(reaped == child && status == 0)
        }
    }
}

/// Calls `start_child`, which starts one child process; this child becomes the init of a new PID namespace. Afterwards new
/// children of this thread start in its own PID namespace again. `start_child` cannot create threads.
fn start_in_new_namespace<T>(start_child: impl FnOnce() -> Result<T>) -> Result<T> {
    let own_namespace = rustix::fs::open("/proc/self/ns/pid", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: no file descriptor table is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID)? };
    let result = start_child();
    // The kernel refuses this if the user namespace of this process has no PID namespace.
    move_into_link_name_space(own_namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    result
}

/// Starts a program in a new PID namespace. The returned child is the init of the namespace; wait for it with [`wait`].
/// The init is in the process group of this process, unless `command` sets another, and the kernel kills it when the calling
/// thread exits.
///
/// If this process dies before the init has set its parent-death signal, the program still starts. So the program must
/// do nothing until this process sends it a request.
///
/// # Errors
/// The kernel refuses a new namespace, or the program cannot be started.
pub fn spawn(command: &mut Command) -> Result<Child> {
    // SAFETY: between fork and exec it makes system calls and allocates nothing.
    unsafe { command.pre_exec(fork_init) };
    start_in_new_namespace(|| limits::spawn(command))
}

/// Waits until an init and all other processes of its namespace have ended. Returns the exit status of its program.
///
/// # Errors
/// The error of waitpid(2).
pub fn wait(init: &mut Child) -> Result<ExitStatus> {
    let status = init.wait()?;
    Ok(match status.code() {
        Some(code) if (1..=LAST_SIGNAL).contains(&(code - SIGNAL_EXIT_BASE)) => {
            ExitStatus::from_raw(code - SIGNAL_EXIT_BASE)
        }
        _ => status,
    })
}

/// Forks the first process of a namespace: the parent stays as the init, and the child returns to exec the program.
fn fork_init() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // SAFETY: the child only returns to the exec that would have followed anyway.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => Ok(()),
        child => exit_with_child(child),
    }
}

/// Closes every file descriptor, reaps children until `child` ends, then exits with its exit code, or with 128 plus the
/// number of the signal that ended it. Only for a process that was forked for this; the function allocates nothing.
pub fn exit_with_child(child: libc::pid_t) -> ! {
    // SAFETY: plain system calls, in a process that was forked for this function.
    unsafe {
        // Open descriptors would keep pipes from reaching their end, and would hold the lock of the undo journal.
        if libc::syscall(libc::SYS_close_range, 0, c_int::MAX, 0) != 0 {
            for fd in 0..libc::sysconf(libc::_SC_OPEN_MAX) as c_int {
                libc::close(fd);
            }
        }
        loop {
            let mut status = 0;
            let reaped = libc::waitpid(-1, &raw mut status, 0);
            if reaped == child && libc::WIFSIGNALED(status) {
                libc::_exit(SIGNAL_EXIT_BASE + libc::WTERMSIG(status));
            } else if reaped == child {
                libc::_exit(libc::WEXITSTATUS(status));
            } else if reaped < 0 && *libc::__errno_location() != libc::EINTR {
                libc::_exit(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::SysRoot;
    use crate::process;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    /// Whether PID namespaces are available. Records a skip of the test if they are not.
    fn can_run_test() -> bool {
        let available = is_available();
        if !available {
            crate::testkit::record_skip("PID namespaces");
        }
        available
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command
    }

    #[test]
    fn wait_returns_the_exit_status_of_the_program() {
        if !can_run_test() {
            return;
        }
        for (script, code, signal) in [
            ("exit 3", Some(3), None),
            ("exit 255", Some(255), None),
            ("test $$ = 2 && test $PPID = 1", Some(0), None),
            ("kill -KILL $$", None, Some(libc::SIGKILL)),
            // A program cannot kill or stop its init.
            ("kill -KILL 1; kill -STOP 1; exit 4", Some(4), None),
        ] {
            let status = wait(&mut spawn(&mut shell(script)).unwrap()).unwrap();
            assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
        }
        // Later children start in the PID namespace of this process.
        let status = shell("test $PPID != 1 && test $$ != 1").status().unwrap();
        assert!(status.success());
        std::thread::spawn(|| ()).join().unwrap();
    }

    #[test]
    fn no_process_outlives_an_init() {
        if !can_run_test() {
            return;
        }
        // The child of the shell leaves its session, process group and environment.
        let escape = "setsid env -i sh -c 'sleep 60 & sleep 60' >/dev/null 2>&1 & echo; ";
        for (script, kills_init) in [("", false), ("sleep 60", true)] {
            let mut command = shell(&format!("{escape}{script}"));
            command.process_group(0);
            let mut init = spawn(&mut command).unwrap();
            let kernel = SysRoot::host();
            let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
            let init_namespace = namespace(init.id() as i32);
            BufReader::new(init.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
            if kills_init {
                init.kill().unwrap();
            }
            wait(&mut init).unwrap();
            let survivors: Vec<i32> = process::all_pids(&kernel)
                .unwrap()
                .into_iter()
                .filter(|pid| namespace(*pid) == init_namespace)
                .collect();
            assert_eq!(survivors, [0; 0], "{script}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        if !can_run_test() {
            return;
        }
        let error = spawn(&mut Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
