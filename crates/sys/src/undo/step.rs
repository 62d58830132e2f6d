//! The steps that a journal can undo: how each is done, and how fsarena verifies that it is done.

use crate::cgroup;
use crate::kernel::{SysRoot, names};
use crate::{Error, device_mapper, dirs, found, kernel, loopdev, mount, process, zram};
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::{fs::Metadata, os::unix::fs::MetadataExt, time::UNIX_EPOCH};

/// The identity of a file or directory, which differs from that of a later one with the same path or inode number. Journals
/// of fsarena 0.1.0 hold `dev` and `ino` only.
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
    /// The identity of the file with these metadata.
    pub fn from_metadata(meta: &Metadata) -> Identity {
        let made = meta.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let made_at = made.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Identity { dev: meta.dev(), ino: meta.ino(), made_at }
    }

    /// The identity of the file at a path, or of the link there; None if nothing is there.
    pub fn at_path(path: &Path) -> Option<Identity> {
        path.symlink_metadata().ok().as_ref().map(Identity::from_metadata)
    }

    /// Whether both are of the same file.
    pub fn is_same(&self, other: &Identity) -> bool {
        let made_apart = self.made_at.zip(other.made_at).is_some_and(|(one, other)| one != other);
        (self.dev, self.ino) == (other.dev, other.ino) && !made_apart
    }
}

/// An undo step. Performing a step that is done already succeeds.
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
    /// Remove a device of the device mapper that fsarena made.
    RemoveMapped {
        /// Its name.
        name: String,
        /// The UUID that fsarena gave it: another run may have made a device of the same name.
        uuid: String,
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
    /// The path in the step, if it has one.
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
            Undo::KillGroup { .. } | Undo::RemoveMapped { .. } | Undo::RemoveZram { .. } => None,
        }
    }

    /// The step that unmounts what will be mounted on a directory.
    pub fn unmount(target: &Path) -> Undo {
        Undo::Unmount { target: target.into(), dir: Identity::at_path(target) }
    }

    /// The file or directory that the step removes.
    pub(super) fn removes(&self) -> Option<&Path> {
        match self {
            Undo::RemoveFile { path, .. } | Undo::RemoveDir { path, .. } | Undo::RemoveTree { path } => {
                Some(path)
            }
            _ => None,
        }
    }

    /// Whether the step kills processes. Such steps come first, because processes keep other things in use.
    pub(super) fn ends_processes(&self) -> bool {
        matches!(self, Undo::KillGroup { .. } | Undo::RemoveGroup { .. })
    }

    /// Whether a reboot does the step: mounts, loop devices, processes and kernel attributes end with
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
            Undo::RemoveMapped { name, .. } => write!(f, "remove the device-mapper device {name}"),
            Undo::RemoveZram { number: Some(number), .. } => write!(f, "remove /dev/zram{number}"),
            Undo::RemoveZram { number: None, .. } => f.write_str("remove a zram device that was never made"),
        }
    }
}

impl Undo {
    /// Performs the step; succeeds if it is done already.
    pub(super) fn act(&self, kernel: &SysRoot) -> Result<(), Error> {
        match self {
            Undo::Unmount { target, dir } if !mount::may_be_on(target, *dir) => Ok(()),
            Undo::Unmount { target, .. } => mount::unmount_in(kernel, target, &mut |_| {}),
            Undo::Detach { image, identity } => loopdev::detach_image(kernel, image, *identity, &mut |_| {}),
            Undo::RemoveFile { path, identity } => remove_file(kernel, path, *identity),
            Undo::RemoveDir { path, identity, whole } => remove_dir(kernel, path, *identity, *whole),
            Undo::RemoveTree { path } => remove_tree(kernel, path, None),
            Undo::KillGroup { pgid, start_time } => process::kill_group(kernel, *pgid, *start_time),
            Undo::RemoveGroup { path, identity } if is_another(path, *identity) => Ok(()),
            Undo::RemoveGroup { path, .. } => cgroup::remove(kernel, path),
            Undo::DisableController { root, name, group } => {
                check_absent(group)?;
                cgroup::disable_controller(root, name)
            }
            Undo::RemoveMapped { name, uuid } => device_mapper::remove(name, uuid),
            Undo::RemoveZram { number, size_bytes, disk } => {
                zram::remove(kernel, *number, *size_bytes, *disk)
            }
            Undo::RestoreAttr { path, disk, .. } if !kernel::may_be_of_disk(path, *disk) => Ok(()),
            Undo::RestoreAttr { path, value, .. } => {
                found(std::fs::write(path, value)).map(drop).map_err(Error::io("writing", path))
            }
        }
    }
}

