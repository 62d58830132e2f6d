//! PID namespaces: whatever runs in one ends with its first process, whatever it did to its environment, its session and
//! its parents.
//!
//! The first process of a namespace, the init, does nothing but wait for a program that it is the parent of. It ends with
//! that program, and with the process that started it; then the kernel kills all that is left in the namespace, and the
//! init is gone only after that. So who has waited for the init knows that nothing is left.

use crate::limits;
use crate::rights::{mount_proc, own_namespace};
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountPropagationFlags;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::io::{Error, Result};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::{ffi::c_int, os::fd::AsFd};

/// The init's exit code for a program that a signal ended: this and the signal's number, as in shells.
const SIGNALLED: c_int = 128;

/// Whether this process may start programs in a PID namespace of their own, with a /proc that shows it. A child tries.
pub fn is_available() -> bool {
    let tried = std::thread::spawn(|| {
        own_namespace(MountPropagationFlags::PRIVATE)?;
        born_into_new_namespace(can_mount_proc)
    });
    tried.join().is_ok_and(|tried| tried.unwrap_or(false))
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
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            Ok(ended == child && status == 0)
        }
    }
}

/// Starts one process, which becomes the first of a new PID namespace. Later children of this thread are born where it is
/// itself; until then it could start no thread.
fn born_into_new_namespace<T>(start: impl FnOnce() -> Result<T>) -> Result<T> {
    let own = rustix::fs::open("/proc/self/ns/pid", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: no file descriptor table is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID)? };
    let started = start();
    // In a user namespace that has no PID namespace of its own the kernel refuses this.
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    started
}

/// Starts a program in a PID namespace of its own. The child that is returned is the init of the namespace; wait for it
/// with [`wait`]. It is in the process group of this process and ends when the calling thread does.
///
/// Where this process dies before the init asked the kernel to follow it, the program still starts, so it must do
/// nothing before this process has told it to.
///
/// # Errors
/// Where the kernel refuses, or the program cannot be started.
pub fn spawn(command: &mut Command) -> Result<Child> {
    // SAFETY: between fork and exec it makes system calls and allocates nothing.
    unsafe { command.pre_exec(split) };
    born_into_new_namespace(|| limits::spawn(command))
}

/// Waits until an init has ended, and with it all that ran in its namespace. Returns how its program ended.
///
/// # Errors
/// Those of waiting.
pub fn wait(init: &mut Child) -> Result<ExitStatus> {
    let status = init.wait()?;
    Ok(match status.code() {
        Some(code) if code > SIGNALLED => ExitStatus::from_raw(code - SIGNALLED),
        _ => status,
    })
}

/// Splits the first process of a namespace in two: the one that returns goes on to be the program, the other is the init.
fn split() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // SAFETY: the child goes on as this process would have.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => Ok(()),
        program => be_init(program),
    }
}

/// Reaps every process that ends until the program does, and ends as it did. Only for a process that was forked for it:
/// it closes every file.
fn be_init(program: libc::pid_t) -> ! {
    // SAFETY: plain system calls, in a process that was forked for this function.
    unsafe {
        // Held open they would keep the readers of pipes waiting, and the lock of the undo journal.
        if libc::syscall(libc::SYS_close_range, 0, c_int::MAX, 0) != 0 {
            for file in 0..libc::sysconf(libc::_SC_OPEN_MAX) as c_int {
                libc::close(file);
            }
        }
        loop {
            let mut status = 0;
            let ended = libc::waitpid(-1, &raw mut status, 0);
            if ended == program && libc::WIFSIGNALED(status) {
                libc::_exit(SIGNALLED + libc::WTERMSIG(status));
            } else if ended == program {
                libc::_exit(libc::WEXITSTATUS(status));
            } else if ended < 0 && *libc::__errno_location() != libc::EINTR {
                libc::_exit(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::process;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    fn available() -> bool {
        let available = is_available();
        if !available {
            fsarena_skip::skipped("PID namespaces");
        }
        available
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command
    }

    #[test]
    fn a_program_is_the_child_of_its_init_and_its_end_is_told() {
        if !available() {
            return;
        }
        for (script, code, signal) in [
            ("exit 3", Some(3), None),
            ("test $$ = 2 && test $PPID = 1", Some(0), None),
            ("kill -KILL $$", None, Some(libc::SIGKILL)),
            // It cannot end its init.
            ("kill -KILL 1; kill -STOP 1; exit 4", Some(4), None),
        ] {
            let status = wait(&mut spawn(&mut shell(script)).unwrap()).unwrap();
            assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
        }
        // Later children are born where this process is.
        let status = shell("test $PPID != 1 && test $$ != 1").status().unwrap();
        assert!(status.success());
        std::thread::spawn(|| ()).join().unwrap();
    }

    #[test]
    fn nothing_outlives_an_init() {
        if !available() {
            return;
        }
        // The shell's child leaves everything by which it could be found.
        let escape = "setsid env -i sh -c 'sleep 60 & sleep 60' >/dev/null 2>&1 & echo; ";
        for (script, kill) in [("", false), ("sleep 60", true)] {
            let mut command = shell(&format!("{escape}{script}"));
            command.process_group(0);
            let mut init = spawn(&mut command).unwrap();
            let kernel = Kernel::host();
            let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
            let own = namespace(init.id() as i32);
            BufReader::new(init.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
            if kill {
                init.kill().unwrap();
            }
            wait(&mut init).unwrap();
            let left: Vec<i32> =
                process::all(&kernel).unwrap().into_iter().filter(|pid| namespace(*pid) == own).collect();
            assert_eq!(left, [0; 0], "{script}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        if !available() {
            return;
        }
        let error = spawn(&mut Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
