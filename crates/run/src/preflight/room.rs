//! Computes the size of the images, and checks whether there is space for them.

use crate::device_layout::{DeviceSpec, DeviceStorage};
use crate::error::{Result, RunError, require};
use bytesize::ByteSize;
use fsarena_core::factor::device::BackingDevice;
use fsarena_core::plan::{Backing, DevicePlan, OtherDevice, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::lifecycle::variant_options;
use fsarena_fs::safety::{ScratchDevice, WrittenLog, check_image_path};
use fsarena_fs::{Error, def::FsDef};
use fsarena_load::workload::Room;
use fsarena_sys::{host::available_memory, kernel::SysRoot, limits, undo::state_dir};
use std::{collections::BTreeSet, os::unix::fs::MetadataExt, path::Path};

/// Image sizes are whole multiples of this, so that small changes of the work do not change the geometry.
const IMAGE_SIZE_STEP: u64 = 256 << 20;
/// The size of the source disk is a whole multiple of this.
const SOURCE_DISK_STEP: u64 = 64 << 20;
/// Files on the source disk: archives, and copies of them.
const SOURCE_DISK_FILES: u64 = 100;
/// Where images in memory lie.
pub const RAM_DIR: &str = "/dev/shm";

/// The size in bytes that every filesystem gets: enough for the workloads on the variant with the most overhead. Without any
/// variant that has one of these filesystems, such as in a run on bare devices, enough for the filesystem with the most overhead.
pub fn needed_bytes(defs: &[&FsDef], variants: &[Variant], room: Room) -> u64 {
    let mut largest: Option<u64> = None;
    for def in defs {
        for variant in variants.iter().filter(|variant| variant.level(factor::FS) == def.id) {
            let per_inode = bytes_per_inode(def, variant, room.inodes);
            largest = largest.max(Some(def.size_with_inodes(room.bytes, room.inodes, per_inode)));
        }
    }
    let largest_of_all = || defs.iter().map(|def| def.size_for(room.bytes, room.inodes)).max();
    largest.or_else(largest_of_all).unwrap_or(0)
}

/// Bytes of the device for each inode that the mkfs of a variant makes; 0 if its `-N` makes enough for the files.
fn bytes_per_inode(def: &FsDef, variant: &Variant, files: u64) -> u64 {
    let options = if def.bytes_per_inode > 0 { variant_options(def, variant).ok() } else { None };
    let mkfs_args = options.map_or(vec![], |options| options.mkfs);
    let value = |flag: &str| -> Option<u64> {
        let at = mkfs_args.iter().rposition(|word| word == flag)?;
        mkfs_args.get(at + 1)?.parse().ok()
    };
    if value("-N").is_some_and(|inodes| inodes >= files) {
        return 0;
    }
    value("-i").unwrap_or(def.bytes_per_inode)
}

/// The size in bytes of the device that the run erases, after the safety guard accepted it. The guard checks the device again
/// before the run writes to it.
pub fn erased_size(kernel: &SysRoot, path: &Path, signature: Option<&str>, needed: u64) -> Result<u64> {
    let size = open_to_erase(kernel, path, signature)?.size_bytes();
    check_size(path, size, "these filesystems need", needed)?;
    Ok(size)
}

/// Opens a device that the user named for erasing, if the safety guard accepts it.
///
/// # Errors
/// The guard refuses the device.
pub fn open_to_erase(kernel: &SysRoot, path: &Path, signature: Option<&str>) -> Result<ScratchDevice, Error> {
    ScratchDevice::from_user_named(kernel, path, signature, &WrittenLog::open(&state_dir()))
}

/// Checks that a device has at least `needed` bytes. `requirement` is the subject and verb of the message.
fn check_size(path: &Path, size: u64, requirement: &str, needed: u64) -> Result<()> {
    require(size >= needed, || {
        let (path, size, needed) = (path.display(), ByteSize(size), ByteSize(needed));
        RunError::Missing(format!(
            "{path} has {size} and {requirement} {needed} for this work; take a smaller {}",
            setting("scale", "")
        ))
    })
}

/// Opens the device that the user named as the source disk, if the safety guard accepts it.
///
/// # Errors
/// The guard refuses the device.
pub fn open_source_disk(kernel: &SysRoot, source: &OtherDevice) -> Result<ScratchDevice> {
    let mut found = open_to_erase(kernel, &source.path, source.signature.as_deref());
    if let Err(Error::Refused { fix, .. }) = &mut found {
        // The guard names the flags for the device under test; the source disk has others.
        *fix = fix
            .replace(&setting("erase_signature", ""), &setting("other_signature", ""))
            .replace(&setting("on", "loop:DIR"), &setting("other", "DIR"));
    }
    Ok(found?)
}

/// Checks the device that the user named as the source disk, if any: the guard accepts it, it is not the device under test,
/// and it has `needed` bytes.
pub fn check_source_device(kernel: &SysRoot, plan: &Plan, needed: u64) -> Result<()> {
    let Some(source) = &plan.device.other_device else { return Ok(()) };
    let device = open_source_disk(kernel, source)?;
    let number = |path: &Path| path.metadata().map(|meta| meta.rdev()).ok();
    let erased = matches!(&plan.device.backing, Backing::Erase { path, .. } if number(path) == number(&source.path));
    let (erase_flag, other_flag) = (setting("erase", ""), setting("other", ""));
    let why = || format!("{} is both {erase_flag} and {other_flag}; name another device", source.path.display());
    require(!erased, || RunError::Plan(why()))?;
    check_size(&source.path, device.size_bytes(), "the source disk needs", needed)
}

/// The size of an image in bytes: the size in the plan, or by default the needed size rounded up.
///
/// # Errors
/// A size in the plan that is too small.
pub fn image_size(plan: &Plan, needed: u64) -> Result<u64> {
    match plan.device.size {
        None => Ok(needed.checked_next_multiple_of(IMAGE_SIZE_STEP).unwrap_or(u64::MAX)),
        Some(size) if size.as_u64() >= needed => Ok(size.as_u64()),
        Some(size) => Err(RunError::Missing(format!(
            "an image of {size} is too small: these filesystems need {} for this work; give {} that or more, or a smaller \
             {}",
            ByteSize(needed),
            setting("size", ""),
            setting("scale", "")
        ))),
    }
}

/// Checks that the directories of the images exist, that none is on a filesystem under test, and that they have space for
/// the images. For zram devices it checks that memory has space for their contents without compression.
pub fn check_images(
    kernel: &SysRoot,
    device: &DevicePlan,
    runs: &Path,
    devices: &BTreeSet<DeviceSpec>,
    source_disk_bytes: u64,
) -> Result<()> {
    let sum = |kind: BackingDevice| {
        let bytes =
            devices.iter().filter(|device| device.storage == DeviceStorage::Made(kind)).map(|device| device.bytes);
        bytes.fold(0, u64::saturating_add)
    };
    for device in devices {
        if matches!(device.storage, DeviceStorage::Made(BackingDevice::Loop | BackingDevice::Ram)) {
            limits::check_file_size("an image", device.bytes)?;
        }
    }
    if device.other_device.is_none() {
        limits::check_file_size("the image of the source disk", source_disk_bytes)?;
    }
    let (mut in_other_dir, mut on_disk, mut in_memory) = (0, sum(BackingDevice::Loop), sum(BackingDevice::Ram));
    // The image of the source disk lies in the directory that the user named, or beside the other images.
    match (&device.other_device, &device.other_dir, &device.backing) {
        (Some(_), ..) => {}
        (None, Some(_), _) => in_other_dir = source_disk_bytes,
        (None, None, Backing::Ram | Backing::Zram) => in_memory = in_memory.saturating_add(source_disk_bytes),
        (None, None, _) => on_disk = on_disk.saturating_add(source_disk_bytes),
    }
    let zram = sum(BackingDevice::Zram);
    let disk_dir = images_dir(device, runs);
    for (dir, needed) in [
        (device.other_dir.as_deref().unwrap_or(disk_dir), in_other_dir),
        (disk_dir, on_disk),
        (Path::new(RAM_DIR), in_memory),
    ] {
        if needed > 0 {
            check_image_dir(kernel, dir)?;
            let zram = if dir == Path::new(RAM_DIR) { zram } else { 0 };
            check_free_space(dir, needed.saturating_add(zram))?;
        }
    }
    check_memory_for_zram(kernel, zram)
}

/// The memory that is available, in bytes.
///
/// # Errors
/// The kernel does not report it.
pub fn available_memory_or_missing(kernel: &SysRoot) -> Result<u64> {
    available_memory(kernel).ok_or_else(|| {
        let why = "/proc/meminfo does not show how much memory is free, and zram devices and tmpfs need it";
        RunError::Missing(why.into())
    })
}

/// Checks that memory has `zram` bytes available for zram devices.
fn check_memory_for_zram(kernel: &SysRoot, zram: u64) -> Result<()> {
    if zram == 0 {
        return Ok(());
    }
    let available = available_memory_or_missing(kernel)?;
    if zram <= available {
        return Ok(());
    }
    let (zram, available) = (ByteSize(zram), ByteSize(available));
    Err(RunError::Missing(format!(
        "too little memory for zram devices: {zram} needed where nothing can be compressed, {available} available; take \
         a smaller {}",
        setting("scale", "")
    )))
}

/// Checks that the filesystem of a directory has `needed` bytes free for images.
pub fn check_free_space(dir: &Path, needed: u64) -> Result<()> {
    let free = fsarena_sys::dirs::free_bytes(dir)?;
    require(free >= needed, || {
        let (needed, free) = (ByteSize(needed), ByteSize(free));
        RunError::Missing(format!(
            "too little room for images in {dir:?}: {needed} needed, {free} free; free some, take a smaller {}, or put them \
             elsewhere: {}",
            setting("scale", ""),
            setting("on", "loop:DIR")
        ))
    })
}

/// The directory of the images of a run that keeps them on disk.
pub fn images_dir<'a>(device: &'a DevicePlan, runs: &'a Path) -> &'a Path {
    match &device.backing {
        Backing::Loop { path: Some(dir) } => dir,
        _ => nearest_existing(runs),
    }
}

/// Returns the directory if it exists, else the nearest directory above it that does.
pub fn nearest_existing(dir: &Path) -> &Path {
    let above = dir.ancestors().find(|dir| dir.is_dir());
    above.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks that a directory exists and that the safety guard accepts an image in it.
fn check_image_dir(kernel: &SysRoot, dir: &Path) -> Result<()> {
    let image = match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => dir.join(format!("fsarena-{}", std::process::id())),
        // A file: fsarena did not make it, so the guard refuses it.
        Ok(_) => dir.to_path_buf(),
        Err(error) if dir == Path::new(RAM_DIR) => {
            let flag = setting("on", "loop:DIR");
            let fix = format!("images in memory lie there: `mount -t tmpfs tmpfs /dev/shm`, or take `{flag}`");
            return Err(RunError::Missing(format!("{RAM_DIR}: {error}; {fix}")));
        }
        Err(error) => {
            let flag = setting("on", "loop:DIR");
            let why = format!("{dir:?}: {error}; {flag} needs a directory that exists");
            return Err(RunError::Plan(why));
        }
    };
    Ok(check_image_path(kernel, &state_dir(), &image, &[])?)
}

/// The size of the source disk in bytes, for the inputs of all workloads and copies of them.
pub fn source_disk_bytes(plan: &Plan, room: Room) -> u64 {
    let def = fsarena_fs::filesystems::find(&plan.device.other_fs);
    let bytes = def.map_or(0, |def| def.size_for(room.source_bytes, SOURCE_DISK_FILES));
    bytes.checked_next_multiple_of(SOURCE_DISK_STEP).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_fs::filesystems;

    #[test]
    fn the_inodes_of_mkfs_decide_the_size_for_many_small_files() {
        let ext4 = filesystems::find("ext4").unwrap();
        let room = Room { bytes: 1 << 30, inodes: 1_000_000, source_bytes: 0 };
        let size = |mkfs: &str| {
            let levels = [(factor::FS, "ext4"), (factor::OPTIONS, "default"), (factor::MKFS, mkfs)];
            let levels = levels.map(|(factor, level)| (factor.to_string(), level.to_string())).into();
            needed_bytes(&[ext4], &[Variant { name: "ext4".into(), levels }], room)
        };
        let least = ext4.size_with_inodes(room.bytes, room.inodes, 0);
        // The filesystem of the source disk does not count.
        let (xfs, levels) = (filesystems::find("xfs").unwrap(), [(factor::FS.to_string(), "xfs".to_string())]);
        let only_xfs = Variant { name: "xfs".into(), levels: levels.into() };
        assert_eq!(needed_bytes(&[ext4, xfs], &[only_xfs], room), xfs.size_for(room.bytes, room.inodes));
        assert_eq!(size(""), ext4.size_for(room.bytes, room.inodes));
        assert_eq!((size("-N 1200000"), size("-N 900000")), (least, size("")));
        assert_eq!(size("-i8192"), 8_192_000_000u64.next_multiple_of(1 << 20));
        assert!(least < size("-i8192"));
    }
}