const OTHER_DIR: &str = "another directory is there than the one that fsarena made";

fn not_ours(path: &Path, why: impl Into<String>) -> Error {
    Error::NotOurs { path: path.into(), why: why.into() }
}

/// Whether the path now leads to something other than what fsarena made.
fn is_another(path: &Path, made: Option<Identity>) -> bool {
    made.zip(Identity::at_path(path)).is_some_and(|(made, found)| !made.is_same(&found))
}

/// Returns an error if something is at a path, or that cannot be determined.
fn check_absent(path: &Path) -> Result<(), Error> {
    match found(path.symlink_metadata()).map_err(Error::io("looking at", path))? {
        Some(_) => Err(Error::Unfit { what: path.into(), why: "it is still there".into() }),
        None => Ok(()),
    }
}

/// Whether something is at the path. Returns an error if fsarena did not make it: it has another identity or, where the
/// identity is unknown, it is not new or belongs to another user.
fn is_ours(
    path: &Path,
    identity: Option<Identity>,
    is_new: impl Fn(&Metadata) -> bool,
    other: &str,
) -> Result<bool, Error> {
    let meta = found(path.symlink_metadata()).map_err(Error::io("looking at", path))?;
    let Some(meta) = meta else { return Ok(false) };
    match identity {
        Some(made) if !made.is_same(&Identity::from_metadata(&meta)) => Err(not_ours(path, other)),
        None if !is_new(&meta) || meta.uid() != rustix::process::geteuid().as_raw() => {
            Err(not_ours(path, "fsarena was about to make it, but something else is there"))
        }
        _ => Ok(true),
    }
}

fn remove_file(kernel: &SysRoot, path: &Path, identity: Option<Identity>) -> Result<(), Error> {
    let is_new = |meta: &Metadata| meta.is_file() && meta.len() == 0;
    if !is_ours(path, identity, is_new, "it is another file than the one fsarena made there")? {
        return Ok(());
    }
    if let Some(device) = loopdev::attached_as(kernel, path, Identity::at_path(path))?.first() {
        return Err(not_ours(path, format!("it is still attached to {}", device.display())));
    }
    std::fs::remove_file(path).map_err(Error::io("removing", path))
}

/// Removes a directory that fsarena made: with everything in it if `whole`, and only an empty one otherwise.
fn remove_dir(kernel: &SysRoot, path: &Path, identity: Option<Identity>, whole: bool) -> Result<(), Error> {
    if !is_ours(path, identity, Metadata::is_dir, OTHER_DIR)? {
        return Ok(());
    }
    if let Some(made) = identity.filter(|_| whole) {
        return remove_tree(kernel, path, Some(made));
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
            Err(Error::Foreign { dir: path.into(), names: names(path).unwrap_or_default() })
        }
        removed => removed.map_err(Error::io("removing", path)),
    }
}

fn remove_tree(kernel: &SysRoot, path: &Path, identity: Option<Identity>) -> Result<(), Error> {
    let meta = found(path.symlink_metadata()).map_err(Error::io("looking at", path))?;
    let Some(meta) = meta else { return Ok(()) };
    if !meta.is_dir() {
        return Err(not_ours(path, "something else than a directory is there"));
    }
    let real = path.canonicalize().map_err(Error::io("looking for", path))?;
    if let Some(mount) = kernel.mounts()?.iter().find(|mount| mount.target.starts_with(&real)) {
        return Err(not_ours(path, format!("{} is mounted at {:?}", mount.source, mount.target)));
    }
    if let Some(device) = loopdev::attached_below(kernel, &real)?.first() {
        return Err(not_ours(path, format!("a file in it is still attached to {}", device.display())));
    }
    let parent = real.parent().ok_or_else(|| not_ours(path, "it is the root directory"))?;
    let name = real.file_name().ok_or_else(|| not_ours(path, "it has no name"))?;
    let dir = rustix::fs::open(parent, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::io("opening", parent)(error.into()))?;
    let expected = identity.unwrap_or(Identity::from_metadata(&meta));
    remove_at(dir.as_fd(), Path::new(name), expected.dev, Some(expected.ino), &real)
}

