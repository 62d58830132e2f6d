//! Directories: made so that other users can pass through them, and walked by descriptors. A walk by paths could be led
//! elsewhere: a user who may write to a directory can put a link in the place of a directory in it at any moment.

use rustix::fs::{CWD, Dir, DirEntry, Mode, OFlags, fchmod, fstat, openat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The right of everybody to pass through a directory; who may not read it cannot list it.
const PASS: Mode = Mode::XUSR.union(Mode::XGRP).union(Mode::XOTH);

/// Makes a directory that every user can pass through, whatever the umask is: a workload's user and the user of a server
/// have their files below it. The umask decides who can list it.
///
/// # Errors
/// Where it cannot be made.
pub fn make_dir(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)?;
    let_pass(path)
}

/// Lets every user pass through a directory that this process has just made.
///
/// # Errors
/// Where something else has its name, or the filesystem refuses.
pub fn let_pass(path: &Path) -> io::Result<()> {
    // The directory above may belong to another user, who could put a link in its place.
    let Some(dir) = open(CWD, path)? else { return Err(io::ErrorKind::NotADirectory.into()) };
    let found = fstat(&dir)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("another user has replaced it"));
    }
    Ok(fchmod(&dir, Mode::from_raw_mode(found.st_mode) | PASS)?)
}

/// Makes a directory and the missing ones above it as [`make_dir`] does. One that exists stays as it is.
///
/// # Errors
/// Where one cannot be made, or something else has its name.
pub fn make_dirs(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        make_dirs(above)?;
    }
    match make_dir(path) {
        // Another process may have been quicker.
        Err(_) if path.is_dir() => Ok(()),
        made => made,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn everybody_can_pass_through_new_directories_and_old_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| dir.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
        let old = dir.path().join("old");
        std::fs::create_dir(&old).unwrap();
        std::fs::set_permissions(&old, PermissionsExt::from_mode(0o700)).unwrap();
        make_dirs(&old.join("a/b")).unwrap();
        make_dirs(&old.join("a/b")).unwrap();
        assert_eq!((mode("old"), mode("old/a") & 0o711, mode("old/a/b") & 0o711), (0o700, 0o711, 0o711));
        assert!(make_dir(&old).is_err());
        std::fs::write(old.join("file"), "").unwrap();
        assert!(make_dirs(&old.join("file")).is_err() && make_dirs(&old.join("file/x")).is_err());
    }
}
