//! Makes the system calls of `cp`, `cat`, `find`, `rm -r`, `touch`, `mkdir`, `dd if=/dev/zero` and `split -b` in this
//! process. Errors name the file.

use crate::error::{Result, TaskError, failed_to};
use crate::program::op::{SPLIT_LETTERS, numbered_name};
use rustix::fs::{
    Advice, AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, Timespec, Timestamps, UTIME_NOW, chmodat,
    copy_file_range, fadvise, fstat, ftruncate, futimens, ioctl_ficlone, mkdirat, openat, readlinkat, statat,
    symlinkat, unlinkat,
};
use rustix::{io::Errno, path::Arg};
use std::ffi::{CString, OsStr};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{fs::File, mem::MaybeUninit, os::unix::ffi::OsStrExt};

/// Bytes that cp(1) requests from one copy_file_range(2).
const COPY_RANGE_BYTES: usize = (isize::MAX as usize) >> 30 << 30;

/// Copies a file as `cp` does. The target must not exist. `may_clone` lets the filesystem share blocks.
pub fn copy_file(from: &Path, to: &Path, may_clone: bool) -> Result<()> {
    statat(CWD, from, AtFlags::empty()).map_err(failed_to("stat", from))?;
    copy_file_contents(from, to, OFlags::RDONLY, may_clone)
}

fn copy_file_contents(from: &Path, to: &Path, flags: OFlags, may_clone: bool) -> Result<()> {
    let source = open_file(from, flags)?;
    let target = create_file(to, OFlags::EXCL, read_status(&source, from)?.st_mode & 0o777)?;
    if may_clone && ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    read_status(&target, to)?;
    // An error changes nothing, because this is only a hint.
    let _ = fadvise(&source, 0, None, Advice::Sequential);
    if may_clone && copy_in_kernel(&source, &target, to)? {
        return Ok(());
    }
    copy_contents(&source, from, &target, to, BUFFER_BYTES)
}

/// Copies with copy_file_range(2). Returns false, with nothing copied, if the filesystem does not support it.
fn copy_in_kernel(source: &File, target: &File, to: &Path) -> Result<bool> {
    let mut copied = false;
    loop {
        match copy_file_range(source, None, target, None, COPY_RANGE_BYTES) {
            // The call also returns 0 for files of unknown size, which the caller then reads.
            Ok(0) => return Ok(copied),
            Ok(_) => copied = true,
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if !copied => return Ok(false),
            Err(errno) => return Err(failed_to("write", to)(errno)),
        }
    }
}

/// Copies a directory tree as `cp -r` does. The target must not exist.
pub fn copy_tree(from: &Path, to: &Path, may_clone: bool) -> Result<()> {
    let mode = Mode::from_raw_mode(read_status_by_name(CWD, from, from)?.st_mode & 0o777);
    mkdirat(CWD, to, mode).map_err(failed_to("mkdir", to))?;
    let made_mode = Mode::from_raw_mode(read_status_by_name(CWD, to, to)?.st_mode & 0o7777);
    // cp(1), too, makes a read-only directory writable until it has copied the entries.
    let change_mode = |mode| chmodat(CWD, to, mode, AtFlags::empty()).map_err(failed_to("change the mode of", to));
    let is_read_only = !made_mode.contains(Mode::RWXU);
    if is_read_only {
        change_mode(made_mode | Mode::RWXU)?;
    }
    let dir = open_file(from, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::DIRECTORY)?;
    read_status(&dir, from)?;
    let mut entries = read_directory(&dir, from, usize::MAX)?;
    drop(dir);
    // cp(1) copies the entries of a directory by inode number, to read the disk in order.
    entries.sort_by_key(|entry| entry.inode);
    for entry in entries {
        let (source, target) = (entry.path_in(from), entry.path_in(to));
        match entry.file_type(|| read_status_by_name(CWD, &source, &source))? {
            FileType::Directory => copy_tree(&source, &target, may_clone)?,
            FileType::Symlink => copy_link(&source, &target)?,
            _ => {
                read_status_by_name(CWD, &source, &source)?;
                copy_file_contents(&source, &target, OFlags::RDONLY | OFlags::NOFOLLOW, may_clone)?;
            }
        }
    }
    if is_read_only { change_mode(made_mode) } else { Ok(()) }
}

fn copy_link(from: &Path, to: &Path) -> Result<()> {
    read_status_by_name(CWD, from, from)?;
    let target = readlinkat(CWD, from, Vec::new()).map_err(failed_to("read link", from))?;
    symlinkat(&target, CWD, &c_path(to)?).map_err(failed_to("link", to))
}

/// Reads a file and writes it to /dev/null, as `cat` does.
pub fn cat(path: &Path) -> Result<()> {
    let null = Path::new("/dev/null");
    let out = open_file(null, OFlags::WRONLY)?;
    let file = open_file(path, OFlags::RDONLY)?;
    read_status(&file, path)?;
    let _ = fadvise(&file, 0, None, Advice::Sequential);
    copy_contents(&file, path, &out, null, BUFFER_BYTES)
}

