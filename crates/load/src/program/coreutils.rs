//! `cp`, `cp -r`, `cat`, `find` and `rm -r`.

use super::calls::{self, WITHIN, c_path, create, enter, list, look, open, open_in, stat};
use crate::error::{Result, at};
use rustix::fs::{
    Advice, AtFlags, CWD, FileType, Mode, OFlags, copy_file_range, fadvise, ioctl_ficlone, mkdirat,
    readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::{ffi::CString, fs::File, path::Path};

/// What one copy_file_range(2) of cp asks for.
const RANGE: usize = (isize::MAX as usize) >> 30 << 30;

/// Copies a file to a name that is not there.
pub fn file(from: &Path, to: &Path, clones: bool) -> Result<()> {
    statat(CWD, from, AtFlags::empty()).map_err(at("stat", from))?;
    contents(from, to, OFlags::RDONLY, clones)
}

fn contents(from: &Path, to: &Path, flags: OFlags, clones: bool) -> Result<()> {
    let source = open(from, flags)?;
    let target = create(to, OFlags::EXCL, look(&source, from)?.st_mode & 0o777)?;
    if clones && ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    look(&target, to)?;
    // Advice: a refusal changes nothing.
    let _ = fadvise(&source, 0, None, Advice::Sequential);
    if clones && by_the_kernel(&source, &target, to)? {
        return Ok(());
    }
    calls::copy(&source, from, &target, to)
}

/// Lets the kernel copy. Whether it could: where it cannot, nothing was copied.
fn by_the_kernel(source: &File, target: &File, to: &Path) -> Result<bool> {
    let mut copied = false;
    loop {
        match copy_file_range(source, None, target, None, RANGE) {
            // It also says 0 of files it cannot tell the size of; reading them once more does no harm.
            Ok(0) => return Ok(copied),
            Ok(_) => copied = true,
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if !copied => return Ok(false),
            Err(errno) => return Err(at("write", to)(errno)),
        }
    }
}

/// Copies a directory to a name that is not there.
pub fn tree(from: &Path, to: &Path, clones: bool) -> Result<()> {
    let mode = Mode::from_raw_mode(stat(CWD, from, from)?.st_mode & 0o777);
    mkdirat(CWD, to, mode).map_err(at("mkdir", to))?;
    stat(CWD, to, to)?;
    let dir = open(from, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::DIRECTORY)?;
    look(&dir, from)?;
    let mut entries = list(&dir, from, usize::MAX)?;
    drop(dir);
    // cp(1) goes through a directory by inode number, to read the disk in order.
    entries.sort_by_key(|entry| entry.inode);
    for entry in entries {
        let (below, copy) = (entry.path_in(from), entry.path_in(to));
        match entry.kind(|| stat(CWD, &below, &below))? {
            FileType::Directory => tree(&below, &copy, clones)?,
            FileType::Symlink => link(&below, &copy)?,
            _ => {
                stat(CWD, &below, &below)?;
                contents(&below, &copy, OFlags::RDONLY | OFlags::NOFOLLOW, clones)?;
            }
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> Result<()> {
    stat(CWD, from, from)?;
    let target = readlinkat(CWD, from, Vec::new()).map_err(at("read link", from))?;
    symlinkat(&target, CWD, &c_path(to)?).map_err(at("link", to))
}

/// Reads a file and writes it to /dev/null.
pub fn cat(path: &Path) -> Result<()> {
    let null = Path::new("/dev/null");
    let out = open(null, OFlags::WRONLY)?;
    let file = open(path, OFlags::RDONLY)?;
    look(&file, path)?;
    let _ = fadvise(&file, 0, None, Advice::Sequential);
    calls::copy(&file, path, &out, null)
}

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
