//! Reading directories, and `find`.

use super::at;
use crate::task::Error;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, fstat, openat, statat};
use std::ffi::{CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the programs hand to getdents64.
const ENTRIES: usize = 32 << 10;

/// Something in a directory.
pub struct Entry {
    pub name: CString,
    pub kind: FileType,
    pub inode: u64,
}

impl Entry {
    /// The path of the entry in its directory, for messages and for calls that take one.
    pub fn path_in(&self, dir: &Path) -> PathBuf {
        dir.join(OsStr::from_bytes(self.name.to_bytes()))
    }
}

/// Reads a directory to its end.
pub fn list(dir: impl AsFd, path: &Path) -> Result<Vec<Entry>, Error> {
    // The offset that aligns the buffer may cost a few bytes.
    let mut buffer = vec![MaybeUninit::uninit(); ENTRIES + 8];
    let mut raw = RawDir::new(dir, &mut buffer[..ENTRIES]);
    let mut entries = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry.map_err(at("read", path))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            entries.push(Entry {
                name: entry.file_name().into(),
                kind: entry.file_type(),
                inode: entry.ino(),
            });
        }
    }
    Ok(entries)
}

/// Opens a directory as the programs do: status by name, open, status again.
pub fn open(parent: BorrowedFd, name: &CString, path: &Path) -> Result<OwnedFd, Error> {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", path))?;
    reopen(parent, name, path)
}

/// Opens a directory whose status is known.
pub fn reopen(parent: BorrowedFd, name: &CString, path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY
        | OFlags::NOCTTY
        | OFlags::NONBLOCK
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC
        | OFlags::DIRECTORY;
    let dir = openat(parent, name, flags, Mode::empty()).map_err(at("open", path))?;
    fstat(&dir).map_err(at("stat", path))?;
    Ok(dir)
}

/// A path as the kernel takes it.
pub fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::Unfit(format!("{} has a NUL in it", path.display())))
}

/// Goes through a directory and all below it.
pub fn find(path: &Path) -> Result<(), Error> {
    find_at(CWD, &c_path(path)?, path)
}

fn find_at(parent: BorrowedFd, name: &CString, path: &Path) -> Result<(), Error> {
    let dir = open(parent, name, path)?;
    // find(1) checks that the directory is still the one it looked at.
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", path))?;
    for entry in list(&dir, path)? {
        match entry.kind {
            FileType::Directory => find_at(dir.as_fd(), &entry.name, &entry.path_in(path))?,
            // Not every filesystem stores the type of a file with its name.
            FileType::Unknown => {
                let stat = statat(&dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(at("stat", &entry.path_in(path)))?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    find_at(dir.as_fd(), &entry.name, &entry.path_in(path))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