/// Walks through a directory tree as `find` does.
pub fn find(path: &Path) -> Result<()> {
    walk_directory(CWD, &c_path(path)?, path)
}

fn walk_directory(parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
    let dir = open_directory(parent, name, path)?;
    // find(1) checks that the directory is still the same one.
    read_status_by_name(parent, name, path)?;
    for entry in read_directory(&dir, path, usize::MAX)? {
        if entry.file_type(|| read_status_by_name(&dir, &entry.name, &entry.path_in(path)))? == FileType::Directory {
            walk_directory(dir.as_fd(), &entry.name, &entry.path_in(path))?;
        }
    }
    Ok(())
}

/// Removes a directory tree as `rm -r` does.
pub fn remove_tree(path: &Path) -> Result<()> {
    remove_directory(CWD, &c_path(path)?, path)
}

fn remove_directory(parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
    // rm(1) first checks whether the directory is empty. If not, it opens it again and reads it from the start.
    if !read_directory(open_directory(parent, name, path)?, path, 1)?.is_empty() {
        let (dir, _) = open_entry(parent, name, path, ENTRY_OPEN_FLAGS | OFlags::DIRECTORY)?;
        for entry in read_directory(&dir, path, usize::MAX)? {
            let entry_path = entry.path_in(path);
            match entry.file_type(|| read_status_by_name(&dir, &entry.name, &entry_path))? {
                FileType::Directory => remove_directory(dir.as_fd(), &entry.name, &entry_path)?,
                _ => unlinkat(&dir, &entry.name, AtFlags::empty()).map_err(failed_to("remove", &entry_path))?,
            }
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(failed_to("remove", path))
}

/// Bytes that cp, cat and split read at a time.
const BUFFER_BYTES: usize = 128 << 10;
/// Bytes of the buffer that the programs pass to getdents64(2).
const GETDENTS_BYTES: usize = 32 << 10;
/// The flags with which find, rm and tar open the entries of a tree.
pub const ENTRY_OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NOCTTY).union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An entry of a directory.
pub struct DirectoryEntry {
    /// Name in the directory.
    pub name: CString,
    /// Inode number.
    pub inode: u64,
    reported_type: FileType,
}

impl DirectoryEntry {
    /// The path of the entry in its directory, for messages and for calls that take a path.
    pub fn path_in(&self, dir: &Path) -> PathBuf {
        dir.join(OsStr::from_bytes(self.name.to_bytes()))
    }

    /// The type of the entry. Calls `stat` on filesystems whose directories have no file types.
    pub fn file_type(&self, stat: impl FnOnce() -> Result<Stat>) -> Result<FileType> {
        match self.reported_type {
            FileType::Unknown => Ok(FileType::from_raw_mode(stat()?.st_mode)),
            file_type => Ok(file_type),
        }
    }
}

/// Reads the entries of a directory without `.` and `..`, until its end or until there are `max_entries` entries.
pub fn read_directory(dir: impl AsFd, path: &Path, max_entries: usize) -> Result<Vec<DirectoryEntry>> {
    // More than the programs' buffer, because aligning the buffer can take a few bytes.
    let mut buffer = vec![MaybeUninit::uninit(); GETDENTS_BYTES + 8];
    let mut raw_entries = RawDir::new(dir, &mut buffer[..GETDENTS_BYTES]);
    let mut entries = Vec::new();
    while entries.len() < max_entries
        && let Some(entry) = raw_entries.next()
    {
        let entry = entry.map_err(failed_to("read", path))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            let (name, reported_type) = (entry.file_name().into(), entry.file_type());
            entries.push(DirectoryEntry { name, inode: entry.ino(), reported_type });
        }
    }
    Ok(entries)
}

/// Opens an existing file.
pub fn open_file(path: &Path, flags: OFlags) -> Result<File> {
    openat(CWD, path, flags, Mode::empty()).map(File::from).map_err(failed_to("open", path))
}

/// Opens an entry of a directory and reads its status.
pub fn open_entry(parent: impl AsFd, name: &CString, path: &Path, flags: OFlags) -> Result<(OwnedFd, Stat)> {
    let file = openat(parent, name, flags, Mode::empty()).map_err(failed_to("open", path))?;
    let stat = read_status(&file, path)?;
    Ok((file, stat))
}

/// Opens a directory as find and rm do: reads its status by name, opens it, and reads its status again.
pub fn open_directory(parent: BorrowedFd, name: &CString, path: &Path) -> Result<OwnedFd> {
    read_status_by_name(parent, name, path)?;
    Ok(open_entry(parent, name, path, ENTRY_OPEN_FLAGS | OFlags::DIRECTORY)?.0)
}

/// Opens a file for writing, and creates it with this mode if it does not exist.
pub fn create_file(path: &Path, flags: OFlags, mode: u32) -> Result<File> {
    let created = openat(CWD, path, OFlags::WRONLY | OFlags::CREATE | flags, Mode::from_raw_mode(mode));
    created.map(File::from).map_err(failed_to("create", path))
}

/// Reads the status of an open file with fstat(2).
pub fn read_status(file: impl AsFd, path: &Path) -> Result<Stat> {
    fstat(file).map_err(failed_to("stat", path))
}