/// Removes an entry of an open directory, with everything below it. A directory must be on this device and have this
/// inode number, if one is given.
fn remove_at(parent: BorrowedFd, name: &Path, dev: u64, ino: Option<u64>, shown: &Path) -> Result<(), Error> {
    let failed = |doing, error: rustix::io::Errno| Error::io(doing, shown)(error.into());
    let remove = |flags| unlinkat(parent, name, flags).map_err(|error| failed("removing", error));
    let Some(dir) = dirs::open_dir(parent, name).map_err(|error| failed("opening", error))? else {
        return remove(AtFlags::empty());
    };
    let found = rustix::fs::fstat(&dir).map_err(|error| failed("looking at", error))?;
    if found.st_dev != dev {
        return Err(not_ours(shown, "another filesystem begins here"));
    }
    if ino.is_some_and(|ino| ino != found.st_ino) {
        return Err(not_ours(shown, OTHER_DIR));
    }
    for child in dirs::names_in(&dir).map_err(|error| failed("reading", error))? {
        remove_at(dir.as_fd(), &child, dev, None, &shown.join(&child))?;
    }
    remove(AtFlags::REMOVEDIR)
}

impl Undo {
    /// Checks that the step is done. `ended` means that a reboot has done it; then only objects that a path identifies are
    /// checked, because numbers of processes and devices begin anew.
    ///
    /// # Errors
    /// If it is not undone.
    pub(super) fn verify(&self, kernel: &SysRoot, ended: bool) -> Result<(), Error> {
        let still = |what: &Path, why: String| Err(Error::Unfit { what: what.into(), why });
        match self {
            Undo::Unmount { target, dir } if !mount::may_be_on(target, *dir) => Ok(()),
            Undo::Unmount { target, .. } => match mount::is_mounted(kernel, target)? {
                true if ended => still(target, "something was mounted there after the last boot".into()),
                true => still(target, "something is still mounted there".into()),
                false => Ok(()),
            },
            Undo::Detach { image, identity } => {
                let carriers = loopdev::carriers(kernel, image, *identity)?;
                let why = || format!("it still carries {image:?}, or that file under another name");
                carriers.first().map_or(Ok(()), |device| still(device, why()))
            }
            Undo::RemoveFile { path, .. } | Undo::RemoveDir { path, .. } | Undo::RemoveTree { path } => {
                check_absent(path)
            }
            _ if ended => Ok(()),
            Undo::KillGroup { pgid, start_time } => {
                let living = process::living(kernel, *pgid, *start_time)?;
                let why = |pid: &i32| format!("{} still runs", process::name(kernel, *pid));
                living.first().map_or(Ok(()), |pid| still(Path::new("process"), why(pid)))
            }
            Undo::RemoveGroup { path, identity } => {
                if is_another(path, *identity) {
                    return Ok(());
                }
                check_absent(path)
            }
            Undo::DisableController { root, name, .. } => {
                if cgroup::passes_on(root, name)? && !cgroup::is_controller_used(root, name)? {
                    return still(root, format!("it still passes the controller {name} on"));
                }
                Ok(())
            }
            Undo::RemoveMapped { name, uuid } => match device_mapper::has(name, uuid)? {
                true => still(&Path::new("/dev/mapper").join(name), "it is still there".into()),
                false => Ok(()),
            },
            Undo::RemoveZram { number: Some(number), size_bytes, disk } => {
                if zram::has(kernel, *number, *size_bytes, *disk)? {
                    return still(Path::new(&format!("/dev/zram{number}")), "it is still there".into());
                }
                Ok(())
            }
            Undo::RemoveZram { number: None, .. } => Ok(()),
            Undo::RestoreAttr { path, disk, .. } if !kernel::may_be_of_disk(path, *disk) => Ok(()),
            Undo::RestoreAttr { path, value, .. } => {
                match found(std::fs::read_to_string(path)).map_err(Error::io("reading", path))? {
                    Some(text) if !holds(&text, value) => {
                        still(path, format!("it has the value {}", text.trim()))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Whether the text of an attribute says that it has a value: as its only word, as the choice in brackets, or in the line
/// of one device. A device with the value 0 has no line.
fn holds(text: &str, value: &str) -> bool {
    let text = text.trim();
    if text == value || text.split_whitespace().any(|word| word == format!("[{value}]")) {
        return true;
    }
    let line = |device: &str| text.lines().find(|line| line.split_whitespace().next() == Some(device));
    match value.split_once(' ') {
        Some((device, "0")) => line(device).is_none_or(|line| line == value),
        Some((device, _)) => line(device) == Some(value),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use std::{os::unix::process::CommandExt, process::Command};

    fn file(path: &Path, text: &str) -> Identity {
        std::fs::write(path, text).unwrap();
        Identity::at_path(path).unwrap()
    }

    #[test]
    fn only_the_file_that_was_made_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, other) = (dir.path().join("a\n b"), dir.path().join("other"));
        let made = file(&ours, "x");
        file(&other, "y");
        let kernel = SysRoot::host();
        let undo = |path: &Path| Undo::RemoveFile { path: path.into(), identity: Some(made) };
        assert!(matches!(undo(&other).act(&kernel), Err(Error::NotOurs { .. })));
        assert!(other.exists());
        undo(&ours).act(&kernel).unwrap();
        assert!(!ours.exists());
        undo(&ours).act(&kernel).unwrap();
    }

    #[test]
    fn a_later_file_with_the_inode_number_of_ours_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, work) = (dir.path().join("test.img"), dir.path().join("work"));
        let (image, made) = (file(&path, "of a living run"), made(&work));
        if image.made_at.is_none() {
            fsarena_testkit::skipped("this filesystem does not record when a file was made");
            return;
        }
        let earlier = |it: Identity| Some(Identity { made_at: it.made_at.map(|at| at - 1), ..it });
        let dead = [
            Undo::RemoveFile { path: path.clone(), identity: earlier(image) },
            Undo::RemoveDir { path: work.clone(), identity: earlier(made), whole: true },
        ];
        for undo in dead {
            assert!(matches!(undo.act(&SysRoot::host()), Err(Error::NotOurs { .. })));
        }
        assert!(path.exists() && work.exists());
        // Journals of fsarena 0.1.0 hold the two numbers alone.
        let pair = format!("[{},{}]", image.dev, image.ino);
        let older: Identity = serde_json::from_str(&pair).unwrap();
        Undo::RemoveFile { path: path.clone(), identity: Some(older) }.act(&SysRoot::host()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn without_identity_only_an_empty_file_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let undo = Undo::RemoveFile { path: path.clone(), identity: None };
        file(&path, "data of another program");
        assert!(undo.act(&SysRoot::host()).is_err());
        file(&path, "");
        undo.act(&SysRoot::host()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_tree_goes_and_what_its_links_name_stays() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        file(&tree.join("a/b/c"), "x");
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        file(&outside.join("kept"), "y");
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        Undo::RemoveTree { path: tree.clone() }.act(&SysRoot::host()).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        Undo::RemoveTree { path: tree }.act(&SysRoot::host()).unwrap();
    }

    fn made(path: &Path) -> Identity {
        std::fs::create_dir(path).unwrap();
        Identity::at_path(path).unwrap()
    }

    #[test]
    fn a_directory_goes_when_it_is_empty_and_stays_with_a_foreign_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("images");
        let undo = Undo::RemoveDir { path: path.clone(), identity: Some(made(&path)), whole: false };
        file(&path.join("thesis"), "x");
        match undo.act(&SysRoot::host()) {
            Err(Error::Foreign { dir, names }) => {
                assert_eq!((dir, names), (path.clone(), vec!["thesis".into()]))
            }
            other => panic!("{other:?}"),
        }
        assert!(path.join("thesis").exists());
        std::fs::remove_file(path.join("thesis")).unwrap();
        undo.act(&SysRoot::host()).unwrap();
        assert!(!path.exists());
        undo.act(&SysRoot::host()).unwrap();
    }

    #[test]
    fn only_the_directory_that_was_made_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, kept) = (dir.path().join("work"), dir.path().join("kept"));
        let identity = Some(made(&path));
        std::fs::rename(&path, &kept).unwrap();
        std::fs::create_dir(&path).unwrap();
        file(&path.join("thesis"), "x");
        for whole in [true, false] {
            let undo = Undo::RemoveDir { path: path.clone(), identity, whole };
            assert!(matches!(undo.act(&SysRoot::host()), Err(Error::NotOurs { .. })));
        }
        assert!(path.join("thesis").exists());
        let undo = Undo::RemoveDir { path: path.clone(), identity: None, whole: true };
        assert!(matches!(undo.act(&SysRoot::host()), Err(Error::Foreign { .. })));
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
        file(&path.join("made by a workload"), "x");
        Undo::RemoveDir { path: path.clone(), identity, whole: true }.act(&SysRoot::host()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_tree_with_a_mount_in_it_stays() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().canonicalize().unwrap().join("tree");
        std::fs::create_dir_all(tree.join("mnt")).unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let line = format!("36 35 7:3 / {}/mnt rw - ext4 /dev/loop3 rw\n", tree.display());
        std::fs::write(dir.path().join("proc/self/mountinfo"), line).unwrap();
        let error = Undo::RemoveTree { path: tree.clone() }.act(&SysRoot::at(dir.path())).unwrap_err();
        assert!(error.to_string().contains("is mounted at"), "{error}");
        assert!(tree.join("mnt").exists());
    }

    #[test]
    fn an_attribute_that_is_gone_needs_no_restoring() {
        let dir = tempfile::tempdir().unwrap();
        let undo = |path: PathBuf| Undo::RestoreAttr { path, value: "5".into(), disk: None };
        undo(dir.path().join("no/such")).act(&SysRoot::host()).unwrap();
        let path = dir.path().join("attr");
        file(&path, "0");
        undo(path.clone()).act(&SysRoot::host()).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "5");
    }

    #[test]
    fn values_of_attributes_are_told_in_each_form() {
        for (text, value) in [
            ("performance\n", "performance"),
            ("none [mq-deadline] bfq\n", "mq-deadline"),
            ("8:0 100\n8:16 7\n", "8:16 7"),
            ("8:0 100\n", "8:16 0"),
            ("", "8:16 0"),
        ] {
            assert!(holds(text, value), "{text:?} {value:?}");
        }
        for (text, value) in [("none [bfq]", "none"), ("8:0 100", "8:0 0"), ("8:0 100", "8:0 10"), ("", "x")]
        {
            assert!(!holds(text, value), "{text:?} {value:?}");
        }
    }

    #[test]
    fn what_is_still_there_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kernel) = (dir.path().join("image"), SysRoot::host());
        let removal = Undo::RemoveFile { path: file.clone(), identity: None };
        removal.verify(&kernel, false).unwrap();
        std::fs::write(&file, "").unwrap();
        assert!(removal.verify(&kernel, true).is_err());
        let group = Undo::RemoveGroup { path: file.clone(), identity: None };
        assert!(group.verify(&kernel, false).is_err());
        group.verify(&kernel, true).unwrap();
        let mount = Undo::Unmount { target: "/proc".into(), dir: None };
        assert!(mount.verify(&kernel, true).is_err() && mount.verify(&kernel, false).is_err());
        // A group of its own: the leader of this process's may be in another PID namespace.
        let mut leader = limits::spawn(Command::new("sleep").arg("600").process_group(0)).unwrap();
        let group = leader.id() as i32;
        let started = process::start_time(&kernel, group).unwrap();
        let living = process::living(&kernel, group, started).unwrap();
        let verified = Undo::KillGroup { pgid: group, start_time: started }.verify(&kernel, false);
        leader.kill().and_then(|()| leader.wait()).unwrap();
        assert_eq!(living, [group]);
        assert!(verified.is_err());
    }

