//! Checks that a device passes before fsarena may overwrite it.

use super::content::Samples;
use super::usage::{Usage, is};
use crate::written::{Signature, WrittenLog};
use crate::{Error, error::refused};
use fsarena_sys::device::{BlockDevice, behind, is_claimed};
use fsarena_sys::{cancel, kernel::SysRoot, loopdev, undo};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where stable names of devices live. A name like `/dev/sda` may mean another disk after a reboot.
const BY_ID: &str = "/dev/disk/by-id";

/// The type that stands for content without any signature.
const UNKNOWN: &str = "unknown";
/// What to do about a partition table.
const CLEAR_TABLE: &str = "Name a partition, or clear the table yourself: `wipefs --all`";

/// The path must be a stable name of a block device.
pub(super) fn check_name(path: &Path) -> Result<(), Error> {
    let meta = path.metadata().map_err(fsarena_sys::Error::io("looking for the device", path))?;
    let kind = meta.file_type();
    let what = match () {
        () if kind.is_block_device() => None,
        () if kind.is_file() => Some("a regular file that fsarena did not make"),
        () if kind.is_char_device() => Some("a character device"),
        () => Some("no block device"),
    };
    if let Some(what) = what {
        return Err(refused(path, format!("it is {what}"), "Name a block device, or use `--on loop:DIR`"));
    }
    if path.parent() == Some(Path::new(BY_ID)) {
        return Ok(());
    }
    let names = stable_names(Path::new(BY_ID), meta.rdev());
    let fix = match names.is_empty() {
        true => format!("It has no name in {BY_ID}; use `--on loop:DIR`"),
        false => format!("Name it by {}", names.join(" or ")),
    };
    Err(refused(path, "such a name can mean another disk after a reboot", fix))
}

/// The stable names that lead to a device.
fn stable_names(by_id: &Path, rdev: u64) -> Vec<String> {
    let entries = std::fs::read_dir(by_id).into_iter().flatten().flatten().map(|entry| entry.path());
    let same =
        |path: &PathBuf| path.metadata().is_ok_and(|m| m.file_type().is_block_device() && m.rdev() == rdev);
    let mut names: Vec<_> = entries.filter(same).map(|path| path.display().to_string()).collect();
    names.sort();
    names
}

/// Nothing may use the device, a partition of it, or the disk it is a partition of.
pub(super) fn check_unused(kernel: &SysRoot, device: &BlockDevice, shown: &Path) -> Result<(), Error> {
    if device.read_only() {
        return Err(refused(shown, "the kernel has it read-only", "Make it writable: `blockdev --setrw`"));
    }
    let usage = Usage::of(kernel)?;
    check_user(&usage, device, shown, "it")?;
    let partitions = device.partitions()?;
    for name in &partitions {
        let partition = partition(kernel, device, name)?;
        check_user(&usage, &partition, shown, &format!("its partition {name}"))?;
    }
    if let Some(first) = partitions.first() {
        return Err(refused(shown, format!("it has a partition table (there is {first})"), CLEAR_TABLE));
    }
    let what = |disk: &BlockDevice| format!("the disk {} that it is a partition of", disk.name);
    device.parent().map_or(Ok(()), |disk| check_user(&usage, &disk, shown, &what(&disk)))
}

fn partition(kernel: &SysRoot, disk: &BlockDevice, name: &str) -> Result<BlockDevice, Error> {
    let numbers = disk.attribute(&format!("{name}/dev")).and_then(|text| fsarena_sys::device::numbers(&text));
    let (major, minor) = numbers.ok_or_else(|| {
        refused(&disk.path, format!("its partition {name} has no number"), "Look at it with lsblk")
    })?;
    Ok(BlockDevice::numbered(kernel, major, minor, Path::new("/dev").join(name))?)
}

/// Nothing may use this one device.
fn check_user(usage: &Usage, device: &BlockDevice, shown: &Path, what: &str) -> Result<(), Error> {
    let used = usage.device(device, &[]);
    used.map_or(Ok(()), |used| Err(refused(shown, format!("{what} {}", used.how), used.fix)))
}

