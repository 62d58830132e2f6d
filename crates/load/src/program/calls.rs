//! System calls as the programs make them, with errors that name the file.

use crate::error::{Error, Result, at};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::path::Arg;
use std::ffi::{CString, OsStr};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{fs::File, mem::MaybeUninit, os::unix::ffi::OsStrExt};

/// What cp, cat and split read at a time.
pub const BUFFER: usize = 128 << 10;
/// What the programs hand to getdents64.
const ENTRIES: usize = 32 << 10;
/// How find, rm and tar open what is in a tree.
pub const WITHIN: OFlags = OFlags::RDONLY
    .union(OFlags::NOCTTY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Something in a directory.
pub struct Entry {
    pub name: CString,
    pub inode: u64,
    kind: FileType,
}

impl Entry {
    /// The path of the entry in its directory, for messages and for calls that take one.
    pub fn path_in(&self, dir: &Path) -> PathBuf {
        dir.join(OsStr::from_bytes(self.name.to_bytes()))
    }

    /// What it is. Not every filesystem stores the type of a file with its name; `stat` is for the others.
    pub fn kind(&self, stat: impl FnOnce() -> Result<Stat>) -> Result<FileType> {
        match self.kind {
            FileType::Unknown => Ok(FileType::from_raw_mode(stat()?.st_mode)),
            kind => Ok(kind),
        }
    }
}

/// Reads a directory until there are `most` entries, or to its end.
pub fn list(dir: impl AsFd, path: &Path, most: usize) -> Result<Vec<Entry>> {
    // The offset that aligns the buffer may cost a few bytes.
    let mut buffer = vec![MaybeUninit::uninit(); ENTRIES + 8];
    let mut raw = RawDir::new(dir, &mut buffer[..ENTRIES]);
    let mut entries = Vec::new();
    while entries.len() < most
        && let Some(entry) = raw.next()
    {
        let entry = entry.map_err(at("read", path))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            let (name, kind) = (entry.file_name().into(), entry.file_type());
            entries.push(Entry { name, inode: entry.ino(), kind });
        }
    }
    Ok(entries)
}

/// Opens a file that is there.
pub fn open(path: &Path, flags: OFlags) -> Result<File> {
    openat(CWD, path, flags, Mode::empty()).map(File::from).map_err(at("open", path))
}

/// Opens something in a directory, and looks at it.
pub fn open_in(parent: impl AsFd, name: &CString, path: &Path, flags: OFlags) -> Result<(OwnedFd, Stat)> {
    let file = openat(parent, name, flags, Mode::empty()).map_err(at("open", path))?;
    let stat = look(&file, path)?;
    Ok((file, stat))
}

/// Opens a directory as find and rm do: status by name, open, status again.
pub fn enter(parent: BorrowedFd, name: &CString, path: &Path) -> Result<OwnedFd> {
    stat(parent, name, path)?;
    Ok(open_in(parent, name, path, WITHIN | OFlags::DIRECTORY)?.0)
}

/// Creates a file.
pub fn create(path: &Path, flags: OFlags, mode: u32) -> Result<File> {
    let created = openat(CWD, path, OFlags::WRONLY | OFlags::CREATE | flags, Mode::from_raw_mode(mode));
    created.map(File::from).map_err(at("create", path))
}

/// The status of an open file.
pub fn look(file: impl AsFd, path: &Path) -> Result<Stat> {
    fstat(file).map_err(at("stat", path))
}

/// The status of a name, itself where it is a symbolic link.
pub fn stat(parent: impl AsFd, name: impl Arg, path: &Path) -> Result<Stat> {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", path))
}

/// Copies a file from where it is to its end.
pub fn copy(mut from: &File, from_path: &Path, to: &File, to_path: &Path) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer).map_err(at("read", from_path))? {
            0 => return Ok(()),
            got => write_all(to, &buffer[..got], to_path)?,
        }
    }
}

/// Writes all bytes, however many calls that takes.
pub fn write_all(mut file: &File, bytes: &[u8], path: &Path) -> Result<()> {
    file.write_all(bytes).map_err(at("write", path))
}

/// A path as the kernel takes it.
pub fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::Unfit(format!("{} has a NUL in it", path.display())))
}
