//! Directories: making them so that other users can pass through, opening and listing them by file descriptors, and the space
//! that they use or have free.
//!
//! A walk that changes or removes files must not go by paths: a user who may write to a directory can replace a directory in
//! it by a link at any moment. Such walks use [`open_dir`] and [`names_in`]. [`tree_bytes`] walks by paths, because a link
//! can only make its sum wrong.

use crate::Error;
use rustix::fs::{CWD, Dir, DirEntry, Mode, OFlags, StatVfs, fchmod, fstat, openat};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt};

/// The permission of every user to pass through a directory, which does not include listing it.
const PASS_THROUGH: Mode = Mode::XUSR.union(Mode::XGRP).union(Mode::XOTH);

/// Makes a directory that every user can pass through, even if the umask forbids that, because the users of workloads and
/// servers have files below it. The umask decides who can list it.
///
/// # Errors
/// The directory cannot be made, or the umask denies the owner read permission, which changing the mode requires here. In the
/// second case the new directory stays.
pub fn make_dir(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)?;
    allow_passing_through(path)
}

/// Lets every user pass through a directory that this process has just made.
///
/// # Errors
/// Another user has replaced the directory, or the filesystem refuses the mode.
pub fn allow_passing_through(path: &Path) -> io::Result<()> {
    // Another user who may write to the parent directory could replace the directory by a link.
    let Some(dir) = open_dir(CWD, path)? else { return Err(io::ErrorKind::NotADirectory.into()) };
    let stat = fstat(&dir)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("another user has replaced it"));
    }
    Ok(fchmod(&dir, Mode::from_raw_mode(stat.st_mode) | PASS_THROUGH)?)
}

/// Makes a directory and its missing parents with [`make_dir`]. Directories that exist keep their permissions. A directory
/// counts as made if it exists afterwards, even if [`make_dir`] fails, for example because the filesystem refuses its mode.
///
/// # Errors
/// A directory cannot be made, or a file has its name.
pub fn make_dirs(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_dirs(parent)?;
    }
    match make_dir(path) {
        // Another process may have made it first.
        Err(_) if path.is_dir() => Ok(()),
        result => result,
    }
}

/// Opens a directory inside an open directory. None if `name` names something else, such as a link to a directory.
pub fn open_dir(parent: BorrowedFd, name: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(None),
        opened => opened.map(Some),
    }
}

/// The names in an open directory.
pub fn names_in(dir: &OwnedFd) -> rustix::io::Result<Vec<PathBuf>> {
    let name = |entry: DirEntry| PathBuf::from(OsStr::from_bytes(entry.file_name().to_bytes()));
    let mut names = Dir::read_from(dir)?.map(|entry| entry.map(name)).collect::<Result<Vec<_>, _>>()?;
    names.retain(|name| ![".", ".."].map(Path::new).contains(&name.as_path()));
    Ok(names)
}

/// A directory in which fsarena keeps files for the user who runs it. The first that applies: the directory that the
/// environment variable `own_variable` names; for root, `root_dir`; the subdirectory `fsarena` of the directory that the
/// environment variable `xdg_variable` names; `default_dir`.
pub fn user_dir(
    own_variable: &str,
    root_dir: &str,
    xdg_variable: &str,
    default_dir: impl FnOnce() -> PathBuf,
) -> PathBuf {
    if let Some(dir) = path_from_env(own_variable) {
        return dir;
    }
    if rustix::process::geteuid().is_root() {
        return root_dir.into();
    }
    path_from_env(xdg_variable).map_or_else(default_dir, |dir| dir.join("fsarena"))
}

/// Root's directory for files that fsarena has fetched; every user may read it.
pub const SHARED_CACHE: &str = "/var/cache/fsarena";

/// The directory for files that fsarena fetches: `$FSARENA_CACHE_DIR`, else `/var/cache/fsarena` for root, else
/// `$XDG_CACHE_HOME/fsarena`, else `~/.cache/fsarena`. If `$HOME` is not a directory, it is `fsarena-cache-UID` in the
/// directory for temporary files.
pub fn cache_dir() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    user_dir("FSARENA_CACHE_DIR", SHARED_CACHE, "XDG_CACHE_HOME", || match home_dir() {
        Some(home) if home.is_dir() => home.join(".cache/fsarena"),
        _ => std::env::temp_dir().join(format!("fsarena-cache-{user}")),
    })
}

/// The home directory that `$HOME` names, whether it exists or not.
pub fn home_dir() -> Option<PathBuf> {
    path_from_env("HOME")
}

fn path_from_env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The used and free space of a filesystem, from statvfs(3).
///
/// statvfs(3) counts in units of `f_frsize` bytes, and a FUSE server can return any number, so a size in bytes can overflow 64
/// bits. The methods then return None.
pub struct FilesystemSpace(StatVfs);

impl FilesystemSpace {
    /// The space of the filesystem of a path.
    ///
    /// # Errors
    /// The path does not exist, or statvfs(3) fails.
    pub fn at_path(path: &Path) -> Result<FilesystemSpace, Error> {
        let stat = rustix::fs::statvfs(path);
        stat.map(FilesystemSpace).map_err(|error| Error::io("reading the free space of", path)(error.into()))
    }

    /// Bytes that a user without privileges can still write; None on overflow.
    pub fn free_bytes(&self) -> Option<u64> {
        self.bytes(self.0.f_bavail)
    }

