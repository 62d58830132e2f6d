//! `find` and `rm -r`.

use super::calls::{WITHIN, c_path, enter, list, open_in, stat};
use crate::error::{Result, at};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, unlinkat};
use std::os::fd::{AsFd, BorrowedFd};
use std::{ffi::CString, path::Path};

/// Goes through a directory and all below it.
pub fn find(path: &Path) -> Result<()> {
    find_in(CWD, &c_path(path)?, path)
}

fn find_in(parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
    let dir = enter(parent, name, path)?;
    // find(1) checks that the directory is still the one it looked at.
    stat(parent, name, path)?;
    for entry in list(&dir, path, usize::MAX)? {
        if entry.kind(|| stat(&dir, &entry.name, &entry.path_in(path)))? == FileType::Directory {
            find_in(dir.as_fd(), &entry.name, &entry.path_in(path))?;
        }
    }
    Ok(())
}

/// Removes a directory and all below it.
pub fn remove(path: &Path) -> Result<()> {
    remove_in(CWD, &c_path(path)?, path)
}

fn remove_in(parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
    // rm(1) first looks whether the directory is empty, and reads it from the start where it is not.
    if !list(enter(parent, name, path)?, path, 1)?.is_empty() {
        let (dir, _) = open_in(parent, name, path, WITHIN | OFlags::DIRECTORY)?;
        for entry in list(&dir, path, usize::MAX)? {
            let below = entry.path_in(path);
            match entry.kind(|| stat(&dir, &entry.name, &below))? {
                FileType::Directory => remove_in(dir.as_fd(), &entry.name, &below)?,
                _ => unlinkat(&dir, &entry.name, AtFlags::empty()).map_err(at("remove", &below))?,
            }
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(at("remove", path))
}
