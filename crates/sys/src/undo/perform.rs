//! How fsarena performs each undo step, and how it verifies the result.

use super::step::{Identity, Undo};
use crate::attribute::may_be_of_disk;
use crate::kernel::{SysRoot, names};
use crate::{Error, cgroup, device_mapper, dirs, loopdev, mount, none_if_missing, process, zram};
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs::Metadata, os::unix::fs::MetadataExt, path::Path};

impl Undo {
    /// Performs the step; succeeds if it is done already.
    pub(super) fn perform(&self, kernel: &SysRoot) -> Result<(), Error> {
        match self {
            Undo::Unmount { target, dir } if !mount::may_be_on(target, *dir) => Ok(()),
            Undo::Unmount { target, .. } => mount::unmount_in(kernel, target, &mut |_| {}),
            Undo::Detach { image, identity } => loopdev::detach_image(kernel, image, *identity, &mut |_| {}),
            Undo::RemoveFile { path, identity } => remove_file(kernel, path, *identity),
            Undo::RemoveDir { path, identity, whole } => remove_dir(kernel, path, *identity, *whole),
            Undo::RemoveTree { path } => remove_tree(kernel, path, None),
            Undo::KillGroup { pgid, start_time } => process::kill_group(kernel, *pgid, *start_time),
            Undo::RemoveGroup { path, identity } if is_other_object(path, *identity) => Ok(()),
            Undo::RemoveGroup { path, .. } => cgroup::remove(kernel, path),
            Undo::DisableController { root, name, group } => {
                check_absent(group)?;
                cgroup::disable_controller(root, name)
            }
            Undo::RemoveMapped { name, uuid } => device_mapper::remove(name, uuid),
            Undo::RemoveZram { number, size_bytes, disk } => {
                zram::remove(kernel, *number, *size_bytes, *disk)
            }
            Undo::RestoreAttr { path, disk, .. } if !may_be_of_disk(path, *disk) => Ok(()),
            Undo::RestoreAttr { path, value, .. } => {
                none_if_missing(std::fs::write(path, value)).map(drop).map_err(Error::io("writing", path))
            }
        }
    }
}

const OTHER_DIR: &str = "another directory is there than the one that fsarena made";

fn not_ours(path: &Path, why: impl Into<String>) -> Error {
    Error::NotOurs { path: path.into(), why: why.into() }
}

/// Whether a path now leads to another object than the one that fsarena made.
fn is_other_object(path: &Path, made: Option<Identity>) -> bool {
    made.zip(Identity::at_path(path)).is_some_and(|(made, found)| !made.is_same(&found))
}

/// Returns an error if a path exists, or if fsarena cannot determine that.
fn check_absent(path: &Path) -> Result<(), Error> {
    match none_if_missing(path.symlink_metadata()).map_err(Error::io("looking at", path))? {
        Some(_) => Err(Error::Unfit { what: path.into(), why: "it is still there".into() }),
        None => Ok(()),
    }
}

