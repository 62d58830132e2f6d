//! The undo steps of a journal, and the identity of the files in them.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{fs::Metadata, os::unix::fs::MetadataExt, time::UNIX_EPOCH};

/// The identity of a file or directory. A later file with the same path or the same inode number has another identity. Compare
/// identities with [`FileIdentity::is_same`] instead of `==`: journals of fsarena 0.1.0 have `dev` and `ino` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device number of its filesystem.
    pub dev: u64,
    /// Its inode number. A filesystem may give it to a new file as soon as the old one is removed.
    pub ino: u64,
    /// When it was created, in nanoseconds since 1970. None if the filesystem does not record that.
    #[serde(rename = "made_at", default)]
    pub created_at_ns: Option<u64>,
}

impl FileIdentity {
    /// The identity of the file with these metadata.
    pub fn from_metadata(meta: &Metadata) -> FileIdentity {
        let since_1970 = meta.created().ok().and_then(|created| created.duration_since(UNIX_EPOCH).ok());
        let created_at_ns = since_1970.and_then(|since_1970| u64::try_from(since_1970.as_nanos()).ok());
        FileIdentity { dev: meta.dev(), ino: meta.ino(), created_at_ns }
    }

    /// The identity of the file at a path; of the link itself if the path is a symbolic link. None if the path is missing.
    pub fn at_path(path: &Path) -> Option<FileIdentity> {
        path.symlink_metadata().ok().as_ref().map(FileIdentity::from_metadata)
    }

    /// Whether both identify the same file. An unknown creation time matches any.
    pub fn is_same(&self, other: &FileIdentity) -> bool {
        let times_differ = self.created_at_ns.zip(other.created_at_ns).is_some_and(|(first, second)| first != second);
        (self.dev, self.ino) == (other.dev, other.ino) && !times_differ
    }
}

/// An undo step. A step that is done already can be performed again, without an error. Journals outlive versions, so the names
/// in the file stay when a name here changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "snake_case")]
pub enum UndoStep {
    /// Unmount every filesystem that is mounted on a directory.
    Unmount {
        /// The mount point.
        target: PathBuf,
        /// The directory that the mount hides. If another directory now has that path, a mount on it belongs to another run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<FileIdentity>,
    },
    /// Detach every loop device of an image.
    #[serde(rename = "detach")]
    DetachImage {
        /// The path of the image, with symbolic links resolved.
        image: PathBuf,
        /// The identity of the image: it may have been renamed, and another file may have its path now.
        #[serde(default)]
        identity: Option<FileIdentity>,
    },
    /// Remove a file that fsarena made.
    RemoveFile {
        /// Where it is.
        path: PathBuf,
        /// Its identity; None before it is made. Then only an empty file of this user is removed: if fsarena died right after
        /// it made the file, the file is empty.
        identity: Option<FileIdentity>,
    },
    /// Remove a directory that fsarena made. It stays if something is mounted in it.
    RemoveDir {
        /// Where it is.
        path: PathBuf,
        /// Its identity; None before it is made. Then only an empty directory of this user is removed.
        identity: Option<FileIdentity>,
        /// Whether to remove everything in it too. Otherwise the journal has a step for each file in it, and the directory
        /// stays if it still holds a file afterwards.
        #[serde(rename = "whole")]
        with_contents: bool,
    },
    /// Remove a directory with everything in it, whichever directory has that path. Only journals of fsarena 0.1.0 have
    /// this step; [`UndoStep::RemoveDir`] replaces it.
    RemoveTree {
        /// Where it is.
        path: PathBuf,
    },
    /// Kill a process group.
    #[serde(rename = "kill_group")]
    KillProcessGroup {
        /// Its number.
        pgid: i32,
        /// When its leader started, in clock ticks since boot.
        start_time: u64,
    },
    /// Write back the value that a kernel attribute had.
    #[serde(rename = "restore_attr")]
    RestoreAttribute {
        /// The attribute.
        path: PathBuf,
        /// Its former value.
        value: String,
        /// The sequence number (`diskseq`) of the disk that the attribute belongs to. The kernel never reuses one; a loop
        /// device gets a new one whenever it is attached.
        #[serde(rename = "disk", default, skip_serializing_if = "Option::is_none")]
        diskseq: Option<u64>,
    },
    /// Kill the processes of a control group that fsarena made, and remove the group.
    #[serde(rename = "remove_group")]
    RemoveControlGroup {
        /// Its directory.
        path: PathBuf,
        /// The identity of its directory; None before it is made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        identity: Option<FileIdentity>,
    },
    /// Disable a controller for the children of the root of control groups version 2, unless other groups use it by then.
    DisableController {
        /// The root.
        root: PathBuf,
        /// The name of the controller.
        name: String,
        /// The group that fsarena enabled it for, which has to be removed first.
        group: PathBuf,
    },
    /// Remove a device of the device mapper that fsarena made.
    #[serde(rename = "remove_mapped")]
    RemoveMapperDevice {
        /// Its name.
        name: String,
        /// The UUID that fsarena gave it: another run may have made a device of the same name.
        uuid: String,
    },
    /// Remove a zram device that fsarena made.
    RemoveZram {
        /// Its number; None before it is made.
        number: Option<u32>,
        /// The size that fsarena gave it, in bytes.
        size_bytes: u64,
        /// The sequence number (`diskseq`) of the device: another run may have a device with the same number by now.
        #[serde(rename = "disk", default, skip_serializing_if = "Option::is_none")]
        diskseq: Option<u64>,
    },
}

