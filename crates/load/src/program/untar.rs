//! `tar xf`.

use super::calls::{c_path, open, write_all};
use crate::error::{Error, Result, at};
use crate::tarball::RECORD;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chmodat, chownat, fchmod, fchown,
    futimens, mkdirat, openat, symlinkat, utimensat,
};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use tar::{Archive, Entry, EntryType, Header};

/// Unpacks an archive into a directory.
pub fn unpack(archive: &Path, into: &Path) -> Result<()> {
    let file = open(archive, OFlags::RDONLY)?;
    let dir = open(into, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
    let owners = rustix::process::geteuid().is_root();
    let mut unpacker = Unpacker { archive, dir, owners, unfinished: Vec::new() };
    for entry in
        Archive::new(BufReader::with_capacity(RECORD, file)).entries().map_err(at("read", archive))?
    {
        unpacker.entry(&mut entry.map_err(at("read", archive))?)?;
    }
    unpacker.leave(None)
}

/// Reads records of 10 KiB, as GNU tar does, and never gives bytes of two at once: files are written in the parts that
/// GNU tar writes.
type Records = BufReader<File>;

struct Unpacker<'a> {
    archive: &'a Path,
    dir: File,
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

impl Unpacker<'_> {
    fn entry(&mut self, entry: &mut Entry<Records>) -> Result<()> {
        let broken = || at("read", self.archive);
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
            EntryType::Regular => self.file(entry, &path, &attributes),
            other => {
                Err(Error::Unfit(format!("{}: entries of type {other:?} are not made here", path.display())))
            }
        }
    }

    fn file(&self, entry: &mut Entry<Records>, path: &Path, attributes: &Attributes) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let created = openat(&self.dir, path, flags, Mode::RUSR | Mode::WUSR);
        let file = created.map(File::from).map_err(at("create", path))?;
        let mut part = [0; RECORD];
        loop {
            match entry.read(&mut part).map_err(at("read", self.archive))? {
                0 => break,
                got => write_all(&file, &part[..got], path)?,
            }
        }
        futimens(&file, &attributes.times).map_err(at("set the times of", path))?;
        if self.owners {
            let (user, group) = attributes.owner;
            fchown(&file, Some(user), Some(group)).map_err(at("change the owner of", path))?;
        }
        fchmod(&file, attributes.mode).map_err(at("change the mode of", path))
    }

    /// Finishes the directories that are not above the next entry.
    fn leave(&mut self, next: Option<&Path>) -> Result<()> {
        let is_left = |(dir, _): &mut (PathBuf, Attributes)| next.is_none_or(|path| !path.starts_with(dir));
        while let Some((dir, attributes)) = self.unfinished.pop_if(is_left) {
            self.attributes_by_name(&dir, &attributes)?;
            chmodat(&self.dir, &dir, attributes.mode, AtFlags::empty())
                .map_err(at("change the mode of", &dir))?;
        }
        Ok(())
    }

    fn attributes_by_name(&self, path: &Path, attributes: &Attributes) -> Result<()> {
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
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = Timespec { tv_sec: header.mtime()?.cast_signed(), tv_nsec: 0 };
        Ok(Attributes {
            owner: (Uid::from_raw(header.uid()? as u32), Gid::from_raw(header.gid()? as u32)),
            mode: Mode::from_raw_mode(header.mode()? & 0o7777),
            times: Timestamps { last_access, last_modification },
        })
    }
}