/// Nothing may lie on the device but what fsarena left there, and what the user gives up.
pub(super) fn check_content(
    device: &BlockDevice,
    id: &Path,
    found: &[Signature],
    given_up: Option<&str>,
    written: &WrittenLog,
) -> Result<(), Error> {
    if let Some(table) = found.iter().find(|signature| signature.is_partition_table()) {
        return Err(refused(id, format!("it has a partition table ({})", table.kind), CLEAR_TABLE));
    }
    let strange = found.iter().find(|signature| given_up != Some(&signature.kind));
    if strange.is_none() && (!found.is_empty() || given_up == Some(UNKNOWN)) {
        return Ok(());
    }
    let unreadable = |error: fsarena_sys::Error| match error {
        stopped @ fsarena_sys::Error::Interrupted { .. } => stopped.into(),
        error => refused(id, error.to_string(), "Look at the kernel's log: `dmesg`"),
    };
    let left = written.content(id)?;
    if let Some(left) = &left
        && left.fits(device, cancel::check).map_err(unreadable)?
    {
        return Ok(());
    }
    let Some(strange) = strange else {
        if Samples::read(device, cancel::check).map_err(unreadable)?.blank {
            return Ok(());
        }
        let why = match left {
            Some(_) => "its content changed since fsarena's last run on it, or that run was killed",
            None => {
                "it is not empty: it carries data without any known signature, such as an encrypted volume or a database"
            }
        };
        return Err(refused(id, why, format!("If that may be lost, say so: --erase-signature {UNKNOWN}")));
    };
    let (kind, uuid) = (&strange.kind, strange.uuid.as_deref().unwrap_or("without UUID"));
    let whose = match written.contains(id, strange)? {
        true => "and its content changed since fsarena wrote that, or the run that did so was killed",
        false => "which fsarena did not write",
    };
    let fix = format!("If that may be lost, say so: --erase-signature {kind}");
    Err(refused(id, format!("it carries {kind} ({uuid}), {whose}"), fix))
}

/// The kernel's own answer.
pub(super) fn check_exclusive(device: &BlockDevice, shown: &Path) -> Result<(), Error> {
    match is_claimed(&device.path)? {
        false => Ok(()),
        true => {
            Err(refused(shown, "the kernel says that it is in use", "Look who uses it: `lsblk`, `fuser -v`"))
        }
    }
}

/// Checks the path of an image before it is made: it must be free, and it must not lie on a filesystem under
/// test, where it would measure itself.
///
/// `under_test` are devices or directories that the run measures; images that any running fsarena has
/// attached count as well.
///
/// # Errors
/// [`Error::Refused`], or where the directory is not there.
pub fn check_image_path(
    kernel: &SysRoot,
    state_dir: &Path,
    path: &Path,
    under_test: &[PathBuf],
) -> Result<(), Error> {
    if path.symlink_metadata().is_ok() {
        let why = "there is something that fsarena did not make";
        return Err(refused(path, why, "Move it away, or name another directory: --on loop:DIR"));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir_dev =
        dir.metadata().map_err(fsarena_sys::Error::io("looking for the image's directory", dir))?.dev();
    let carrier = behind(kernel, dir)?;
    let is_carrier = |path: &Path| carrier.as_ref().is_some_and(|device| is(path, device));
    let same_filesystem =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_dir() && meta.dev() == dir_dev);
    let mut loops = vec![];
    for image in undo::images(state_dir)? {
        loops.extend(loopdev::attached(kernel, &image)?);
    }
    let tested = under_test.iter().find(|tested| is_carrier(tested) || same_filesystem(tested)).cloned();
    let tested = tested.or_else(|| loops.into_iter().find(|device| is_carrier(device)));
    let Some(tested) = tested else { return Ok(()) };
    let why = format!("it would lie on {}, which is itself under test", tested.display());
    Err(refused(path, why, "Name a directory on another filesystem: --on loop:DIR"))
}
