//! `cp`, `cp -r` and `cat`.

use super::create::write_all;
use super::dir::{c_path, list};
use super::{BUFFER, at};
use crate::program::Reflink;
use crate::task::Error;
use rustix::fs::{
    Advice, AtFlags, CWD, FileType, Mode, OFlags, copy_file_range, fadvise, fstat, ioctl_ficlone, mkdirat,
    openat, readlinkat, statat, symlinkat,
};
use rustix::io::{Errno, read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What one copy_file_range(2) of cp asks for.
const RANGE: usize = (isize::MAX as usize) >> 30 << 30;

/// Copies a file to a name that is not there.
pub fn file(from: &Path, to: &Path, reflink: Reflink) -> Result<(), Error> {
    statat(CWD, from, AtFlags::empty()).map_err(at("stat", from))?;
    contents(from, to, OFlags::RDONLY, reflink)
}

fn contents(from: &Path, to: &Path, flags: OFlags, reflink: Reflink) -> Result<(), Error> {
    let source = openat(CWD, from, flags, Mode::empty()).map_err(at("open", from))?;
    let mode = Mode::from_raw_mode(fstat(&source).map_err(at("stat", from))?.st_mode & 0o777);
    let created = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let target = openat(CWD, to, created, mode).map_err(at("create", to))?;
    if reflink == Reflink::Auto && ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    fstat(&target).map_err(at("stat", to))?;
    // Advice: a refusal changes nothing.
    let _ = fadvise(&source, 0, None, Advice::Sequential);
    if reflink == Reflink::Auto && by_the_kernel(&source, &target, to)? {
        return Ok(());
    }
    let mut buffer = vec![0; BUFFER];
    loop {
        match read(&source, &mut buffer).map_err(at("read", from))? {
            0 => return Ok(()),
            got => write_all(&target, &buffer[..got], to)?,
        }
    }
}

/// Lets the kernel copy. Whether it could: where it cannot, nothing was copied.
fn by_the_kernel(source: &OwnedFd, target: &OwnedFd, to: &Path) -> Result<bool, Error> {
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
pub fn tree(from: &Path, to: &Path, reflink: Reflink) -> Result<(), Error> {
    let stat = statat(CWD, from, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", from))?;
    mkdirat(CWD, to, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(at("mkdir", to))?;
    statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", to))?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let dir = openat(CWD, from, flags, Mode::empty()).map_err(at("open", from))?;
    fstat(&dir).map_err(at("stat", from))?;
    let mut entries = list(&dir, from)?;
    drop(dir);
    // cp(1) goes through a directory by inode number, to read the disk in order.
    entries.sort_by_key(|entry| entry.inode);
    for entry in entries {
        let (below, copy) = (entry.path_in(from), entry.path_in(to));
        match kind_of(&entry.kind, &below)? {
            FileType::Directory => tree(&below, &copy, reflink)?,
            FileType::Symlink => link(&below, &copy)?,
            _ => {
                statat(CWD, &below, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", &below))?;
                contents(&below, &copy, OFlags::RDONLY | OFlags::NOFOLLOW, reflink)?;
            }
        }
    }
    Ok(())
}

fn kind_of(kind: &FileType, path: &Path) -> Result<FileType, Error> {
    match kind {
        FileType::Unknown => {
            let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", path))?;
            Ok(FileType::from_raw_mode(stat.st_mode))
        }
        kind => Ok(*kind),
    }
}

fn link(from: &Path, to: &Path) -> Result<(), Error> {
    statat(CWD, from, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", from))?;
    let target = readlinkat(CWD, from, Vec::new()).map_err(at("read link", from))?;
    symlinkat(&target, CWD, &c_path(to)?).map_err(at("link", to))
}

/// Reads a file and writes it to /dev/null.
pub fn cat(path: &Path) -> Result<(), Error> {
    let null = Path::new("/dev/null");
    let out = openat(CWD, null, OFlags::WRONLY, Mode::empty()).map_err(at("open", null))?;
    let file = openat(CWD, path, OFlags::RDONLY, Mode::empty()).map_err(at("open", path))?;
    fstat(&file).map_err(at("stat", path))?;
    let _ = fadvise(&file, 0, None, Advice::Sequential);
    let mut buffer = vec![0; BUFFER];
    loop {
        match read(&file, &mut buffer).map_err(at("read", path))? {
            0 => return Ok(()),
            got => write_all(&out, &buffer[..got], null)?,
        }
    }
}
