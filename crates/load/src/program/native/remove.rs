//! `rm -r`.

use super::at;
use super::dir::{c_path, list, open, reopen};
use crate::task::Error;
use rustix::fs::{AtFlags, CWD, FileType, RawDir, statat, unlinkat};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Removes a directory and all below it.
pub fn tree(path: &Path) -> Result<(), Error> {
    directory(CWD, &c_path(path)?, path)
}

fn directory(parent: BorrowedFd, name: &CString, path: &Path) -> Result<(), Error> {
    // rm(1) first looks whether the directory is empty, and reads it from the start where it is not.
    if !is_empty(open(parent, name, path)?, path)? {
        let dir = reopen(parent, name, path)?;
        for entry in list(&dir, path)? {
            let below = entry.path_in(path);
            let mut kind = entry.kind;
            if kind == FileType::Unknown {
                let stat =
                    statat(&dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", &below))?;
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            if kind == FileType::Directory {
                directory(dir.as_fd(), &entry.name, &below)?;
            } else {
                unlinkat(&dir, &entry.name, AtFlags::empty()).map_err(at("remove", &below))?;
            }
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(at("remove", path))
}

/// Reads a directory up to its first entry.
fn is_empty(dir: OwnedFd, path: &Path) -> Result<bool, Error> {
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut raw = RawDir::new(&dir, &mut buffer);
    while let Some(entry) = raw.next() {
        if !matches!(entry.map_err(at("read", path))?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}
