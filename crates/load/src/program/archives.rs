//! `tar cf`.

use super::calls::{WITHIN, c_path, create, list, look, open, open_in, stat};
use crate::error::{Error, Result, at};
use crate::tarball::{self, RECORD};
use rustix::fs::{FileType, OFlags, Stat, readlinkat};
use std::ffi::{CString, OsStr};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fs::File, os::unix::ffi::OsStrExt, path::Path};
use tar::{Builder, EntryType, Header};

/// Archives the directory `name` that is in `within`.
pub fn pack(archive: &Path, within: &Path, name: &str) -> Result<()> {
    let file = create(archive, OFlags::TRUNC, 0o666)?;
    look(&file, archive)?;
    let dir = open(within, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
    let records = Records { file, record: Vec::with_capacity(RECORD) };
    let mut packer = Packer { builder: Builder::new(records), archive };
    packer.entry(dir.as_fd(), &c_path(Path::new(name))?, Path::new(name))?;
    packer.builder.into_inner().and_then(Records::finish).map_err(at("write", archive))
}

struct Packer<'a> {
    builder: Builder<Records>,
    archive: &'a Path,
}

impl Packer<'_> {
    fn entry(&mut self, parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
        let stat = stat(parent, name, path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.directory(parent, name, path),
            FileType::Symlink => self.link(parent, name, path, &stat),
            FileType::RegularFile if stat.st_size == 0 => self.header(EntryType::Regular, path, &stat),
            FileType::RegularFile => self.file(parent, name, path, &stat),
            // GNU tar says "socket ignored" and goes on.
            _ => Ok(()),
        }
    }

    fn directory(&mut self, parent: BorrowedFd, name: &CString, path: &Path) -> Result<()> {
        let (dir, stat) = open_in(parent, name, path, WITHIN)?;
        let entries = list(&dir, path, usize::MAX)?;
        // The slash at the end marks a directory, as in every archive of GNU tar.
        self.header(EntryType::Directory, &path.join(""), &stat)?;
        for entry in entries {
            self.entry(dir.as_fd(), &entry.name, &entry.path_in(path))?;
        }
        Ok(())
    }

    fn file(&mut self, parent: BorrowedFd, name: &CString, path: &Path, stat: &Stat) -> Result<()> {
        let (file, _) = open_in(parent, name, path, WITHIN)?;
        self.header(EntryType::Regular, path, stat)?;
        let failed = Error::io(format!("copy {} to {}", path.display(), self.archive.display()));
        self.contents(&file, stat.st_size as usize).map_err(failed)?;
        look(&file, path).map(drop)
    }

    fn contents(&mut self, file: &OwnedFd, bytes: usize) -> io::Result<()> {
        let out = self.builder.get_mut();
        let mut left = bytes;
        while left > 0 {
            match out.fill_from(file, left)? {
                0 => return Err(io::Error::other("it shrank while it was read")),
                got => left -= got,
            }
        }
        out.write_all(&[0; 512][..bytes.next_multiple_of(512) - bytes])
    }

    fn link(&mut self, parent: BorrowedFd, name: &CString, path: &Path, stat: &Stat) -> Result<()> {
        let target = readlinkat(parent, name, Vec::new()).map_err(at("read link", path))?;
        let target = OsStr::from_bytes(target.to_bytes());
        let linked = self.builder.append_link(&mut header(EntryType::Symlink, stat), path, target);
        linked.map_err(at("write", self.archive))
    }

    fn header(&mut self, kind: EntryType, path: &Path, stat: &Stat) -> Result<()> {
        let written = self.builder.append_data(&mut header(kind, stat), path, io::empty());
        written.map_err(at("write", self.archive))
    }
}

fn header(kind: EntryType, stat: &Stat) -> Header {
    let size = if kind == EntryType::Regular { stat.st_size as u64 } else { 0 };
    tarball::header(kind, [stat.st_mode, stat.st_uid, stat.st_gid], stat.st_mtime, size)
}

/// Writes records of 10 KiB, as GNU tar does: one write a record.
struct Records {
    file: File,
    record: Vec<u8>,
}

impl Records {
    /// Reads from a file right into the record, up to its end; writes the record when it is full.
    fn fill_from(&mut self, source: &OwnedFd, limit: usize) -> io::Result<usize> {
        let filled = self.record.len();
        self.record.resize(RECORD.min(filled + limit), 0);
        let got = rustix::io::read(source, &mut self.record[filled..])?;
        self.record.truncate(filled + got);
        self.write_if_full()?;
        Ok(got)
    }

    /// Fills the last record with zeros and writes it.
    fn finish(mut self) -> io::Result<()> {
        if !self.record.is_empty() {
            self.record.resize(RECORD, 0);
            self.write_if_full()?;
        }
        Ok(())
    }

    fn write_if_full(&mut self) -> io::Result<()> {
        if self.record.len() == RECORD {
            self.file.write_all(&self.record)?;
            self.record.clear();
        }
        Ok(())
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(RECORD - self.record.len());
        self.record.extend_from_slice(&bytes[..taken]);
        self.write_if_full()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
