//! File calls through the C library, so that the kernel sees the same system calls as from the real dbench.
//!
//! rustix makes newer system calls than dbench does (`openat`, `statx`). nix and the standard library call the
//! functions of the C library.

use nix::{fcntl::OFlag, sys::stat::Mode};
use rustix::fd::OwnedFd;
use std::ffi::{CStr, OsStr};
use std::{io, os::unix::ffi::OsStrExt, path::Path};

/// The mode of the files that dbench creates.
const FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// A path as the standard library takes it.
pub fn path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// open(2); a file that it creates gets mode 0600.
///
/// # Errors
/// The error of the system call.
pub fn open(path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(path, OFlag::from_bits_retain(flags) | OFlag::O_CLOEXEC, FILE)?)
}
