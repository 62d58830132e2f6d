//! Makes the system calls of `tar cf` and `tar xf` in this process.

use crate::error::{Result, TaskError, failed_to};
use crate::program::coreutils::{
    ENTRY_OPEN_FLAGS, c_path, copy_contents, create_file, open_entry, open_file, read_directory, read_status,
    read_status_by_name,
};
use crate::source::{self, TAR_RECORD_BYTES};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, chmodat, chownat, fchmod,
    fchown, futimens, mkdirat, openat, readlinkat, symlinkat, utimensat,
};
use std::ffi::{CString, OsStr};
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{fs::File, os::unix::ffi::OsStrExt};
use tar::{Archive, Builder, Entry, EntryType, Header};

/// Writes an archive of the directory `within`/`name`. The paths in the archive begin with `name`.
pub fn pack(archive: &Path, within: &Path, name: &str) -> Result<()> {
    let file = create_file(archive, OFlags::TRUNC, 0o666)?;
    // Only for the system call: tar calls fstat(2) here, too.
    read_status(&file, archive)?;
    let dir = open_file(within, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
    let records = RecordWriter { file, record: Vec::with_capacity(TAR_RECORD_BYTES) };
    let mut packer = Packer { builder: Builder::new(records), archive };
    packer.pack_entry(dir.as_fd(), &c_path(Path::new(name))?, Path::new(name))?;
    packer.builder.into_inner().and_then(RecordWriter::finish).map_err(failed_to("write", archive))
}

/// Archives a directory tree.
struct Packer<'a> {
    builder: Builder<RecordWriter>,
    archive: &'a Path,
}

impl Packer<'_> {
    fn pack_entry(&mut self, parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
        let stat = read_status_by_name(parent, name, path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.pack_directory(parent, name, path),
            FileType::Symlink => self.pack_symlink(parent, name, path, &stat),
            FileType::RegularFile if stat.st_size == 0 => self.write_header(EntryType::Regular, path, &stat),
            FileType::RegularFile => self.pack_file(parent, name, path, &stat),
            // GNU tar prints "socket ignored" and continues.
            _ => Ok(()),
        }
    }

    fn pack_directory(&mut self, parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
        let (dir, stat) = open_entry(parent, name, path, ENTRY_OPEN_FLAGS)?;
        let entries = read_directory(&dir, path, usize::MAX)?;
        // The slash at the end marks a directory, as in every archive of GNU tar.
        self.write_header(EntryType::Directory, &path.join(""), &stat)?;
        for entry in entries {
            self.pack_entry(dir.as_fd(), &entry.name, &entry.path_in(path))?;
        }
        Ok(())
    }

    fn pack_file(&mut self, parent: BorrowedFd, name: &CString, path: &Path, stat: &Stat) -> Result<()> {
        let (file, _) = open_entry(parent, name, path, ENTRY_OPEN_FLAGS)?;
        self.write_header(EntryType::Regular, path, stat)?;
        let copy_error = TaskError::io(format!("copy {} to {}", path.display(), self.archive.display()));
        self.pack_contents(&file, stat.st_size as usize).map_err(copy_error)?;
        // Only for the system call: tar calls fstat(2) again after it has read a file.
        read_status(&file, path).map(drop)
    }

    fn pack_contents(&mut self, file: &OwnedFd, bytes: usize) -> io::Result<()> {
        let out = self.builder.get_mut();
        let mut bytes_left = bytes;
        while bytes_left > 0 {
            match out.read_from(file, bytes_left)? {
                0 => return Err(io::Error::other("it shrank while it was read")),
                read_bytes => bytes_left -= read_bytes,
            }
        }
        out.write_all(&[0; 512][..bytes.next_multiple_of(512) - bytes])
    }

    fn pack_symlink(&mut self, parent: BorrowedFd, name: &CString, path: &Path, stat: &Stat) -> Result<()> {
        let target = readlinkat(parent, name, Vec::new()).map_err(failed_to("read link", path))?;
        let target = OsStr::from_bytes(target.to_bytes());
        let appended = self.builder.append_link(&mut make_header(EntryType::Symlink, stat), path, target);
        appended.map_err(failed_to("write", self.archive))
    }

    fn write_header(&mut self, kind: EntryType, path: &Path, stat: &Stat) -> Result<()> {
        let written = self.builder.append_data(&mut make_header(kind, stat), path, io::empty());
        written.map_err(failed_to("write", self.archive))
    }
}

fn make_header(kind: EntryType, stat: &Stat) -> Header {
    let size = if kind == EntryType::Regular { stat.st_size as u64 } else { 0 };
    source::tar_header(kind, [stat.st_mode, stat.st_uid, stat.st_gid], stat.st_mtime, size)
}

/// Writes records of 10 KiB with one system call each, as GNU tar does.
struct RecordWriter {
    file: File,
    /// The bytes of the current record so far.
    record: Vec<u8>,
}

impl RecordWriter {
    /// Reads at most `max_bytes` bytes from a file into the current record, and writes the record once it is full.
    /// Returns the number of bytes read.
    fn read_from(&mut self, file: &OwnedFd, max_bytes: usize) -> io::Result<usize> {
        let filled_bytes = self.record.len();
        self.record.resize(TAR_RECORD_BYTES.min(filled_bytes + max_bytes), 0);
        let read_bytes = rustix::io::read(file, &mut self.record[filled_bytes..])?;
        self.record.truncate(filled_bytes + read_bytes);
        self.write_if_full()?;
        Ok(read_bytes)
    }

