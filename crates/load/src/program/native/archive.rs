//! `tar cf`.

use super::at;
use super::dir::{Entry, c_path, list};
use super::records::Writer;
use crate::task::Error;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// How the files of a tree are opened.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOCTTY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Archives the directory `name` that is in `within`.
pub fn pack(archive: &Path, within: &Path, name: &str) -> Result<(), Error> {
    let created = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let file = openat(CWD, archive, created, Mode::from_raw_mode(0o666)).map_err(at("create", archive))?;
    fstat(&file).map_err(at("stat", archive))?;
    let dir = openat(CWD, within, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(at("open", within))?;
    let mut packer = Packer { builder: Builder::new(Writer::new(file)), archive };
    packer.entry(dir.as_fd(), &c_path(Path::new(name))?, Path::new(name))?;
    let failed = Error::io(format!("write {}", archive.display()));
    packer.builder.into_inner().and_then(Writer::finish).map_err(failed)
}

struct Packer<'a> {
    builder: Builder<Writer>,
    archive: &'a Path,
}

impl Packer<'_> {
    fn entry(&mut self, parent: BorrowedFd, name: &CString, path: &Path) -> Result<(), Error> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("stat", path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.directory(parent, name, path),
            FileType::Symlink => self.link(parent, name, path, &stat),
            FileType::RegularFile if stat.st_size == 0 => self.header(EntryType::Regular, path, &stat),
            FileType::RegularFile => self.file(parent, name, path, &stat),
            // GNU tar says "socket ignored" and goes on.
            _ => Ok(()),
        }
    }

    fn directory(&mut self, parent: BorrowedFd, name: &CString, path: &Path) -> Result<(), Error> {
        let dir = openat(parent, name, READ, Mode::empty()).map_err(at("open", path))?;
        let stat = fstat(&dir).map_err(at("stat", path))?;
        let entries: Vec<Entry> = list(&dir, path)?;
        // The slash at the end marks a directory, as in every archive of GNU tar.
        self.header(EntryType::Directory, &with_slash(path), &stat)?;
        for entry in entries {
            self.entry(dir.as_fd(), &entry.name, &entry.path_in(path))?;
        }
        Ok(())
    }

    fn file(&mut self, parent: BorrowedFd, name: &CString, path: &Path, stat: &Stat) -> Result<(), Error> {
        let file = openat(parent, name, READ, Mode::empty()).map_err(at("open", path))?;
        fstat(&file).map_err(at("stat", path))?;
        self.header(EntryType::Regular, path, stat)?;
        self.contents(&file, stat.st_size as usize).map_err(Error::io(format!(
            "copy {} to {}",
            path.display(),
            self.archive.display()
        )))?;
        fstat(&file).map_err(at("stat", path))?;
        Ok(())
    }

    fn contents(&mut self, file: &OwnedFd, bytes: usize) -> std::io::Result<()> {
        let out = self.builder.get_mut();
        let mut left = bytes;
        while left > 0 {
            match out.fill_from(file, left)? {
                0 => return Err(std::io::Error::other("it shrank while it was read")),
                got => left -= got,
            }
        }
        std::io::Write::write_all(out, &[0; 512][..bytes.next_multiple_of(512) - bytes])
    }

    fn link(&mut self, parent: BorrowedFd, name: &CString, path: &Path, stat: &Stat) -> Result<(), Error> {
        let target = readlinkat(parent, name, Vec::new()).map_err(at("read link", path))?;
        let target = OsStr::from_bytes(target.to_bytes());
        let failed = Error::io(format!("write {}", self.archive.display()));
        self.builder.append_link(&mut header(EntryType::Symlink, stat), path, target).map_err(failed)
    }

    fn header(&mut self, kind: EntryType, path: &Path, stat: &Stat) -> Result<(), Error> {
        let failed = Error::io(format!("write {}", self.archive.display()));
        self.builder.append_data(&mut header(kind, stat), path, std::io::empty()).map_err(failed)
    }
}

fn header(kind: EntryType, stat: &Stat) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(u64::from(stat.st_uid));
    header.set_gid(u64::from(stat.st_gid));
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_size(if kind == EntryType::Regular { stat.st_size as u64 } else { 0 });
    header
}

fn with_slash(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_os_string();
    path.push("/");
    PathBuf::from(path)
}