/// Whether a path exists and leads to the object that fsarena made; false if the path is missing. Without an `identity`
/// the object must belong to this user, and `is_new` must return true for it.
///
/// # Errors
/// [`Error::NotOurs`] if another object has its place; `other` is the reason if the identity differs.
fn is_ours(
    path: &Path,
    identity: Option<Identity>,
    is_new: impl Fn(&Metadata) -> bool,
    other: &str,
) -> Result<bool, Error> {
    let meta = none_if_missing(path.symlink_metadata()).map_err(Error::io("looking at", path))?;
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
    let meta = none_if_missing(path.symlink_metadata()).map_err(Error::io("looking at", path))?;
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

/// Removes an entry of an open directory, with everything below it. A directory must be on the device `dev` and, if `ino`
/// is given, have that inode number. Error messages name the path `shown`.
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
    /// Checks that the step is done. `rebooted` means that a reboot has done it; then fsarena checks only objects that a
    /// path identifies, because processes and devices have new numbers.
    ///
    /// # Errors
    /// [`Error::Unfit`] if the step is not done.
    pub(super) fn verify(&self, kernel: &SysRoot, rebooted: bool) -> Result<(), Error> {
        let still = |what: &Path, why: String| Err(Error::Unfit { what: what.into(), why });
        match self {
            Undo::Unmount { target, dir } if !mount::may_be_on(target, *dir) => Ok(()),
            Undo::Unmount { target, .. } => {
                if !mount::is_mounted(kernel, target)? {
                    return Ok(());
                }
                let when =
                    if rebooted { "was mounted there after the last boot" } else { "is still mounted there" };
                still(target, format!("something {when}"))
            }
            Undo::Detach { image, identity } => {
                if let Some(device) = loopdev::carriers(kernel, image, *identity)?.first() {
                    return still(
                        device,
                        format!("it still carries {image:?}, or that file under another name"),
                    );
                }
                Ok(())
            }
            Undo::RemoveFile { path, .. } | Undo::RemoveDir { path, .. } | Undo::RemoveTree { path } => {
                check_absent(path)
            }
            _ if rebooted => Ok(()),
            Undo::KillGroup { pgid, start_time } => {
                if let Some(pid) = process::living(kernel, *pgid, *start_time)?.first() {
                    return still(
                        Path::new("process"),
                        format!("{} still runs", process::name(kernel, *pid)),
                    );
                }
                Ok(())
            }
            Undo::RemoveGroup { path, identity } => {
                if is_other_object(path, *identity) {
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
            Undo::RemoveMapped { name, uuid } => {
                if device_mapper::exists(name, uuid)? {
                    return still(&Path::new("/dev/mapper").join(name), "it is still there".into());
                }
                Ok(())
            }
            Undo::RemoveZram { number: Some(number), size_bytes, disk } => {
                if zram::exists(kernel, *number, *size_bytes, *disk)? {
                    return still(Path::new(&format!("/dev/zram{number}")), "it is still there".into());
                }
                Ok(())
            }
            Undo::RemoveZram { number: None, .. } => Ok(()),
            Undo::RestoreAttr { path, disk, .. } if !may_be_of_disk(path, *disk) => Ok(()),
            Undo::RestoreAttr { path, value, .. } => {
                match none_if_missing(std::fs::read_to_string(path)).map_err(Error::io("reading", path))? {
                    Some(text) if !attribute_has_value(&text, value) => {
                        still(path, format!("it has the value {}", text.trim()))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Whether the text of a kernel attribute has a value: as its only word (`none`), as the word in brackets (`[none] bfq`), or
/// as the line of one device (`8:0 100`). A device with the value 0 may have no line.
fn attribute_has_value(text: &str, value: &str) -> bool {
    let text = text.trim();
    if text == value || text.split_whitespace().any(|word| word == format!("[{value}]")) {
        return true;
    }
    let line_of = |device: &str| text.lines().find(|line| line.split_whitespace().next() == Some(device));
    match value.split_once(' ') {
        Some((device, "0")) => line_of(device).is_none_or(|line| line == value),
        Some((device, _)) => line_of(device) == Some(value),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

    fn file(path: &Path, text: &str) -> Identity {
        std::fs::write(path, text).unwrap();
        Identity::at_path(path).unwrap()
    }

    #[test]
    fn only_the_file_that_fsarena_made_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, other) = (dir.path().join("a\n b"), dir.path().join("other"));
        let made = file(&ours, "x");
        file(&other, "y");
        let kernel = SysRoot::host();
        let undo = |path: &Path| Undo::RemoveFile { path: path.into(), identity: Some(made) };
        assert!(matches!(undo(&other).perform(&kernel), Err(Error::NotOurs { .. })));
        assert!(other.exists());
        undo(&ours).perform(&kernel).unwrap();
        assert!(!ours.exists());
        undo(&ours).perform(&kernel).unwrap();
    }

    #[test]
    fn a_later_file_with_the_same_inode_number_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, work) = (dir.path().join("test.img"), dir.path().join("work"));
        let (image, made) = (file(&path, "of a living run"), made(&work));
        if image.made_at.is_none() {
            crate::testkit::skipped("this filesystem does not record when a file was made");
            return;
        }
        let earlier = |it: Identity| Some(Identity { made_at: it.made_at.map(|at| at - 1), ..it });
        let dead = [
            Undo::RemoveFile { path: path.clone(), identity: earlier(image) },
            Undo::RemoveDir { path: work.clone(), identity: earlier(made), whole: true },
        ];
        for undo in dead {
            assert!(matches!(undo.perform(&SysRoot::host()), Err(Error::NotOurs { .. })));
        }
        assert!(path.exists() && work.exists());
        // Journals of fsarena 0.1.0 hold the two numbers alone.
        let pair = format!("[{},{}]", image.dev, image.ino);
        let older: Identity = serde_json::from_str(&pair).unwrap();
        Undo::RemoveFile { path: path.clone(), identity: Some(older) }.perform(&SysRoot::host()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn without_an_identity_only_an_empty_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let undo = Undo::RemoveFile { path: path.clone(), identity: None };
        file(&path, "data of another program");
        assert!(undo.perform(&SysRoot::host()).is_err());
        file(&path, "");
        undo.perform(&SysRoot::host()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_tree_is_removed_without_following_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        file(&tree.join("a/b/c"), "x");
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        file(&outside.join("kept"), "y");
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        Undo::RemoveTree { path: tree.clone() }.perform(&SysRoot::host()).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        Undo::RemoveTree { path: tree }.perform(&SysRoot::host()).unwrap();
    }

    fn made(path: &Path) -> Identity {
        std::fs::create_dir(path).unwrap();
        Identity::at_path(path).unwrap()
    }

    #[test]
    fn an_empty_directory_is_removed_and_one_with_a_foreign_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("images");
        let undo = Undo::RemoveDir { path: path.clone(), identity: Some(made(&path)), whole: false };
        file(&path.join("thesis"), "x");
        match undo.perform(&SysRoot::host()) {
            Err(Error::Foreign { dir, names }) => {
                assert_eq!((dir, names), (path.clone(), vec!["thesis".into()]))
            }
            other => panic!("{other:?}"),
        }
        assert!(path.join("thesis").exists());
        std::fs::remove_file(path.join("thesis")).unwrap();
        undo.perform(&SysRoot::host()).unwrap();
        assert!(!path.exists());
        undo.perform(&SysRoot::host()).unwrap();
    }

    #[test]
    fn only_the_directory_that_fsarena_made_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, kept) = (dir.path().join("work"), dir.path().join("kept"));
        let identity = Some(made(&path));
        std::fs::rename(&path, &kept).unwrap();
        std::fs::create_dir(&path).unwrap();
        file(&path.join("thesis"), "x");
        for whole in [true, false] {
            let undo = Undo::RemoveDir { path: path.clone(), identity, whole };
            assert!(matches!(undo.perform(&SysRoot::host()), Err(Error::NotOurs { .. })));
        }
        assert!(path.join("thesis").exists());
        let undo = Undo::RemoveDir { path: path.clone(), identity: None, whole: true };
        assert!(matches!(undo.perform(&SysRoot::host()), Err(Error::Foreign { .. })));
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
        file(&path.join("made by a workload"), "x");
        Undo::RemoveDir { path: path.clone(), identity, whole: true }.perform(&SysRoot::host()).unwrap();
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
        let error = Undo::RemoveTree { path: tree.clone() }.perform(&SysRoot::at(dir.path())).unwrap_err();
        assert!(error.to_string().contains("is mounted at"), "{error}");
        assert!(tree.join("mnt").exists());
    }

    #[test]
    fn restoring_a_missing_attribute_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let undo = |path: PathBuf| Undo::RestoreAttr { path, value: "5".into(), disk: None };
        undo(dir.path().join("no/such")).perform(&SysRoot::host()).unwrap();
        let path = dir.path().join("attr");
        file(&path, "0");
        undo(path.clone()).perform(&SysRoot::host()).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "5");
    }

    #[test]
    fn each_form_of_an_attribute_value_is_recognized() {
        for (text, value) in [
            ("performance\n", "performance"),
            ("none [mq-deadline] bfq\n", "mq-deadline"),
            ("8:0 100\n8:16 7\n", "8:16 7"),
            ("8:0 100\n", "8:16 0"),
            ("", "8:16 0"),
        ] {
            assert!(attribute_has_value(text, value), "{text:?} {value:?}");
        }
        for (text, value) in [("none [bfq]", "none"), ("8:0 100", "8:0 0"), ("8:0 100", "8:0 10"), ("", "x")]
        {
            assert!(!attribute_has_value(text, value), "{text:?} {value:?}");
        }
    }

    #[test]
    fn verify_fails_while_the_object_exists() {
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
        // A new process group: the leader of this process's group may be in another PID namespace.
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
    fn unreadable_state_never_counts_as_undone() {
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
            // The name is longer than the kernel allows, so looking for it fails.
            Undo::RemoveGroup { path: dir.path().join("x".repeat(300)), identity: None },
            Undo::RemoveFile { path: dir.path().join("x".repeat(300)), identity: None },
        ] {
            assert!(step.verify(&hidden, false).is_err(), "{step}");
            assert!(step.perform(&hidden).is_err(), "{step}");
        }
    }
}
