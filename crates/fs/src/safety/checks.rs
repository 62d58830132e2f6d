//! The checks that a device must pass before fsarena may overwrite it: its name, its users (mounts, swap, devices built on
//! it) and its content.

use crate::written_log::{SampledContent, Signature, WrittenLog};
use crate::{Error, error::refused};
use fsarena_core::setting_text::setting;
use fsarena_sys::device::{BlockDevice, device_of_path, is_claimed};
use fsarena_sys::kernel::{MountEntry, SysRoot};
use fsarena_sys::{cancel, loopdev, undo};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The directory of stable device names. A name like `/dev/sda` may mean another disk after a reboot.
const BY_ID: &str = "/dev/disk/by-id";

/// The value of `--erase-signature` for content without a known signature.
const UNKNOWN_CONTENT: &str = "unknown";
/// The advice for a device with a partition table.
const CLEAR_TABLE_FIX: &str = "Name a partition, or clear the table yourself: `wipefs --all`";

/// Checks that the path is a stable name of a block device.
pub(super) fn check_name(path: &Path) -> Result<(), Error> {
    let meta = path.metadata().map_err(fsarena_sys::Error::io("looking for the device", path))?;
    let file_type = meta.file_type();
    if !file_type.is_block_device() {
        let description = if file_type.is_file() {
            "a regular file that fsarena did not make"
        } else if file_type.is_char_device() {
            "a character device"
        } else {
            "no block device"
        };
        let fix = format!("Name a block device, or use `{}`", setting("on", "loop:DIR"));
        return Err(refused(path, format!("it is {description}"), fix));
    }
    if path.parent() == Some(Path::new(BY_ID)) {
        return Ok(());
    }
    let names = stable_names(Path::new(BY_ID), meta.rdev());
    let fix = if names.is_empty() {
        format!("It has no name in {BY_ID}; use `{}`", setting("on", "loop:DIR"))
    } else {
        format!("Name it by {}", names.join(" or "))
    };
    Err(refused(path, "such a name can mean another disk after a reboot", fix))
}

/// The stable names that lead to a device.
fn stable_names(by_id: &Path, rdev: u64) -> Vec<String> {
    let entries = std::fs::read_dir(by_id).into_iter().flatten().flatten().map(|entry| entry.path());
    let leads_to_device =
        |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.file_type().is_block_device() && meta.rdev() == rdev);
    let mut names: Vec<_> = entries.filter(leads_to_device).map(|path| path.display().to_string()).collect();
    names.sort();
    names
}

/// Checks that the device is writable and has no partitions, and that nothing uses it or the disk that it is a partition of.
/// Errors name it by `shown_path`.
pub(super) fn check_unused(kernel: &SysRoot, device: &BlockDevice, shown_path: &Path) -> Result<(), Error> {
    if device.is_read_only() {
        return Err(refused(shown_path, "the kernel has it read-only", "Make it writable: `blockdev --setrw`"));
    }
    let uses = DeviceUses::read(kernel)?;
    check_device_unused(&uses, device, shown_path, "it")?;
    let partitions = device.partition_names()?;
    for name in &partitions {
        let partition = open_partition(kernel, device, name)?;
        check_device_unused(&uses, &partition, shown_path, &format!("its partition {name}"))?;
    }
    if let Some(first) = partitions.first() {
        return Err(refused(shown_path, format!("it has a partition table (there is {first})"), CLEAR_TABLE_FIX));
    }
    if let Some(disk) = device.parent_disk() {
        check_device_unused(&uses, &disk, shown_path, &format!("the disk {} that it is a partition of", disk.name))?;
    }
    Ok(())
}

fn open_partition(kernel: &SysRoot, disk: &BlockDevice, name: &str) -> Result<BlockDevice, Error> {
    let numbers =
        disk.attribute(&format!("{name}/dev")).and_then(|text| fsarena_sys::device::parse_device_numbers(&text));
    let (major, minor) = numbers
        .ok_or_else(|| refused(&disk.path, format!("its partition {name} has no number"), "Look at it with lsblk"))?;
    Ok(BlockDevice::from_numbers(kernel, major, minor, Path::new("/dev").join(name))?)
}