    /// Bytes in use; None on overflow.
    pub fn used_bytes(&self) -> Option<u64> {
        self.bytes(self.0.f_blocks.saturating_sub(self.0.f_bfree))
    }

    /// The used share of the space that a user without privileges can fill, in per cent, rounded up like df(1). None on
    /// overflow, and if the filesystem reports no size or more free space than its size.
    pub fn used_percent(&self) -> Option<u64> {
        let used_units = self.0.f_blocks.checked_sub(self.0.f_bfree)?;
        let usable_units = used_units.checked_add(self.0.f_bavail).filter(|units| *units > 0)?;
        Some(used_units.checked_mul(100)?.div_ceil(usable_units))
    }

    /// The number of files and directories that exist.
    pub fn used_inodes(&self) -> u64 {
        self.0.f_files.saturating_sub(self.0.f_ffree)
    }

    /// Whether less than 1% of the space is free for a user without privileges.
    pub fn is_full(&self) -> bool {
        self.0.f_bavail < self.0.f_blocks.div_ceil(100)
    }

    /// Converts a number of units of `f_frsize` to bytes; None on overflow.
    fn bytes(&self, units: u64) -> Option<u64> {
        units.checked_mul(self.0.f_frsize)
    }
}

/// Bytes that a user without privileges can still write to the filesystem of a directory. `u64::MAX` on
/// overflow: checks of the free space then pass, and a lack of space shows when something is written.
///
/// # Errors
/// The directory does not exist.
pub fn free_bytes(dir: &Path) -> Result<u64, Error> {
    Ok(FilesystemSpace::at_path(dir)?.free_bytes().unwrap_or(u64::MAX))
}

/// The size of a file, or the total size of a directory and everything below it, directories included. Each file and directory
/// counts as at least `min_entry_bytes` bytes. Follows no link.
///
/// # Errors
/// A file or directory cannot be read.
pub fn tree_bytes(path: &Path, min_entry_bytes: u64) -> Result<u64, Error> {
    let meta = path.symlink_metadata().map_err(Error::io("reading", path))?;
    let mut bytes = meta.len().max(min_entry_bytes);
    if meta.is_dir() {
        for entry in std::fs::read_dir(path).map_err(Error::io("reading", path))? {
            bytes += tree_bytes(&entry.map_err(Error::io("reading", path))?.path(), min_entry_bytes)?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn new_directories_are_passable_and_existing_ones_keep_their_mode() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| dir.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
        let old = dir.path().join("old");
        std::fs::create_dir(&old).unwrap();
        std::fs::set_permissions(&old, PermissionsExt::from_mode(0o700)).unwrap();
        make_dirs(&old.join("a/b")).unwrap();
        make_dirs(&old.join("a/b")).unwrap();
        assert_eq!((mode("old"), mode("old/a") & 0o711, mode("old/a/b") & 0o711), (0o700, 0o711, 0o711));
        assert!(make_dir(&old).is_err());
        std::fs::write(old.join("file"), "").unwrap();
        assert!(make_dirs(&old.join("file")).is_err() && make_dirs(&old.join("file/x")).is_err());
    }

    fn space(change: impl Fn(&mut StatVfs)) -> FilesystemSpace {
        let mut stat = rustix::fs::statvfs("/").unwrap();
        (stat.f_frsize, stat.f_blocks, stat.f_bfree, stat.f_bavail) = (4096, 1000, 600, 500);
        change(&mut stat);
        FilesystemSpace(stat)
    }

    #[test]
    fn space_is_converted_from_units_to_bytes() {
        let space = space(|_| {});
        assert_eq!((space.free_bytes(), space.used_bytes()), (Some(500 * 4096), Some(400 * 4096)));
        assert!(!space.is_full());
        assert!(free_bytes(Path::new("/")).is_ok_and(|free| free < u64::MAX));
        assert!(free_bytes(Path::new("/no/such")).is_err());
    }

    #[test]
    fn a_size_that_overflows_is_none() {
        let too_large = space(|stat| {
            (stat.f_blocks, stat.f_bfree, stat.f_bavail) = (u64::MAX, 0, u64::MAX);
        });
        assert_eq!((too_large.free_bytes(), too_large.used_bytes(), too_large.is_full()), (None, None, false));
        // The lowest 64 bits of this size in bytes are 0.
        let wraps = space(|stat| (stat.f_bavail, stat.f_blocks) = (1 << 52, 1 << 52));
        assert_eq!((wraps.free_bytes(), wraps.is_full()), (None, false));
        let more_free_than_all = space(|stat| stat.f_bfree = 2000);
        assert_eq!((more_free_than_all.used_bytes(), more_free_than_all.used_percent()), (Some(0), None));
    }

    #[test]
    fn less_than_one_percent_is_full() {
        for (free, blocks, is_full) in [(9, 1000, true), (10, 1000, false), (10, 1001, true), (11, 1001, false)] {
            let space = space(|stat| (stat.f_bavail, stat.f_blocks) = (free, blocks));
            assert_eq!(space.is_full(), is_full, "{free} of {blocks}");
        }
        assert!(!space(|stat| (stat.f_bavail, stat.f_blocks) = (0, 0)).is_full(), "/proc has no blocks");
    }
}
