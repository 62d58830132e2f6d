//! How fsarena performs each undo step, and how it verifies the result.

use super::step::{FileIdentity, UndoStep};
use crate::attribute::may_belong_to_disk;
use crate::kernel::{SysRoot, sorted_names};
use crate::{Error, cgroup, device_mapper, dirs, loopdev, mount, none_if_missing, process, zram};
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::{fs::Metadata, os::unix::fs::MetadataExt};

impl UndoStep {
    /// Performs the step; succeeds if it is done already.
    pub(super) fn perform(&self, kernel: &SysRoot) -> Result<(), Error> {
        match self {
            UndoStep::Unmount { target, dir } if !mount::may_hide_directory(target, *dir) => Ok(()),
            UndoStep::Unmount { target, .. } => mount::unmount_in(kernel, target, &mut |_| {}),
            UndoStep::DetachImage { image, identity } => loopdev::detach_image(kernel, image, *identity, &mut |_| {}),
            UndoStep::RemoveFile { path, identity } => remove_file(kernel, path, *identity),
            UndoStep::RemoveDir { path, identity, with_contents } => {
                remove_dir(kernel, path, *identity, *with_contents)
            }
            UndoStep::RemoveTree { path } => remove_tree(kernel, path, None),
            UndoStep::KillProcessGroup { pgid, start_time } => process::kill_group(kernel, *pgid, *start_time),
            UndoStep::RemoveControlGroup { path, identity } if is_other_object(path, *identity) => Ok(()),
            UndoStep::RemoveControlGroup { path, .. } => cgroup::remove_group(kernel, path),
            UndoStep::DisableController { root, name, group } => {
                check_absent(group)?;
                cgroup::disable_controller(root, name)
            }
            UndoStep::RemoveMapperDevice { name, uuid } => device_mapper::remove_device(name, uuid),
            UndoStep::RemoveZram { number, size_bytes, diskseq } => {
                zram::remove_device(kernel, *number, *size_bytes, *diskseq)
            }
            UndoStep::RestoreAttribute { path, diskseq, .. } if !may_belong_to_disk(path, *diskseq) => Ok(()),
            UndoStep::RestoreAttribute { path, value, .. } => {
                none_if_missing(std::fs::write(path, value)).map(drop).map_err(Error::io("writing", path))
            }
        }
    }
}

/// The reason for leaving a directory alone that fsarena did not make.
const OTHER_DIR: &str = "another directory is there than the one that fsarena made";

fn not_ours(path: &Path, why: impl Into<String>) -> Error {
    Error::NotOurs { path: path.into(), why: why.into() }
}

/// Whether a path now leads to another object than the one that fsarena made.
fn is_other_object(path: &Path, made: Option<FileIdentity>) -> bool {
    made.zip(FileIdentity::at_path(path)).is_some_and(|(made, found)| !made.is_same(&found))
}

/// Returns an error if a path exists, or if fsarena cannot determine that.
fn check_absent(path: &Path) -> Result<(), Error> {
    match none_if_missing(path.symlink_metadata()).map_err(Error::io("looking at", path))? {
        Some(_) => Err(Error::Unusable { object: path.into(), why: "it is still there".into() }),
        None => Ok(()),
    }
}

/// Whether a path exists and leads to the object that fsarena made; false if the path is missing. If the identity of that
/// object is unknown, the object at the path must belong to this user, and `is_new` must return true for it.
///
/// # Errors
/// [`Error::NotOurs`] if another object is at the path; `why_other` is the reason if the identity differs.
fn is_ours(
    path: &Path,
    identity: Option<FileIdentity>,
    is_new: impl Fn(&Metadata) -> bool,
    why_other: &str,
) -> Result<bool, Error> {
    let meta = none_if_missing(path.symlink_metadata()).map_err(Error::io("looking at", path))?;
    let Some(meta) = meta else { return Ok(false) };
    match identity {
        Some(made) if !made.is_same(&FileIdentity::from_metadata(&meta)) => Err(not_ours(path, why_other)),
        None if !is_new(&meta) || meta.uid() != rustix::process::geteuid().as_raw() => {
            Err(not_ours(path, "fsarena was about to make it, but something else is there"))
        }
        _ => Ok(true),
    }
}

/// Removes a file that fsarena made, unless it is attached to a loop device.
fn remove_file(kernel: &SysRoot, path: &Path, identity: Option<FileIdentity>) -> Result<(), Error> {
    let is_new = |meta: &Metadata| meta.is_file() && meta.len() == 0;
    if !is_ours(path, identity, is_new, "it is another file than the one fsarena made there")? {
        return Ok(());
    }
    if let Some(device) = loopdev::devices_of_identified_image(kernel, path, FileIdentity::at_path(path))?.first() {
        return Err(not_ours(path, format!("it is still attached to {}", device.display())));
    }
    std::fs::remove_file(path).map_err(Error::io("removing", path))
}