    #[test]
    fn what_cannot_be_read_is_not_undone() {
        let dir = tempfile::tempdir().unwrap();
        // `/proc` and `/sys` of this machine are hidden, and a directory cannot be read as an attribute.
        let hidden = SysRoot::at(dir.path());
        let attribute = dir.path().join("attribute");
        std::fs::create_dir_all(attribute.join("cgroup.subtree_control")).unwrap();
        for step in [
            Undo::Unmount { target: "/nowhere".into(), dir: None },
            Undo::Detach { image: "/nowhere/image".into(), identity: None },
            Undo::KillGroup { pgid: 999_999, start_time: 1 },
            Undo::DisableController { root: attribute.clone(), name: "io".into(), group: "/nowhere".into() },
            Undo::RestoreAttr { path: attribute, value: "5".into(), disk: None },
            Undo::RemoveZram { number: Some(3), size_bytes: 4096, disk: None },
            // Longer than any name may be: it cannot even be looked for.
            Undo::RemoveGroup { path: dir.path().join("x".repeat(300)), identity: None },
            Undo::RemoveFile { path: dir.path().join("x".repeat(300)), identity: None },
        ] {
            assert!(step.verify(&hidden, false).is_err(), "{step}");
            assert!(step.act(&hidden).is_err(), "{step}");
        }
    }
}
