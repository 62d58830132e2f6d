//! The process between fsarena and a guest.
//!
//! No guest may outlive fsarena, however that ends. The kernel kills one process when its parent dies, and those that
//! this one started go on and hold the image. So a process stands between: it leads the group, a signal tells it of its
//! parent's death, and it kills the group.
//!
//! All of it runs between fork and exec, where nothing may be allocated.

use libc::c_int;
use std::io::{Error, Result};

/// Ends a guest's whole group, this process included.
extern "C" fn end_group(_: c_int) {
    // Where it fails there is nothing more to try.
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
}

/// Begins a session, and splits this process in two: the one that returns goes on to be the guest, the other keeps
/// it and ends as it does. `parent` is the process that the guest must not outlive.
///
/// # Errors
/// Those of the system calls.
pub fn split(parent: u32) -> Result<()> {
    // SAFETY: plain system calls, and a handler that makes one.
    unsafe {
        let handler: extern "C" fn(c_int) = end_group;
        let ready = libc::setsid() >= 0
            && libc::signal(libc::SIGTERM, handler as libc::sighandler_t) != libc::SIG_ERR
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == 0;
        if !ready {
            return Err(Error::last_os_error());
        }
        if libc::getppid() != parent as libc::pid_t {
            // It died before it could be told of.
            libc::_exit(1);
        }
        match libc::fork() {
            -1 => Err(Error::last_os_error()),
            0 => {
                libc::signal(libc::SIGTERM, libc::SIG_DFL);
                Ok(())
            }
            guest => keep(guest),
        }
    }
}

/// Waits for the guest and ends with its exit code; with 128 and the signal's number, as shells do, where one ended it.
/// Only for a process that was forked for it: it closes every file.
fn keep(guest: libc::pid_t) -> ! {
    // SAFETY: plain system calls, in a process that was forked for this function.
    unsafe {
        // What it inherited would be held open: the undo journal's lock, the pipes of the guest.
        if libc::syscall(libc::SYS_close_range, 0, c_int::MAX, 0) != 0 {
            (0..libc::sysconf(libc::_SC_OPEN_MAX) as c_int).for_each(|file| {
                libc::close(file);
            });
        }
        let mut status = 0;
        while libc::waitpid(guest, &raw mut status, 0) < 0 {
            if *libc::__errno_location() != libc::EINTR {
                libc::_exit(1);
            }
        }
        if libc::WIFSIGNALED(status) {
            libc::_exit(128 + libc::WTERMSIG(status));
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}
