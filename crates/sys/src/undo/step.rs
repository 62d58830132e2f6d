//! The steps that a journal can undo.

use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What distinguishes a file or directory from a later one with its path or its inode number. In a journal also the pair
/// of numbers alone, as fsarena 0.1.0 wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The number of its filesystem.
    pub dev: u64,
    /// Its inode number, which a filesystem gives to a new file soon after the old one is removed.
    pub ino: u64,
    /// When it was made, in nanoseconds since 1970. None where the filesystem does not record that.
    #[serde(default)]
    pub made_at: Option<u64>,
}

impl Identity {
    /// The identity of the file of these metadata.
    pub fn of(meta: &Metadata) -> Identity {
        let made = meta.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let made_at = made.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Identity { dev: meta.dev(), ino: meta.ino(), made_at }
    }

    /// The identity of the file at a path, links not followed; None where nothing is there.
    pub fn at(path: &Path) -> Option<Identity> {
        path.symlink_metadata().ok().as_ref().map(Identity::of)
    }

    /// Whether both are of the same file.
    pub fn is_same(&self, other: &Identity) -> bool {
        let made_apart = self.made_at.zip(other.made_at).is_some_and(|(one, other)| one != other);
        (self.dev, self.ino) == (other.dev, other.ino) && !made_apart
    }
}

/// How one thing is undone. Doing it again, when it is already undone, succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "snake_case")]
pub enum Undo {
    /// Unmount what is mounted there.
    Unmount {
        /// The mount point.
        target: PathBuf,
        /// The directory below the mount. A mount on another directory of that path belongs to another run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<Identity>,
    },
    /// Detach every loop device of an image.
    Detach {
        /// The image, symbolic links followed.
        image: PathBuf,
        /// Which file it is: it may have been renamed, and another file may have got its path.
        #[serde(default)]
        identity: Option<Identity>,
    },
    /// Remove a file that fsarena made.
    RemoveFile {
        /// Where it is.
        path: PathBuf,
        /// Which file it is. Before it is made that is unknown: then only an empty file of this user is removed, which
        /// is all that can be there if the maker died at once.
        identity: Option<Identity>,
    },
    /// Remove a directory that fsarena made. One in which something is mounted stays.
    RemoveDir {
        /// Where it is.
        path: PathBuf,
        /// Which directory it is. Before it is made that is unknown: then only an empty directory of this user is
        /// removed, which is all that can be there if the maker died at once.
        identity: Option<Identity>,
        /// Whether everything in it goes with it. Otherwise the journal names each file in it, and a
        /// directory that still holds a file afterwards stays.
        whole: bool,
    },
    /// Remove a directory with all in it, whichever directory has that path. Only journals of
    /// fsarena 0.1.0 say this; [`Undo::RemoveDir`] replaces it.
    RemoveTree {
        /// Where it is.
        path: PathBuf,
    },
    /// Kill a process group.
    KillGroup {
        /// Its number.
        pgid: i32,
        /// When its leader started, in clock ticks since boot.
        start_time: u64,
    },
    /// Write back the value that a kernel attribute had.
    RestoreAttr {
        /// The attribute.
        path: PathBuf,
        /// Its former value.
        value: String,
        /// The disk that it belongs to, by the number that the kernel gives each disk once. A loop device gets a new one
        /// whenever it is attached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk: Option<u64>,
    },
    /// End the processes of a control group that fsarena made, and remove it.
    RemoveGroup {
        /// Its directory.
        path: PathBuf,
        /// Which directory it is; None before it is made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<Identity>,
    },
    /// Have the root of version 2 of control groups no longer pass on a controller, unless other groups use it by then.
    DisableController {
        /// The root.
        root: PathBuf,
        /// The name of the controller.
        name: String,
        /// The group that fsarena enabled it for, which has to be removed first.
        group: PathBuf,
    },
    /// Remove a zram device that fsarena made.
    RemoveZram {
        /// Its number; none while it is not known yet.
        number: Option<u32>,
        /// The size that fsarena gave it, in bytes.
        size_bytes: u64,
        /// The number that the kernel gives each disk once: another run may have got the device's number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk: Option<u64>,
    },
}

impl Undo {
    /// The path in it.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Undo::Unmount { target: path, .. }
            | Undo::Detach { image: path, .. }
            | Undo::RemoveFile { path, .. }
            | Undo::RemoveDir { path, .. }
            | Undo::RemoveTree { path }
            | Undo::RestoreAttr { path, .. }
            | Undo::RemoveGroup { path, .. }
            | Undo::DisableController { group: path, .. } => Some(path),
            Undo::KillGroup { .. } | Undo::RemoveZram { .. } => None,
        }
    }

    /// Unmounting what will be mounted on a directory.
    pub fn unmount(target: &Path) -> Undo {
        Undo::Unmount { target: target.into(), dir: Identity::at(target) }
    }

    /// The file or directory that it removes.
    pub(super) fn removes(&self) -> Option<&Path> {
        match self {
            Undo::RemoveFile { path, .. } | Undo::RemoveDir { path, .. } | Undo::RemoveTree { path } => {
                Some(path)
            }
            _ => None,
        }
    }

    /// Whether it ends processes. What they use can be undone only after that.
    pub(super) fn ends_processes(&self) -> bool {
        matches!(self, Undo::KillGroup { .. } | Undo::RemoveGroup { .. })
    }

    /// Whether a reboot has undone it: mounts, loop devices, processes and kernel attributes end with
    /// the kernel, files do not.
    pub(super) fn ends_with_boot(&self) -> bool {
        !matches!(self, Undo::RemoveFile { .. } | Undo::RemoveDir { .. } | Undo::RemoveTree { .. })
    }
}

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Undo::Unmount { target, .. } => write!(f, "unmount {target:?}"),
            Undo::Detach { image, .. } => write!(f, "detach the loop device of {image:?}"),
            Undo::RemoveFile { path, .. } => write!(f, "remove {path:?}"),
            Undo::RemoveDir { path, .. } | Undo::RemoveTree { path } => {
                write!(f, "remove directory {path:?}")
            }
            Undo::KillGroup { pgid, .. } => write!(f, "end process group {pgid}"),
            Undo::RestoreAttr { path, value, .. } => write!(f, "set {path:?} back to {value}"),
            Undo::RemoveGroup { path, .. } => {
                write!(f, "end the processes of control group {path:?} and remove it")
            }
            Undo::DisableController { root, name, .. } => {
                write!(
                    f,
                    "disable controller {name} for the control groups below {root:?}, unless they use it"
                )
            }
            Undo::RemoveZram { number: Some(number), .. } => write!(f, "remove /dev/zram{number}"),
            Undo::RemoveZram { number: None, .. } => f.write_str("remove a zram device that was never made"),
        }
    }
}
