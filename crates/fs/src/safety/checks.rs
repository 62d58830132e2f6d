//! What is asked of a device before it may be overwritten.

use crate::Error;
use crate::written::{WrittenLog, signatures};
use fsarena_sys::device::{BlockDevice, behind, is_claimed};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::{loopdev, undo};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where stable names of devices live. A name like `/dev/sda` may mean another disk after a reboot.
const BY_ID: &str = "/dev/disk/by-id";

/// Refuses to use something.
pub(super) fn refused(what: &Path, why: impl Into<String>, fix: impl Into<String>) -> Error {
    Error::Refused { what: what.into(), why: why.into(), fix: fix.into() }
}

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
pub(super) fn stable_names(by_id: &Path, rdev: u64) -> Vec<String> {
    let entries = std::fs::read_dir(by_id).into_iter().flatten().flatten().map(|entry| entry.path());
    let same =
        |path: &PathBuf| path.metadata().is_ok_and(|m| m.file_type().is_block_device() && m.rdev() == rdev);
    let mut names: Vec<_> = entries.filter(same).map(|path| path.display().to_string()).collect();
    names.sort();
    names
}

/// Nothing may use the device, a partition of it, or the disk it is a partition of.
pub(super) fn check_unused(kernel: &Kernel, device: &BlockDevice, shown: &Path) -> Result<(), Error> {
    if device.read_only() {
        return Err(refused(shown, "the kernel has it read-only", "Make it writable: `blockdev --setrw`"));
    }
    check_user(kernel, device, shown, "it")?;
    for name in device.partitions() {
        let partition = partition(kernel, device, &name)?;
        check_user(kernel, &partition, shown, &format!("its partition {name}"))?;
    }
    if let Some(first) = device.partitions().first() {
        let fix = "Name a partition, or clear the table yourself: `wipefs --all`";
        return Err(refused(shown, format!("it has a partition table (there is {first})"), fix));
    }
    match device.parent() {
        Some(disk) => {
            check_user(kernel, &disk, shown, &format!("the disk {} that it is a partition of", disk.name))
        }
        None => Ok(()),
    }
}

pub(super) fn partition(kernel: &Kernel, disk: &BlockDevice, name: &str) -> Result<BlockDevice, Error> {
    let numbers = disk.attribute(&format!("{name}/dev")).and_then(|text| fsarena_sys::device::numbers(&text));
    let (major, minor) = numbers.ok_or_else(|| {
        refused(&disk.path, format!("its partition {name} has no number"), "Look at it with lsblk")
    })?;
    Ok(BlockDevice::numbered(kernel, major, minor, Path::new("/dev").join(name))?)
}

/// Nothing may use this one device.
pub(super) fn check_user(
    kernel: &Kernel,
    device: &BlockDevice,
    shown: &Path,
    what: &str,
) -> Result<(), Error> {
    let mounts = kernel.mounts()?;
    // btrfs mounts have numbers of their own, so the source counts as well.
    let carries = |m: &&fsarena_sys::kernel::MountEntry| {
        m.major_minor == device.numbers() || is(Path::new(&m.source), device)
    };
    if let Some(mount) = mounts.iter().find(carries) {
        return Err(refused(
            shown,
            format!("{what} is mounted at {:?}", mount.target),
            "Unmount it if nothing there is needed",
        ));
    }
    let swaps = kernel.swaps().map_err(fsarena_sys::Error::io("reading", kernel.path("proc/swaps")))?;
    if swaps.iter().any(|swap| is(swap, device)) {
        return Err(refused(shown, format!("{what} is in use as swap"), "Take it out with swapoff(8)"));
    }
    if let [first, ..] = device.holders().as_slice() {
        let why = format!("{what} is part of {first}");
        return Err(refused(shown, why, "Take that apart first (LVM, RAID, encryption, multipath)"));
    }
    if let [first, ..] = loopdev::attached(kernel, &device.path).as_slice() {
        return Err(refused(
            shown,
            format!("{what} is attached to {}", first.display()),
            "Detach that: `losetup --detach`",
        ));
    }
    Ok(())
}

/// Whether a path names this device: by number, or by name where the path cannot be looked at.
pub(super) fn is(path: &Path, device: &BlockDevice) -> bool {
    match path.metadata() {
        Ok(meta) if meta.file_type().is_block_device() => {
            meta.rdev() == rustix::fs::makedev(device.major, device.minor)
        }
        Ok(_) => false,
        Err(_) => path.parent() == Some(Path::new("/dev")) && path.file_name() == Some(device.name.as_ref()),
    }
}

pub(super) fn check_signatures(
    device: &BlockDevice,
    id: &Path,
    given_up: Option<&str>,
    written: &WrittenLog,
) -> Result<(), Error> {
    for signature in signatures(&device.path)? {
        let kind = &signature.kind;
        if signature.is_partition_table() {
            let fix = "Name a partition, or clear the table yourself: `wipefs --all`";
            return Err(refused(id, format!("it has a partition table ({kind})"), fix));
        }
        if given_up != Some(kind) && !written.contains(id, &signature)? {
            let uuid = signature.uuid.as_deref().unwrap_or("without UUID");
            let why = format!("it carries {kind} ({uuid}), which fsarena did not write");
            return Err(refused(id, why, format!("If that may be lost, say so: --erase-signature {kind}")));
        }
    }
    Ok(())
}

/// The kernel's own answer, last.
pub(super) fn check_exclusive(device: &BlockDevice, shown: &Path) -> Result<(), Error> {
    match is_claimed(&device.path)? {
        false => Ok(()),
        true => {
            Err(refused(shown, "the kernel says that it is in use", "Look who uses it: `lsblk`, `fuser -v`"))
        }
    }
}

/// Checks the path of an image before it is made: nothing may be there yet, and it must not lie on a
/// filesystem under test, where it would measure itself.
///
/// `under_test` are devices or directories that the run measures; images that any running fsarena has
/// attached count as well.
///
/// # Errors
/// [`Error::Refused`], or where the directory is not there.
pub fn check_image_path(
    kernel: &Kernel,
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
    let carrier = behind(kernel, dir);
    let is_carrier = |path: &Path| carrier.as_ref().is_some_and(|device| is(path, device));
    let same_filesystem =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.is_dir() && meta.dev() == dir_dev);
    let images = undo::images(state_dir)?;
    let loops = images.iter().flat_map(|image| loopdev::attached(kernel, image));
    let tested = under_test.iter().find(|tested| is_carrier(tested) || same_filesystem(tested)).cloned();
    match tested.or_else(|| loops.into_iter().find(|device| is_carrier(device))) {
        Some(tested) => {
            let why = format!("it would lie on {}, which is itself under test", tested.display());
            Err(refused(path, why, "Name a directory on another filesystem: --on loop:DIR"))
        }
        None => Ok(()),
    }
}