/// Reads the status of a name without following a symbolic link.
pub fn read_status_by_name(parent: impl AsFd, name: impl Arg, path: &Path) -> Result<Stat> {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed_to("stat", path))
}

/// Copies a file, or an entry of an archive, from its current position to its end. Each read requests `buffer_bytes`.
pub fn copy_contents(
    mut from: impl Read,
    from_path: &Path,
    to: &File,
    to_path: &Path,
    buffer_bytes: usize,
) -> Result<()> {
    let mut buffer = vec![0; buffer_bytes];
    while let read_bytes @ 1.. = from.read(&mut buffer).map_err(failed_to("read", from_path))? {
        write_all(to, &buffer[..read_bytes], to_path)?;
    }
    Ok(())
}

/// Writes all bytes, with several calls if necessary.
fn write_all(mut file: &File, bytes: &[u8], path: &Path) -> Result<()> {
    file.write_all(bytes).map_err(failed_to("write", path))
}

/// Converts a path to a C string.
pub fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| TaskError::Unfit(format!("{} has a NUL in it", path.display())))
}

/// Touches `count` numbered files in a directory one after the other, as `touch` does.
pub fn touch_files(dir: &Path, count: u64) -> Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let now = Timestamps { last_access: now, last_modification: now };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOCTTY | OFlags::NONBLOCK;
    for number in 0..count {
        let path = dir.join(numbered_name("f", number));
        openat(CWD, &path, flags, Mode::from_raw_mode(0o666))
            .and_then(|file| futimens(&file, &now))
            .map_err(failed_to("touch", &path))?;
    }
    Ok(())
}

/// Makes `count` numbered directories in a directory one after the other.
pub fn make_directories(dir: &Path, count: u64) -> Result<()> {
    for number in 0..count {
        let path = dir.join(numbered_name("d", number));
        mkdirat(CWD, &path, Mode::from_raw_mode(0o777)).map_err(failed_to("mkdir", &path))?;
    }
    Ok(())
}

/// Writes a file of zeros, 1 MiB at a time.
pub fn write_zeros(path: &Path, mebibytes: u64) -> Result<()> {
    let zero_path = Path::new("/dev/zero");
    let zero = open_file(zero_path, OFlags::RDONLY)?;
    let file = create_file(path, OFlags::TRUNC, 0o666)?;
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..mebibytes {
        let read_bytes = rustix::io::read(&zero, &mut buffer).map_err(failed_to("read", zero_path))?;
        write_all(&file, &buffer[..read_bytes], path)?;
    }
    Ok(())
}

/// Splits a file into pieces of `piece_bytes` bytes, named `INTO/xaaaaa`, `INTO/xaaaab`, …
pub fn split_file(path: &Path, piece_bytes: usize, into: &Path) -> Result<()> {
    let file = open_file(path, OFlags::RDONLY)?;
    read_status(&file, path)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut piece_count = 0;
    // The open piece, and the bytes that it still lacks. If a buffer ends within a piece, two writes fill the piece.
    let mut open_piece: Option<(File, usize)> = None;
    while let read_bytes @ 1.. = rustix::io::read(&file, &mut buffer).map_err(failed_to("read", path))? {
        let mut unwritten = &buffer[..read_bytes];
        while !unwritten.is_empty() {
            let (piece, missing_bytes) = match open_piece.take() {
                Some(open_piece) => open_piece,
                None => {
                    piece_count += 1;
                    (create_piece(&into.join(piece_name(piece_count - 1)))?, piece_bytes)
                }
            };
            let (part, rest) = unwritten.split_at(missing_bytes.min(unwritten.len()));
            write_all(&piece, part, into)?;
            open_piece = (part.len() < missing_bytes).then_some((piece, missing_bytes - part.len()));
            unwritten = rest;
        }
    }
    Ok(())
}

fn create_piece(path: &Path) -> Result<File> {
    let file = create_file(path, OFlags::empty(), 0o666)?;
    read_status(&file, path)?;
    ftruncate(&file, 0).map_err(failed_to("truncate", path))?;
    Ok(file)
}

/// The name of the piece with this index, from 0.
fn piece_name(index: usize) -> String {
    let letter = |place: u32| char::from(b'a' + (index / 26usize.pow(place) % 26) as u8);
    std::iter::once('x').chain((0..SPLIT_LETTERS as u32).rev().map(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_read_only_directory_is_copied_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("file"), "text").unwrap();
        let set_mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        set_mode(&from, 0o555);
        copy_tree(&from, &to, false).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("file")).unwrap(), "text");
        assert_eq!(to.metadata().unwrap().permissions().mode() & 0o700, 0o500);
        // So that the directory can be removed.
        [&from, &to].into_iter().for_each(|path| set_mode(path, 0o755));
    }

    #[test]
    fn pieces_are_named_in_base_26() {
        assert_eq!([0, 25, 26, 10_485].map(piece_name), ["xaaaaa", "xaaaaz", "xaaaba", "xaapnh"]);
    }
}