/// Removes a directory that fsarena made: with everything in it if `with_contents`, and only an empty one otherwise.
fn remove_dir(kernel: &SysRoot, path: &Path, identity: Option<FileIdentity>, with_contents: bool) -> Result<(), Error> {
    if !is_ours(path, identity, Metadata::is_dir, OTHER_DIR)? {
        return Ok(());
    }
    if let Some(made) = identity.filter(|_| with_contents) {
        return remove_tree(kernel, path, Some(made));
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
            Err(Error::ForeignFiles { dir: path.into(), names: sorted_names(path).unwrap_or_default() })
        }
        removed => removed.map_err(Error::io("removing", path)),
    }
}

/// Removes a directory with everything in it, unless something is mounted in it or a file in it is attached to a loop device.
fn remove_tree(kernel: &SysRoot, path: &Path, identity: Option<FileIdentity>) -> Result<(), Error> {
    let meta = none_if_missing(path.symlink_metadata()).map_err(Error::io("looking at", path))?;
    let Some(meta) = meta else { return Ok(()) };
    if !meta.is_dir() {
        return Err(not_ours(path, "something else than a directory is there"));
    }
    let real = path.canonicalize().map_err(Error::io("looking for", path))?;
    if let Some(mount) = kernel.mounts()?.iter().find(|mount| mount.target.starts_with(&real)) {
        return Err(not_ours(path, format!("{} is mounted at {:?}", mount.source, mount.target)));
    }
    if let Some(device) = loopdev::devices_with_files_below(kernel, &real)?.first() {
        return Err(not_ours(path, format!("a file in it is still attached to {}", device.display())));
    }
    let parent = real.parent().ok_or_else(|| not_ours(path, "it is the root directory"))?;
    let name = real.file_name().ok_or_else(|| not_ours(path, "it has no name"))?;
    let dir = rustix::fs::open(parent, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::io("opening", parent)(error.into()))?;
    let expected = identity.unwrap_or(FileIdentity::from_metadata(&meta));
    remove_at(dir.as_fd(), Path::new(name), expected.dev, Some(expected.ino), &real)
}

/// Removes an entry of an open directory, with everything below it. If the entry is a directory, it must be on the device `dev`
/// and, unless `ino` is None, have that inode number. Error messages name the path `shown_path`.
fn remove_at(parent: BorrowedFd, name: &Path, dev: u64, ino: Option<u64>, shown_path: &Path) -> Result<(), Error> {
    let failed = |doing, error: rustix::io::Errno| Error::io(doing, shown_path)(error.into());
    let remove = |flags| unlinkat(parent, name, flags).map_err(|error| failed("removing", error));
    let Some(dir) = dirs::open_dir(parent, name).map_err(|error| failed("opening", error))? else {
        return remove(AtFlags::empty());
    };
    let stat = rustix::fs::fstat(&dir).map_err(|error| failed("looking at", error))?;
    if stat.st_dev != dev {
        return Err(not_ours(shown_path, "another filesystem begins here"));
    }
    if ino.is_some_and(|ino| ino != stat.st_ino) {
        return Err(not_ours(shown_path, OTHER_DIR));
    }
    for child in dirs::names_in(&dir).map_err(|error| failed("reading", error))? {
        remove_at(dir.as_fd(), &child, dev, None, &shown_path.join(&child))?;
    }
    remove(AtFlags::REMOVEDIR)
}