/// Checks that nothing uses this one device; `name` names it in the error: `its partition sda1`.
fn check_device_unused(uses: &DeviceUses, device: &BlockDevice, shown_path: &Path, name: &str) -> Result<(), Error> {
    match uses.find_use(device, &[]) {
        Some(device_use) => Err(refused(shown_path, format!("{name} {}", device_use.how), device_use.fix)),
        None => Ok(()),
    }
}

/// Checks that the device is empty, or has only content that fsarena left there or that the user allows fsarena to overwrite.
/// The device has the `signatures`, and `erasable` is the type of signature in `--erase-signature`.
pub(super) fn check_content(
    device: &BlockDevice,
    stable_name: &Path,
    signatures: &[Signature],
    erasable: Option<&str>,
    log: &WrittenLog,
) -> Result<(), Error> {
    if let Some(table) = signatures.iter().find(|signature| signature.is_partition_table()) {
        return Err(refused(stable_name, format!("it has a partition table ({})", table.kind), CLEAR_TABLE_FIX));
    }
    let not_erasable = signatures.iter().find(|signature| erasable != Some(&signature.kind));
    if not_erasable.is_none() && (!signatures.is_empty() || erasable == Some(UNKNOWN_CONTENT)) {
        return Ok(());
    }
    let unreadable = |error: fsarena_sys::Error| match error {
        interrupted @ fsarena_sys::Error::Interrupted { .. } => interrupted.into(),
        error => refused(stable_name, error.to_string(), "Look at the kernel's log: `dmesg`"),
    };
    let last_fingerprint = log.last_fingerprint(stable_name)?;
    if let Some(fingerprint) = &last_fingerprint
        && fingerprint.matches(device, cancel::check).map_err(unreadable)?
    {
        return Ok(());
    }
    let Some(signature) = not_erasable else {
        if SampledContent::read(device, cancel::check).map_err(unreadable)?.is_blank {
            return Ok(());
        }
        let why = match last_fingerprint {
            Some(_) => "its content changed since fsarena's last run on it, or that run was killed",
            None => {
                "it is not empty: it carries data without any known signature, such as an encrypted volume or a database"
            }
        };
        let fix = format!("To overwrite it, pass {}", setting("erase_signature", UNKNOWN_CONTENT));
        return Err(refused(stable_name, why, fix));
    };
    let (kind, uuid) = (&signature.kind, signature.uuid.as_deref().unwrap_or("without UUID"));
    let origin = if log.has_signature(stable_name, signature)? {
        "and its content changed since fsarena wrote that, or the run that did so was killed"
    } else {
        "which fsarena did not write"
    };
    let fix = format!("To overwrite it, pass {}", setting("erase_signature", kind));
    Err(refused(stable_name, format!("it carries {kind} ({uuid}), {origin}"), fix))
}

/// Checks with an exclusive open that no mount, swap area or other device uses the device.
pub(super) fn check_exclusive(device: &BlockDevice, shown_path: &Path) -> Result<(), Error> {
    if is_claimed(&device.path)? {
        let why = "the kernel says that it is in use";
        return Err(refused(shown_path, why, "Look who uses it: `lsblk`, `fuser -v`"));
    }
    Ok(())
}

/// Checks the path of an image before fsarena makes it: the path must not exist, and must not be on a filesystem under test,
/// whose measurements the image would disturb.
///
/// `under_test` are the devices and directories that the run measures. Images that any running fsarena has attached count
/// as under test too.
///
/// # Errors
/// [`Error::Refused`], or the directory is missing.
pub fn check_image_path(kernel: &SysRoot, state_dir: &Path, path: &Path, under_test: &[PathBuf]) -> Result<(), Error> {
    if path.symlink_metadata().is_ok() {
        let why = "there is something that fsarena did not make";
        let fix = format!("Move it away, or name another directory: {}", setting("on", "loop:DIR"));
        return Err(refused(path, why, fix));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir_dev = dir.metadata().map_err(fsarena_sys::Error::io("looking for the image's directory", dir))?.dev();
    let backing = device_of_path(kernel, dir)?;
    let is_backing = |path: &Path| backing.as_ref().is_some_and(|device| is_device(path, device));
    let is_same_filesystem = |path: &Path| path.metadata().is_ok_and(|meta| meta.is_dir() && meta.dev() == dir_dev);
    let mut loops = vec![];
    for image in undo::journaled_images(state_dir)? {
        loops.extend(loopdev::devices_of_image(kernel, &image)?);
    }
    let tested = under_test.iter().find(|tested| is_backing(tested) || is_same_filesystem(tested)).cloned();
    let tested = tested.or_else(|| loops.into_iter().find(|device| is_backing(device)));
    let Some(tested) = tested else { return Ok(()) };
    let why = format!("it would lie on {}, which is itself under test", tested.display());
    Err(refused(path, why, format!("Name a directory on another filesystem: {}", setting("on", "loop:DIR"))))
}

/// The mounts and swap areas of this machine.
pub(super) struct DeviceUses {
    kernel: SysRoot,
    mounts: Vec<MountEntry>,
    swaps: Vec<PathBuf>,
}

/// A use of a device.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeviceUse {
    /// The end of a sentence about the device: `is mounted at "/home"`.
    pub how: String,
    /// What the user can do to end it.
    pub fix: &'static str,
}

