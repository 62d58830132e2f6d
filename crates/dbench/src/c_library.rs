//! Calls by way of the C library: which system calls it makes of them is then the same as in the real dbench.

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// The modes with which dbench makes things.
const FILE: libc::mode_t = 0o600;

fn done(result: libc::c_int) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// open(2), for files that it makes with 0600.
///
/// # Errors
/// The system's word.
pub fn open(path: &CStr, flags: libc::c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: the path ends in a zero.
    match unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, FILE) } {
        -1 => Err(done(-1).err().unwrap_or(Errno::IO)),
        // SAFETY: it was just opened, and nobody else has it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// unlink(2).
///
/// # Errors
/// The system's word.
pub fn unlink(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path ends in a zero.
    done(unsafe { libc::unlink(path.as_ptr()) })
}

/// rmdir(2).
///
/// # Errors
/// The system's word.
pub fn rmdir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: the path ends in a zero.
    done(unsafe { libc::rmdir(path.as_ptr()) })
}

/// mkdir(2).
///
/// # Errors
/// The system's word.
pub fn mkdir(path: &CStr, mode: libc::mode_t) -> Result<(), Errno> {
    // SAFETY: the path ends in a zero.
    done(unsafe { libc::mkdir(path.as_ptr(), mode) })
}

/// rename(2).
///
/// # Errors
/// The system's word.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), Errno> {
    // SAFETY: the paths end in zeros.
    done(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) })
}

/// stat(2), of a path.
///
/// # Errors
/// The system's word.
pub fn stat(path: &CStr) -> Result<libc::stat, Errno> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends in a zero.
    done(unsafe { libc::stat(path.as_ptr(), found.as_mut_ptr()) })?;
    // SAFETY: the call filled it.
    Ok(unsafe { found.assume_init() })
}

/// fstat(2), of an open file.
///
/// # Errors
/// The system's word.
pub fn fstat(file: &OwnedFd) -> Result<libc::stat, Errno> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the descriptor is open.
    done(unsafe { libc::fstat(file.as_raw_fd(), found.as_mut_ptr()) })?;
    // SAFETY: the call filled it.
    Ok(unsafe { found.assume_init() })
}

/// utime(3): seconds of access and of change.
///
/// # Errors
/// The system's word.
pub fn utime(path: &CStr, accessed: i64, changed: i64) -> Result<(), Errno> {
    let times = libc::utimbuf { actime: accessed, modtime: changed };
    // SAFETY: the path ends in a zero, and the times are a live local.
    done(unsafe { libc::utime(path.as_ptr(), &times) })
}

/// fcntl(2) with F_SETLKW: locks or unlocks a range, and waits for it.
///
/// # Errors
/// The system's word.
pub fn lock(file: &OwnedFd, kind: libc::c_int, start: i64, length: i64) -> Result<(), Errno> {
    // SAFETY: all-zero is valid for this structure.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    (range.l_start, range.l_len) = (start, length);
    // SAFETY: the descriptor is open and the range a live local.
    done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &range) })
}