impl UndoStep {
    /// Checks that the step is done. If a reboot has done it (`done_by_reboot`), fsarena checks only objects that a path
    /// identifies, because processes and devices have new numbers.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the step is not done.
    pub(super) fn verify(&self, kernel: &SysRoot, done_by_reboot: bool) -> Result<(), Error> {
        // The object that the step has not removed or restored, and its state.
        let remaining: Option<(PathBuf, String)> = match self {
            UndoStep::Unmount { target, dir } => {
                let is_mounted = mount::may_hide_directory(target, *dir) && mount::is_mounted(kernel, target)?;
                let when =
                    if done_by_reboot { "was mounted there after the last boot" } else { "is still mounted there" };
                is_mounted.then(|| (target.clone(), format!("something {when}")))
            }
            UndoStep::DetachImage { image, identity } => {
                let devices = loopdev::devices_of_image_even_renamed(kernel, image, *identity)?;
                let why = format!("{image:?} is still attached to it, maybe under another name");
                devices.into_iter().next().map(|device| (device, why))
            }
            UndoStep::RemoveFile { path, .. } | UndoStep::RemoveDir { path, .. } | UndoStep::RemoveTree { path } => {
                return check_absent(path);
            }
            _ if done_by_reboot => None,
            UndoStep::KillProcessGroup { pgid, start_time } => {
                let pids = process::living_group_pids(kernel, *pgid, *start_time)?;
                pids.first().map(|pid| ("process".into(), format!("{} still runs", process::describe(kernel, *pid))))
            }
            UndoStep::RemoveControlGroup { path, identity } if is_other_object(path, *identity) => None,
            UndoStep::RemoveControlGroup { path, .. } => return check_absent(path),
            UndoStep::DisableController { root, name, .. } => {
                let is_left = cgroup::is_enabled_for_children(root, name)? && !cgroup::is_controller_used(root, name)?;
                is_left.then(|| (root.clone(), format!("the controller {name} is still enabled for the groups below")))
            }
            UndoStep::RemoveMapperDevice { name, uuid } => {
                let exists = device_mapper::device_exists(name, uuid)?;
                exists.then(|| (Path::new("/dev/mapper").join(name), "it is still there".into()))
            }
            UndoStep::RemoveZram { number: Some(number), size_bytes, diskseq } => {
                let exists = zram::device_exists(kernel, *number, *size_bytes, *diskseq)?;
                exists.then(|| (format!("/dev/zram{number}").into(), "it is still there".into()))
            }
            UndoStep::RemoveZram { number: None, .. } => None,
            UndoStep::RestoreAttribute { path, diskseq, .. } if !may_belong_to_disk(path, *diskseq) => None,
            UndoStep::RestoreAttribute { path, value, .. } => {
                let text = none_if_missing(std::fs::read_to_string(path)).map_err(Error::io("reading", path))?;
                let other = text.filter(|text| !attribute_has_value(text, value));
                other.map(|text| (path.clone(), format!("it has the value {}", text.trim())))
            }
        };
        match remaining {
            Some((object, why)) => Err(Error::Unusable { object, why }),
            None => Ok(()),
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
    use std::{os::unix::process::CommandExt, process::Command};

    fn write_file(path: &Path, text: &str) -> FileIdentity {
        std::fs::write(path, text).unwrap();
        FileIdentity::at_path(path).unwrap()
    }

    #[test]
    fn only_the_file_that_fsarena_made_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (image, other) = (dir.path().join("a\n b"), dir.path().join("other"));
        let identity = write_file(&image, "x");
        write_file(&other, "y");
        let kernel = SysRoot::host();
        let undo = |path: &Path| UndoStep::RemoveFile { path: path.into(), identity: Some(identity) };
        assert!(matches!(undo(&other).perform(&kernel), Err(Error::NotOurs { .. })));
        assert!(other.exists());
        undo(&image).perform(&kernel).unwrap();
        assert!(!image.exists());
        undo(&image).perform(&kernel).unwrap();
    }

    #[test]
    fn a_later_file_with_the_same_inode_number_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, work) = (dir.path().join("test.img"), dir.path().join("work"));
        let (image, dir_identity) = (write_file(&path, "of a living run"), make_dir(&work));
        if image.created_at_ns.is_none() {
            crate::testkit::record_skip("this filesystem does not record when a file was made");
            return;
        }
        let earlier = |identity: FileIdentity| {
            Some(FileIdentity { created_at_ns: identity.created_at_ns.map(|ns| ns - 1), ..identity })
        };
        let steps = [
            UndoStep::RemoveFile { path: path.clone(), identity: earlier(image) },
            UndoStep::RemoveDir { path: work.clone(), identity: earlier(dir_identity), with_contents: true },
        ];
        for undo in steps {
            assert!(matches!(undo.perform(&SysRoot::host()), Err(Error::NotOurs { .. })));
        }
        assert!(path.exists() && work.exists());
        // Journals of fsarena 0.1.0 hold the two numbers alone.
        let pair = format!("[{},{}]", image.dev, image.ino);
        let older: FileIdentity = serde_json::from_str(&pair).unwrap();
        UndoStep::RemoveFile { path: path.clone(), identity: Some(older) }.perform(&SysRoot::host()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn without_an_identity_only_an_empty_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let undo = UndoStep::RemoveFile { path: path.clone(), identity: None };
        write_file(&path, "data of another program");
        assert!(undo.perform(&SysRoot::host()).is_err());
        write_file(&path, "");
        undo.perform(&SysRoot::host()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_tree_is_removed_without_following_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        write_file(&tree.join("a/b/c"), "x");
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        write_file(&outside.join("kept"), "y");
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        UndoStep::RemoveTree { path: tree.clone() }.perform(&SysRoot::host()).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        UndoStep::RemoveTree { path: tree }.perform(&SysRoot::host()).unwrap();
    }

    fn make_dir(path: &Path) -> FileIdentity {
        std::fs::create_dir(path).unwrap();
        FileIdentity::at_path(path).unwrap()
    }

    #[test]
    fn an_empty_directory_is_removed_and_one_with_a_foreign_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("images");
        let undo = UndoStep::RemoveDir { path: path.clone(), identity: Some(make_dir(&path)), with_contents: false };
        write_file(&path.join("thesis"), "x");
        match undo.perform(&SysRoot::host()) {
            Err(Error::ForeignFiles { dir, names }) => {
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
        let identity = Some(make_dir(&path));
        std::fs::rename(&path, &kept).unwrap();
        std::fs::create_dir(&path).unwrap();
        write_file(&path.join("thesis"), "x");
        for with_contents in [true, false] {
            let undo = UndoStep::RemoveDir { path: path.clone(), identity, with_contents };
            assert!(matches!(undo.perform(&SysRoot::host()), Err(Error::NotOurs { .. })));
        }
        assert!(path.join("thesis").exists());
        let undo = UndoStep::RemoveDir { path: path.clone(), identity: None, with_contents: true };
        assert!(matches!(undo.perform(&SysRoot::host()), Err(Error::ForeignFiles { .. })));
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
        write_file(&path.join("made by a workload"), "x");
        UndoStep::RemoveDir { path: path.clone(), identity, with_contents: true }.perform(&SysRoot::host()).unwrap();
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
        let error = UndoStep::RemoveTree { path: tree.clone() }.perform(&SysRoot::at(dir.path())).unwrap_err();
        assert!(error.to_string().contains("is mounted at"), "{error}");
        assert!(tree.join("mnt").exists());
    }

    #[test]
    fn restoring_a_missing_attribute_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let undo = |path: PathBuf| UndoStep::RestoreAttribute { path, value: "5".into(), diskseq: None };
        undo(dir.path().join("no/such")).perform(&SysRoot::host()).unwrap();
        let path = dir.path().join("attr");
        write_file(&path, "0");
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
        for (text, value) in [("none [bfq]", "none"), ("8:0 100", "8:0 0"), ("8:0 100", "8:0 10"), ("", "x")] {
            assert!(!attribute_has_value(text, value), "{text:?} {value:?}");
        }
    }

    #[test]
    fn verify_fails_while_the_object_exists() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kernel) = (dir.path().join("image"), SysRoot::host());
        let removal = UndoStep::RemoveFile { path: file.clone(), identity: None };
        removal.verify(&kernel, false).unwrap();
        std::fs::write(&file, "").unwrap();
        assert!(removal.verify(&kernel, true).is_err());
        let group = UndoStep::RemoveControlGroup { path: file.clone(), identity: None };
        assert!(group.verify(&kernel, false).is_err());
        group.verify(&kernel, true).unwrap();
        let mount = UndoStep::Unmount { target: "/proc".into(), dir: None };
        assert!(mount.verify(&kernel, true).is_err() && mount.verify(&kernel, false).is_err());
        // A new process group: the leader of this process's group may be in another PID namespace.
        let mut leader = limits::spawn(Command::new("sleep").arg("600").process_group(0)).unwrap();
        let group = leader.id() as i32;
        let start_time = process::start_time(&kernel, group).unwrap();
        let living = process::living_group_pids(&kernel, group, start_time).unwrap();
        let verified = UndoStep::KillProcessGroup { pgid: group, start_time }.verify(&kernel, false);
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
            UndoStep::Unmount { target: "/nowhere".into(), dir: None },
            UndoStep::DetachImage { image: "/nowhere/image".into(), identity: None },
            UndoStep::KillProcessGroup { pgid: 999_999, start_time: 1 },
            UndoStep::DisableController { root: attribute.clone(), name: "io".into(), group: "/nowhere".into() },
            UndoStep::RestoreAttribute { path: attribute, value: "5".into(), diskseq: None },
            UndoStep::RemoveZram { number: Some(3), size_bytes: 4096, diskseq: None },
            // The name is longer than the kernel allows, so looking for it fails.
            UndoStep::RemoveControlGroup { path: dir.path().join("x".repeat(300)), identity: None },
            UndoStep::RemoveFile { path: dir.path().join("x".repeat(300)), identity: None },
        ] {
            assert!(step.verify(&hidden, false).is_err(), "{step}");
            assert!(step.perform(&hidden).is_err(), "{step}");
        }
    }
}
