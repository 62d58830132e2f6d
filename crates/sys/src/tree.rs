//! Walking a directory by descriptors. A walk by paths could be led elsewhere: a user who may write to a directory can
//! put a link in the place of a directory in it at any moment.

use rustix::fs::{Dir, DirEntry, Mode, OFlags, openat};
use rustix::io::{Errno, Result};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, path::PathBuf};

/// Opens a directory in an open one. None where that name is something else, such as a link to a directory.
pub fn open(parent: BorrowedFd, name: &Path) -> Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(None),
        opened => opened.map(Some),
    }
}

/// The names in an open directory.
pub fn names(dir: &OwnedFd) -> Result<Vec<PathBuf>> {
    let name = |entry: DirEntry| PathBuf::from(OsStr::from_bytes(entry.file_name().to_bytes()));
    let mut names = Dir::read_from(dir)?.map(|entry| entry.map(name)).collect::<Result<Vec<_>>>()?;
    names.retain(|name| ![".", ".."].map(Path::new).contains(&name.as_path()));
    Ok(names)
}
