//! File calls through the C library, so that the kernel sees the same system calls as from the real dbench.
//!
//! rustix makes newer system calls than dbench does (`openat`, `statx`). nix and the standard library call the
//! functions of the C library.

use nix::fcntl::{FcntlArg, OFlag};
use nix::sys::stat::Mode;
use rustix::fd::OwnedFd;
use std::ffi::{CStr, OsStr};
use std::{io, os::unix::ffi::OsStrExt, path::Path};

/// The mode of the files that dbench creates.
const FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

fn path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// open(2); a file that it creates gets mode 0600.
///
/// # Errors
/// The error of the system call.
pub fn open(path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(path, OFlag::from_bits_retain(flags) | OFlag::O_CLOEXEC, FILE)?)
}

/// rmdir(2).
///
/// # Errors
/// The error of the system call.
pub fn rmdir(text: &CStr) -> io::Result<()> {
    std::fs::remove_dir(path(text))
}

/// rename(2).
///
/// # Errors
/// The error of the system call.
pub fn rename(from: &CStr, to: &CStr) -> io::Result<()> {
    std::fs::rename(path(from), path(to))
}

/// utime(3), with the access and modification times in seconds.
///
/// # Errors
/// The error of the system call.
pub fn utime(path: &CStr, accessed: i64, changed: i64) -> io::Result<()> {
    let times = libc::utimbuf { actime: accessed, modtime: changed };
    // SAFETY: the path ends in a zero byte, and the times outlive the call.
    match unsafe { libc::utime(path.as_ptr(), &times) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// fcntl(2) with F_SETLKW: locks or unlocks a range and waits until it can.
///
/// # Errors
/// The error of the system call.
pub fn lock(file: &OwnedFd, kind: libc::c_int, start: i64, length: i64) -> io::Result<()> {
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: length,
        l_pid: 0,
    };
    Ok(nix::fcntl::fcntl(file, FcntlArg::F_SETLKW(&range)).map(drop)?)
}
