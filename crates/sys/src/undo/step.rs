//! The steps that a journal can undo.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How one thing is undone. Doing it again, when it is already undone, succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "snake_case")]
pub enum Undo {
    /// Unmount what is mounted there.
    Unmount {
        /// The mount point.
        target: PathBuf,
    },
    /// Detach every loop device of an image.
    Detach {
        /// The image, symbolic links followed.
        image: PathBuf,
        /// Its device and inode number, which tell whether it is still attached after it was renamed.
        #[serde(default)]
        identity: Option<(u64, u64)>,
    },
    /// Remove a file that fsarena made.
    RemoveFile {
        /// Where it is.
        path: PathBuf,
        /// Its device and inode number. Before it is made these are not known: then only an empty file
        /// of this user is removed, which is all that can be there if the maker died at once.
        identity: Option<(u64, u64)>,
    },
    /// Remove a directory that fsarena made. One in which something is mounted stays.
    RemoveDir {
        /// Where it is.
        path: PathBuf,
        /// Its device and inode number. Before it is made these are unknown: then only an empty
        /// directory of this user is removed, which is all that can be there if the maker died at once.
        identity: Option<(u64, u64)>,
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
    },
    /// Remove a control group that is empty of processes.
    RemoveGroup {
        /// Its directory.
        path: PathBuf,
    },
    /// Remove a zram device that fsarena made.
    RemoveZram {
        /// Its number; none while it is not known yet.
        number: Option<u32>,
        /// The size that fsarena gave it, in bytes.
        size_bytes: u64,
    },
}

impl Undo {
    /// The path in it.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Undo::Unmount { target: path }
            | Undo::Detach { image: path, .. }
            | Undo::RemoveFile { path, .. }
            | Undo::RemoveDir { path, .. }
            | Undo::RemoveTree { path }
            | Undo::RestoreAttr { path, .. }
            | Undo::RemoveGroup { path } => Some(path),
            Undo::KillGroup { .. } | Undo::RemoveZram { .. } => None,
        }
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
            Undo::Unmount { target } => write!(f, "unmount {target:?}"),
            Undo::Detach { image, .. } => write!(f, "detach the loop device of {image:?}"),
            Undo::RemoveFile { path, .. } => write!(f, "remove {path:?}"),
            Undo::RemoveDir { path, .. } | Undo::RemoveTree { path } => {
                write!(f, "remove directory {path:?}")
            }
            Undo::KillGroup { pgid, .. } => write!(f, "end process group {pgid}"),
            Undo::RestoreAttr { path, value } => write!(f, "set {path:?} back to {value}"),
            Undo::RemoveGroup { path } => write!(f, "remove control group {path:?}"),
            Undo::RemoveZram { number: Some(number), .. } => write!(f, "remove /dev/zram{number}"),
            Undo::RemoveZram { number: None, .. } => f.write_str("remove a zram device that was never made"),
        }
    }
}