impl DeviceUses {
    /// Reads the mounts and swap areas of this machine.
    ///
    /// # Errors
    /// The kernel's lists cannot be read. The caller must then refuse the device.
    pub fn read(kernel: &SysRoot) -> Result<DeviceUses, Error> {
        Ok(DeviceUses { kernel: kernel.clone(), mounts: kernel.mounts()?, swaps: kernel.swaps()? })
    }

    /// The use of a device; None if it is not in use. Devices named in `except` do not count as its users.
    pub fn find_use(&self, device: &BlockDevice, except: &[String]) -> Option<DeviceUse> {
        // A btrfs mount has its own device number, so the source of the mount counts too.
        let is_mount_of_device =
            |mount: &&MountEntry| mount.major_minor == device.numbers() || is_device(Path::new(&mount.source), device);
        if let Some(mount) = self.mounts.iter().find(is_mount_of_device) {
            let how = format!("is mounted at {:?}", mount.target);
            return Some(DeviceUse { how, fix: "Unmount it if nothing there is needed" });
        }
        if self.swaps.iter().any(|swap| is_device(swap, device)) {
            return Some(DeviceUse { how: "is in use as swap".into(), fix: "Take it out with swapoff(8)" });
        }
        let (holders, loops) = match (device.holder_names(), loopdev::devices_of_image(&self.kernel, &device.path)) {
            (Ok(holders), Ok(loops)) => (holders, loops),
            (Err(error), _) | (_, Err(error)) => {
                let how = format!("may be in use, for fsarena cannot see its users: {error}");
                return Some(DeviceUse { how, fix: "Look at it with `lsblk`" });
            }
        };
        if let Some(first) = holders.iter().find(|name| !except.contains(name)) {
            let fix = "Take that apart first (LVM, RAID, encryption, multipath)";
            return Some(DeviceUse { how: format!("is part of {first}"), fix });
        }
        let is_excepted = |path: &PathBuf| except.iter().any(|name| path.ends_with(name));
        let first = loops.iter().find(|path| !is_excepted(path))?;
        let how = format!("is attached to {}", first.display());
        Some(DeviceUse { how, fix: "Detach that: `losetup --detach`" })
    }

    /// The use of a file as swap; None if it is not in use. `identity` is the device number of its filesystem (`major:minor`)
    /// and its inode number.
    pub fn find_use_of_file(&self, identity: &(String, u64)) -> Option<DeviceUse> {
        let is_this_file = |path: &&PathBuf| {
            path.metadata().is_ok_and(|meta| {
                let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
                meta.is_file() && (format!("{major}:{minor}"), meta.ino()) == *identity
            })
        };
        let swap = self.swaps.iter().find(is_this_file)?;
        let how = format!("is in use as swap, as {}", swap.display());
        Some(DeviceUse { how, fix: "Take it out with swapoff(8)" })
    }
}

/// Whether a path names this device: by its device number, or by its name if the path cannot be read.
pub(super) fn is_device(path: &Path, device: &BlockDevice) -> bool {
    match path.metadata() {
        Ok(meta) if meta.file_type().is_block_device() => {
            meta.rdev() == rustix::fs::makedev(device.major, device.minor)
        }
        Ok(_) => false,
        Err(_) => path.parent() == Some(Path::new("/dev")) && path.file_name() == Some(device.name.as_ref()),
    }
}