    /// Fills the last record with zeros and writes it.
    fn finish(mut self) -> io::Result<()> {
        if !self.record.is_empty() {
            self.record.resize(TAR_RECORD_BYTES, 0);
            self.write_if_full()?;
        }
        Ok(())
    }

    fn write_if_full(&mut self) -> io::Result<()> {
        if self.record.len() == TAR_RECORD_BYTES {
            self.file.write_all(&self.record)?;
            self.record.clear();
        }
        Ok(())
    }
}

impl Write for RecordWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written_bytes = bytes.len().min(TAR_RECORD_BYTES - self.record.len());
        self.record.extend_from_slice(&bytes[..written_bytes]);
        self.write_if_full()?;
        Ok(written_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Unpacks an archive into a directory.
pub fn unpack(archive: &Path, into: &Path) -> Result<()> {
    let file = open_file(archive, OFlags::RDONLY)?;
    let dir = open_file(into, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
    let restores_owners = rustix::process::geteuid().is_root();
    let mut unpacker = Unpacker { archive, dir, restores_owners, open_directories: Vec::new() };
    for entry in
        Archive::new(BufReader::with_capacity(TAR_RECORD_BYTES, file)).entries().map_err(failed_to("read", archive))?
    {
        unpacker.unpack_entry(&mut entry.map_err(failed_to("read", archive))?)?;
    }
    unpacker.finish_directories(None)
}

/// Reads records of 10 KiB, as GNU tar does. A read never returns bytes of two records, so files are written in the
/// same parts as by GNU tar.
type RecordReader = BufReader<File>;

/// Unpacks an archive into a directory.
struct Unpacker<'a> {
    archive: &'a Path,
    dir: File,
    /// Whether to restore owners, which only root can.
    restores_owners: bool,
    /// The directories around the entry that was unpacked most recently, the outermost first. The attributes of a directory
    /// are set after all its entries are unpacked, because unpacking into it changes its times.
    open_directories: Vec<(PathBuf, Attributes)>,
}

/// The attributes that unpacking restores.
struct Attributes {
    owner: (Uid, Gid),
    mode: Mode,
    times: Timestamps,
}

impl Unpacker<'_> {
    fn unpack_entry(&mut self, entry: &mut Entry<RecordReader>) -> Result<()> {
        let read_error = || failed_to("read", self.archive);
        let path = entry.path().map_err(read_error())?.into_owned();
        let attributes = Attributes::from_header(entry.header()).map_err(read_error())?;
        self.finish_directories(Some(&path))?;
        match entry.header().entry_type() {
            EntryType::Directory => {
                mkdirat(&self.dir, &path, Mode::RWXU).map_err(failed_to("mkdir", &path))?;
                self.open_directories.push((path, attributes));
                Ok(())
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(read_error())?.unwrap_or_default().into_owned();
                symlinkat(&c_path(&target)?, &self.dir, &path).map_err(failed_to("link", &path))?;
                self.set_times_and_owner_by_name(&path, &attributes)
            }
            EntryType::Regular => self.unpack_file(entry, &path, &attributes),
            other => Err(TaskError::Unfit(format!("{}: entries of type {other:?} are not supported", path.display()))),
        }
    }

    fn unpack_file(&self, entry: &mut Entry<RecordReader>, path: &Path, attributes: &Attributes) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let created = openat(&self.dir, path, flags, Mode::RUSR | Mode::WUSR);
        let file = created.map(File::from).map_err(failed_to("create", path))?;
        copy_contents(entry, self.archive, &file, path, TAR_RECORD_BYTES)?;
        futimens(&file, &attributes.times).map_err(failed_to("set the times of", path))?;
        if self.restores_owners {
            let (user, group) = attributes.owner;
            fchown(&file, Some(user), Some(group)).map_err(failed_to("change the owner of", path))?;
        }
        fchmod(&file, attributes.mode).map_err(failed_to("change the mode of", path))
    }

    /// Sets the attributes of the open directories that do not contain the next entry. Without a next entry, sets those of all
    /// open directories.
    fn finish_directories(&mut self, next_entry: Option<&Path>) -> Result<()> {
        let is_finished = |(dir, _): &mut (PathBuf, Attributes)| next_entry.is_none_or(|path| !path.starts_with(dir));
        while let Some((dir, attributes)) = self.open_directories.pop_if(is_finished) {
            self.set_times_and_owner_by_name(&dir, &attributes)?;
            chmodat(&self.dir, &dir, attributes.mode, AtFlags::empty())
                .map_err(failed_to("change the mode of", &dir))?;
        }
        Ok(())
    }

    fn set_times_and_owner_by_name(&self, path: &Path, attributes: &Attributes) -> Result<()> {
        utimensat(&self.dir, path, &attributes.times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed_to("set the times of", path))?;
        if self.restores_owners {
            let (user, group) = attributes.owner;
            chownat(&self.dir, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(failed_to("change the owner of", path))?;
        }
        Ok(())
    }
}

impl Attributes {
    fn from_header(header: &Header) -> std::io::Result<Attributes> {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = Timespec { tv_sec: header.mtime()?.cast_signed(), tv_nsec: 0 };
        Ok(Attributes {
            owner: (Uid::from_raw(header.uid()? as u32), Gid::from_raw(header.gid()? as u32)),
            mode: Mode::from_raw_mode(header.mode()? & 0o7777),
            times: Timestamps { last_access, last_modification },
        })
    }
}
