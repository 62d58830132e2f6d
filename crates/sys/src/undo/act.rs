//! Doing one [`Undo`].

use super::step::{Identity, Undo};
use crate::cgroup::{self, passed_on};
use crate::kernel::{SysRoot, names};
use crate::{Error, attribute, found, loopdev, mount, process, tree, zram};
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs::Metadata, os::unix::fs::MetadataExt, path::Path};

impl Undo {
    /// Does it. Success where it is done already.
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
                absent(group)?;
                passed_on::disable(root, name)
            }
            Undo::RemoveZram { number, size_bytes, disk } => {
                zram::remove(kernel, *number, *size_bytes, *disk)
            }
            Undo::RestoreAttr { path, disk, .. } if !attribute::may_be_of(path, *disk) => Ok(()),
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

/// Whether something else than the one that fsarena made has its path now.
pub(super) fn is_another(path: &Path, made: Option<Identity>) -> bool {
    made.zip(Identity::at(path)).is_some_and(|(made, found)| !made.is_same(&found))
}

/// An error where something is at a path, or that cannot be seen.
pub(super) fn absent(path: &Path) -> Result<(), Error> {
    match found(path.symlink_metadata()).map_err(Error::io("looking at", path))? {
        Some(_) => Err(Error::Unfit { what: path.into(), why: "it is still there".into() }),
        None => Ok(()),
    }
}

/// Whether something is there, and refuses what fsarena did not make: with another identity, or before that is known
/// something that is not new or belongs to another user.
fn is_ours(
    path: &Path,
    identity: Option<Identity>,
    is_new: impl Fn(&Metadata) -> bool,
    other: &str,
) -> Result<bool, Error> {
    let meta = found(path.symlink_metadata()).map_err(Error::io("looking at", path))?;
    let Some(meta) = meta else { return Ok(false) };
    match identity {
        Some(made) if !made.is_same(&Identity::of(&meta)) => Err(not_ours(path, other)),
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
    if let Some(device) = loopdev::attached_as(kernel, path, Identity::at(path))?.first() {
        return Err(not_ours(path, format!("it is still attached to {}", device.display())));
    }
    std::fs::remove_file(path).map_err(Error::io("removing", path))
}

/// Removes a directory that fsarena made: with all in it where that is fsarena's too, else only where nothing is in it.
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
    let expected = identity.unwrap_or(Identity::of(&meta));
    remove_at(dir.as_fd(), Path::new(name), expected.dev, Some(expected.ino), &real)
}

/// Removes one name in an open directory: a directory only on this device and, where given, with this inode number.
fn remove_at(parent: BorrowedFd, name: &Path, dev: u64, ino: Option<u64>, shown: &Path) -> Result<(), Error> {
    let failed = |doing, error: rustix::io::Errno| Error::io(doing, shown)(error.into());
    let remove = |flags| unlinkat(parent, name, flags).map_err(|error| failed("removing", error));
    let Some(dir) = tree::open(parent, name).map_err(|error| failed("opening", error))? else {
        return remove(AtFlags::empty());
    };
    let found = rustix::fs::fstat(&dir).map_err(|error| failed("looking at", error))?;
    if found.st_dev != dev {
        return Err(not_ours(shown, "another filesystem begins here"));
    }
    if ino.is_some_and(|ino| ino != found.st_ino) {
        return Err(not_ours(shown, OTHER_DIR));
    }
    for child in tree::names(&dir).map_err(|error| failed("reading", error))? {
        remove_at(dir.as_fd(), &child, dev, None, &shown.join(&child))?;
    }
    remove(AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(path: &Path, text: &str) -> Identity {
        std::fs::write(path, text).unwrap();
        Identity::at(path).unwrap()
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
        Identity::at(path).unwrap()
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
}
