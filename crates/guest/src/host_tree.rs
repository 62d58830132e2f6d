//! Copies of host files in the memory of a guest, made before a snapshot of the guest is saved. Once they are complete, the
//! guest no longer reads files of the host.
//!
//! The tree has the files that programs opened, the names that they looked up, all symbolic links on the way, and the entries
//! of the directories that they listed.

use crate::host_root::{self, HOST_MOUNT, ROOT_MOUNT};
use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, chownat, utimensat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::{Error, Result};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// The largest number of symbolic links on the way to a file, which is also the limit of the kernel.
const MAX_LINKS: usize = 40;

/// The paths of the host that a tree has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostTree {
    /// Absolute paths of files to copy, and of directories whose entries to copy.
    pub files: Vec<PathBuf>,
    /// Further absolute paths, which may not exist. A directory among them is copied without its entries.
    pub names: Vec<PathBuf>,
}

impl HostTree {
    /// Copies the tree from the host, then unmounts the files of the host.
    ///
    /// # Errors
    /// The kernel lacks 9p, or the memory of the guest is too small.
    pub fn copy_from_host(&self) -> Result<()> {
        host_root::mount_host()?;
        host_root::mount("tmpfs", "tmpfs", Path::new(ROOT_MOUNT), "mode=755,size=75%")?;
        // The root exists already: it is the mount point. Paths with `..` can lead to it.
        let mut copier = TreeCopier { copied: BTreeSet::from([PathBuf::from("/")]), dirs: vec![] };
        for path in self.files.iter().chain(&self.names) {
            copier.copy_path(path, MAX_LINKS)?;
        }
        for dir in self.files.iter().filter(|path| path_below(HOST_MOUNT, path).is_dir()) {
            for entry in std::fs::read_dir(path_below(HOST_MOUNT, dir))?.flatten() {
                copier.copy_path(&dir.join(entry.file_name()), MAX_LINKS)?;
            }
        }
        // Adding entries has changed the times of the directories.
        for (dir, meta) in copier.dirs.iter().rev() {
            set_attributes(dir, meta)?;
        }
        Ok(rustix::mount::unmount(HOST_MOUNT, rustix::mount::UnmountFlags::empty())?)
    }
}

/// A path of the host below another root.
fn path_below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

/// A copy in progress.
struct TreeCopier {
    /// The paths that were copied.
    copied: BTreeSet<PathBuf>,
    /// The copied directories with their metadata.
    dirs: Vec<(PathBuf, Metadata)>,
}

impl TreeCopier {
    /// Copies the file that a path leads to, and everything on the way; follows at most `max_links` symbolic links.
    fn copy_path(&mut self, path: &Path, max_links: usize) -> Result<()> {
        let mut current = PathBuf::from("/");
        let mut parts = path.components();
        // Skip the root of the absolute path.
        parts.next();
        while let Some(part) = parts.next() {
            match part {
                Component::ParentDir => drop(current.pop()),
                part => current.push(part),
            }
            if host_root::is_in_own_dir(&current) {
                return Ok(());
            }
            let Ok(meta) = path_below(HOST_MOUNT, &current).symlink_metadata() else { return Ok(()) };
            if self.copied.insert(current.clone()) {
                self.copy_entry(&current, &meta).map_err(|error| {
                    Error::other(format!("copying {} into the memory of the guest: {error}", current.display()))
                })?;
            }
            if meta.is_symlink() {
                let target = std::fs::read_link(path_below(HOST_MOUNT, &current))?;
                let target = current.parent().unwrap_or(&current).join(target).join(parts.as_path());
                return if max_links == 0 { Ok(()) } else { self.copy_path(&target, max_links - 1) };
            }
        }
        Ok(())
    }

    /// Copies one file, directory or symbolic link; ignores other kinds of files.
    fn copy_entry(&mut self, path: &Path, meta: &Metadata) -> Result<()> {
        let (original, copy) = (path_below(HOST_MOUNT, path), path_below(ROOT_MOUNT, path));
        let kind = meta.file_type();
        if kind.is_dir() {
            std::fs::create_dir(&copy)?;
            self.dirs.push((copy.clone(), meta.clone()));
        } else if kind.is_symlink() {
            symlink(std::fs::read_link(&original)?, &copy)?;
        } else if kind.is_file() {
            // A file that this user may not read is left out, because it could not be read over 9p either.
            let Ok(mut source) = std::fs::File::open(&original) else { return Ok(()) };
            std::io::copy(&mut source, &mut std::fs::File::create(&copy)?)?;
        } else {
            return Ok(());
        }
        set_attributes(&copy, meta)
    }
}

/// Sets the owner, the permissions and the times of a copy.
fn set_attributes(path: &Path, meta: &Metadata) -> Result<()> {
    let (uid, gid) = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
    chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if !meta.is_symlink() {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(meta.mode() & 0o7777))?;
    }
    let time = |seconds, nanoseconds: i64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(meta.atime(), meta.atime_nsec()),
        last_modification: time(meta.mtime(), meta.mtime_nsec()),
    };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
