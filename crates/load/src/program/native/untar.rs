//! `tar xf`.

use super::at;
use super::create::write_all;
use super::dir::c_path;
use super::records::Reader;
use crate::tarball::RECORD;
use crate::task::Error;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chmodat, chownat, fchmod, fchown,
    futimens, mkdirat, openat, symlinkat, utimensat,
};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tar::{Archive, Entry, EntryType, Header};

/// Unpacks an archive into a directory.
pub fn unpack(archive: &Path, into: &Path) -> Result<(), Error> {
    let file = openat(CWD, archive, OFlags::RDONLY, Mode::empty()).map_err(at("open", archive))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(CWD, into, flags, Mode::empty()).map_err(at("open", into))?;
    let mut unpacker = Unpacker { dir, owners: rustix::process::geteuid().is_root(), unfinished: Vec::new() };
    let mut archive_reader = Archive::new(Reader::new(file));
    let broken = || Error::io(format!("read {}", archive.display()));
    for entry in archive_reader.entries().map_err(broken())? {
        unpacker.entry(&mut entry.map_err(broken())?, archive)?;
    }
    unpacker.leave(None)
}

struct Unpacker {
    dir: OwnedFd,
    /// Only root may give files away.
    owners: bool,
    /// The directories on the way to the last entry. What they are to be is set when they are left, so that
    /// unpacking into them does not change their times again.
    unfinished: Vec<(PathBuf, Attributes)>,
}

struct Attributes {
    owner: (Uid, Gid),
    mode: Mode,
    times: Timestamps,
}

impl Unpacker {
    fn entry(&mut self, entry: &mut Entry<Reader>, archive: &Path) -> Result<(), Error> {
        let broken = || Error::io(format!("read {}", archive.display()));
        let path = entry.path().map_err(broken())?.into_owned();
        let attributes = Attributes::of(entry.header()).map_err(broken())?;
        self.leave(Some(&path))?;
        match entry.header().entry_type() {
            EntryType::Directory => {
                mkdirat(&self.dir, &path, Mode::RWXU).map_err(at("mkdir", &path))?;
                self.unfinished.push((path, attributes));
                Ok(())
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(broken())?.unwrap_or_default().into_owned();
                symlinkat(&c_path(&target)?, &self.dir, &path).map_err(at("link", &path))?;
                self.attributes_by_name(&path, &attributes)
            }
            EntryType::Regular => self.file(entry, &path, &attributes, archive),
            other => {
                Err(Error::Unfit(format!("{}: entries of type {other:?} are not made here", path.display())))
            }
        }
    }

    fn file(
        &self,
        entry: &mut Entry<Reader>,
        path: &Path,
        attributes: &Attributes,
        archive: &Path,
    ) -> Result<(), Error> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOCTTY
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let file = openat(&self.dir, path, flags, Mode::RUSR | Mode::WUSR).map_err(at("create", path))?;
        let mut part = [0; RECORD as usize];
        loop {
            match entry.read(&mut part).map_err(Error::io(format!("read {}", archive.display())))? {
                0 => break,
                got => write_all(&file, &part[..got], path)?,
            }
        }
        futimens(file.as_fd(), &attributes.times).map_err(at("set the times of", path))?;
        if self.owners {
            let (user, group) = attributes.owner;
            fchown(&file, Some(user), Some(group)).map_err(at("change the owner of", path))?;
        }
        fchmod(&file, attributes.mode).map_err(at("change the mode of", path))
    }

    /// Finishes the directories that are not above the next entry.
    fn leave(&mut self, next: Option<&Path>) -> Result<(), Error> {
        while self.unfinished.last().is_some_and(|(dir, _)| next.is_none_or(|path| !path.starts_with(dir))) {
            let Some((dir, attributes)) = self.unfinished.pop() else { break };
            self.attributes_by_name(&dir, &attributes)?;
            chmodat(&self.dir, &dir, attributes.mode, AtFlags::empty())
                .map_err(at("change the mode of", &dir))?;
        }
        Ok(())
    }

    fn attributes_by_name(&self, path: &Path, attributes: &Attributes) -> Result<(), Error> {
        utimensat(&self.dir, path, &attributes.times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(at("set the times of", path))?;
        if self.owners {
            let (user, group) = attributes.owner;
            chownat(&self.dir, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(at("change the owner of", path))?;
        }
        Ok(())
    }
}

impl Attributes {
    fn of(header: &Header) -> std::io::Result<Attributes> {
        let changed = Timespec { tv_sec: header.mtime()?.cast_signed(), tv_nsec: 0 };
        Ok(Attributes {
            owner: (Uid::from_raw(header.uid()? as u32), Gid::from_raw(header.gid()? as u32)),
            mode: Mode::from_raw_mode(header.mode()? & 0o7777),
            times: Timestamps {
                last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                last_modification: changed,
            },
        })
    }
}
