//! A command that was started: its output in memory, its end, and its peak memory.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::process::{Child, ExitStatus};
use std::{fs::File, os::unix::process::ExitStatusExt};

/// An unnamed file in memory.
pub fn memory_file(name: &str) -> std::io::Result<File> {
    Ok(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Waits until a child ends; kills its process group when a signal asks fsarena to stop.
pub fn kill_when_asked(child: &Child) {
    let Some(pid) = Pid::from_raw(child.id() as i32) else { return };
    // Without pidfds (Linux before 5.3) the command just runs to its end.
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    // A signal ends the poll, but it may come just before it, or to another thread.
    let glance = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&glance)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
        if crate::cancel::requested().is_some() {
            // It may have ended meanwhile; then there is nothing to kill.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Waits for a child with wait4(2), the only call that reports the peak memory of this one child. Neither rustix nor nix
/// has it.
pub fn reap(child: Child) -> std::io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    loop {
        // SAFETY: rusage is plain data for which all-zero is valid, and both pointers are to live locals; the pid is that
        // of our own unreaped child.
        let (ended, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage), usage)
        };
        match ended {
            -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            -1 => return Err(std::io::Error::last_os_error()),
            _ => return Ok((ExitStatus::from_raw(status), usage.ru_maxrss as u64 * 1024)),
        }
    }
}