impl UndoStep {
    /// The path in the step, if it has one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            UndoStep::Unmount { target: path, .. }
            | UndoStep::DetachImage { image: path, .. }
            | UndoStep::RemoveFile { path, .. }
            | UndoStep::RemoveDir { path, .. }
            | UndoStep::RemoveTree { path }
            | UndoStep::RestoreAttribute { path, .. }
            | UndoStep::RemoveControlGroup { path, .. }
            | UndoStep::DisableController { group: path, .. } => Some(path),
            UndoStep::KillProcessGroup { .. } | UndoStep::RemoveMapperDevice { .. } | UndoStep::RemoveZram { .. } => {
                None
            }
        }
    }

    /// The step that unmounts a filesystem that the caller is about to mount on a directory.
    pub fn unmount(target: &Path) -> UndoStep {
        UndoStep::Unmount { target: target.into(), dir: FileIdentity::at_path(target) }
    }

    /// The file or directory that the step removes; None for other steps.
    pub(super) fn removed_path(&self) -> Option<&Path> {
        match self {
            UndoStep::RemoveFile { path, .. } | UndoStep::RemoveDir { path, .. } | UndoStep::RemoveTree { path } => {
                Some(path)
            }
            _ => None,
        }
    }

    /// Whether the step kills processes. Such steps come first, because processes keep other things in use.
    pub(super) fn kills_processes(&self) -> bool {
        matches!(self, UndoStep::KillProcessGroup { .. } | UndoStep::RemoveControlGroup { .. })
    }

    /// Whether a reboot does the step: mounts, loop devices, processes and kernel attributes end with the kernel, but files
    /// stay.
    pub(super) fn is_undone_by_reboot(&self) -> bool {
        !matches!(self, UndoStep::RemoveFile { .. } | UndoStep::RemoveDir { .. } | UndoStep::RemoveTree { .. })
    }
}

impl std::fmt::Display for UndoStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UndoStep::Unmount { target, .. } => write!(f, "unmount {target:?}"),
            UndoStep::DetachImage { image, .. } => write!(f, "detach the loop device of {image:?}"),
            UndoStep::RemoveFile { path, .. } => write!(f, "remove {path:?}"),
            UndoStep::RemoveDir { path, .. } | UndoStep::RemoveTree { path } => {
                write!(f, "remove directory {path:?}")
            }
            UndoStep::KillProcessGroup { pgid, .. } => write!(f, "end process group {pgid}"),
            UndoStep::RestoreAttribute { path, value, .. } => write!(f, "set {path:?} back to {value}"),
            UndoStep::RemoveControlGroup { path, .. } => {
                write!(f, "end the processes of control group {path:?} and remove it")
            }
            UndoStep::DisableController { root, name, .. } => {
                write!(
                    f,
                    "disable controller {name} for the control groups below {root:?}, unless another group uses it by then"
                )
            }
            UndoStep::RemoveMapperDevice { name, .. } => write!(f, "remove the device-mapper device {name}"),
            UndoStep::RemoveZram { number: Some(number), .. } => write!(f, "remove /dev/zram{number}"),
            UndoStep::RemoveZram { number: None, .. } => f.write_str("remove the zram device, if it was made"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_their_names_in_journals() {
        let (path, identity) = (PathBuf::from("/p"), Some(FileIdentity { dev: 1, ino: 2, created_at_ns: Some(3) }));
        for (step, stored) in [
            (
                UndoStep::DetachImage { image: path.clone(), identity },
                r#"{"undo":"detach","image":"/p","identity":{"dev":1,"ino":2,"made_at":3}}"#,
            ),
            (UndoStep::KillProcessGroup { pgid: 1, start_time: 2 }, r#"{"undo":"kill_group","pgid":1,"start_time":2}"#),
            (
                UndoStep::RestoreAttribute { path: path.clone(), value: "v".into(), diskseq: Some(4) },
                r#"{"undo":"restore_attr","path":"/p","value":"v","disk":4}"#,
            ),
            (UndoStep::RemoveControlGroup { path, identity: None }, r#"{"undo":"remove_group","path":"/p"}"#),
            (
                UndoStep::RemoveMapperDevice { name: "n".into(), uuid: "u".into() },
                r#"{"undo":"remove_mapped","name":"n","uuid":"u"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&step).unwrap(), stored);
        }
    }
}
