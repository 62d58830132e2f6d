//! Computes the sizes of the images and the source disk, and checks whether this machine has space for them.

use crate::device_layout::{DeviceSpec, DeviceStorage};
use crate::error::{Result, RunError, require};
use bytesize::ByteSize;
use fsarena_core::factor::device::BackingDevice;
use fsarena_core::plan::{Backing, DevicePlan, Plan, SourceDevice};
use fsarena_core::setting::parse_size;
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::lifecycle::variant_options;
use fsarena_fs::safety::{ScratchDevice, WrittenLog, check_image_path};
use fsarena_fs::{Error, def::FsDef};
use fsarena_load::workload::Room;
use fsarena_sys::{host::available_memory_bytes, kernel::SysRoot, limits, undo::state_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::{os::unix::fs::MetadataExt, path::Path};

/// The size of an image is a multiple of this, in bytes, so that small changes of the work do not change the geometry
/// of the filesystem.
const IMAGE_STEP_BYTES: u64 = 256 << 20;
/// The size of the source disk is a multiple of this, in bytes.
const SOURCE_DISK_STEP_BYTES: u64 = 64 << 20;
/// The number of files on the source disk: archives, and copies of them.
const SOURCE_DISK_FILES: u64 = 100;
/// Where images in memory lie.
pub const RAM_DIR: &str = "/dev/shm";

/// The size in bytes that every filesystem gets: enough for the workloads on the variant with the most overhead. If no
/// variant has a filesystem of `defs`, as in a run on bare devices, it is enough for each filesystem of `defs`.
pub fn needed_bytes(defs: &[&FsDef], variants: &[Variant], room: Room) -> u64 {
    let mut largest: Option<u64> = None;
    for def in defs {
        for variant in variants.iter().filter(|variant| variant.level(factor::FS) == def.id) {
            let size_bytes = match bytes_per_inode(def, variant, room.inodes) {
                Some(bytes) => def.size_with_inodes(room.bytes, room.inodes, bytes),
                None => def.size_for(room.bytes, room.inodes),
            };
            largest = largest.max(Some(size_bytes));
        }
    }
    let largest_of_all = || defs.iter().map(|def| def.size_for(room.bytes, room.inodes)).max();
    largest.or_else(largest_of_all).unwrap_or(0)
}

/// The usage types of mke2fs (`-T`), each with the bytes of the device for each inode that its mke2fs.conf sets.
const BYTES_PER_INODE_BY_USAGE: [(&str, u64); 7] = [
    ("floppy", 8192),
    ("small", 4096),
    ("news", 4096),
    ("big", 32 << 10),
    ("huge", 64 << 10),
    ("largefile", 1 << 20),
    ("largefile4", 4 << 20),
];

/// The bytes of the device for each inode that the mkfs of a variant makes: 0 if its option `-N` makes enough inodes
/// for the files, else the value of `-i`, else that of `-T`. None without these options.
fn bytes_per_inode(def: &FsDef, variant: &Variant, files: u64) -> Option<u64> {
    let options = if def.bytes_per_inode > 0 { variant_options(def, variant).ok() } else { None };
    let mkfs_args = options.map_or(vec![], |options| options.mkfs);
    // `variant_options` separates each option from its value.
    let value = |flag: &str| mkfs_args.get(mkfs_args.iter().rposition(|word| word == flag)? + 1);
    if value("-N").and_then(|inodes| inodes.parse().ok()).is_some_and(|inodes: u64| inodes >= files) {
        return Some(0);
    }
    if let Some(bytes) = value("-i") {
        return parse_size(bytes).ok();
    }
    // The last of several types that sets a number decides. If none does, the default holds, also on a small device:
    // mke2fs chooses a type with more inodes for small devices only without `-T`.
    let find_bytes = |usage| BYTES_PER_INODE_BY_USAGE.into_iter().find(|(name, _)| *name == usage);
    let found = value("-T")?.rsplit(',').find_map(find_bytes);
    Some(found.map_or(def.bytes_per_inode, |(_, bytes)| bytes))
}

/// The size in bytes of the device that the run erases, after the safety guard accepted it. The guard checks the device
/// again before the run writes to it. For `signature` see [`open_to_erase`].
pub fn erased_size(kernel: &SysRoot, path: &Path, signature: Option<&str>, needed_bytes: u64) -> Result<u64> {
    let size_bytes = open_to_erase(kernel, path, signature)?.size_bytes();
    check_size(path, size_bytes, "these filesystems need", needed_bytes)?;
    Ok(size_bytes)
}

/// Opens a device that the user named for erasing, if the safety guard accepts it. `signature` is the type of signature
/// that the user allows fsarena to overwrite.
///
/// # Errors
/// The guard refuses the device.
pub fn open_to_erase(kernel: &SysRoot, path: &Path, signature: Option<&str>) -> Result<ScratchDevice, Error> {
    ScratchDevice::from_user_named(kernel, path, signature, &WrittenLog::open(&state_dir()))
}

/// Checks that a device has at least `needed_bytes`. In the message, `subject_and_verb` stands before the needed size,
/// such as "the source disk needs".
fn check_size(path: &Path, size_bytes: u64, subject_and_verb: &str, needed_bytes: u64) -> Result<()> {
    require(size_bytes >= needed_bytes, || {
        let (path, size, needed) = (path.display(), ByteSize(size_bytes), ByteSize(needed_bytes));
        RunError::Missing(format!(
            "{path} has {size} and {subject_and_verb} {needed} for this work; take a smaller {}",
            setting("scale", "")
        ))
    })
}

/// Opens the device that the user named as the source disk, if the safety guard accepts it.
///
/// # Errors
/// The guard refuses the device.
pub fn open_source_disk(kernel: &SysRoot, source: &SourceDevice) -> Result<ScratchDevice> {
    let mut opened = open_to_erase(kernel, &source.path, source.signature.as_deref());
    if let Err(Error::Refused { fix, .. }) = &mut opened {
        // The guard names the flags for the device under test; the source disk has others.
        *fix = fix
            .replace(&setting("erase_signature", ""), &setting("other_signature", ""))
            .replace(&setting("on", "loop:DIR"), &setting("other", "DIR"));
    }
    Ok(opened?)
}

/// Checks the device that the user named as the source disk, if any: the guard accepts it, it is not the device under
/// test, and it has at least `needed_bytes`.
pub fn check_source_device(kernel: &SysRoot, plan: &Plan, needed_bytes: u64) -> Result<()> {
    let Some(source) = &plan.device.source_device else { return Ok(()) };
    let device = open_source_disk(kernel, source)?;
    let device_number = |path: &Path| path.metadata().map(|meta| meta.rdev()).ok();
    let is_erased = match &plan.device.backing {
        Backing::Erase { path, .. } => device_number(path) == device_number(&source.path),
        _ => false,
    };
    let (erase_flag, other_flag) = (setting("erase", ""), setting("other", ""));
    let why = || format!("{} is both {erase_flag} and {other_flag}; name another device", source.path.display());
    require(!is_erased, || RunError::Plan(why()))?;
    check_size(&source.path, device.size_bytes(), "the source disk needs", needed_bytes)
}

/// The size of an image in bytes: the size in the plan, or by default the needed size rounded up.
///
/// # Errors
/// A size in the plan that is too small.
pub fn image_size(plan: &Plan, needed_bytes: u64) -> Result<u64> {
    match plan.device.size {
        None => Ok(needed_bytes.checked_next_multiple_of(IMAGE_STEP_BYTES).unwrap_or(u64::MAX)),
        Some(size) if size.as_u64() >= needed_bytes => Ok(size.as_u64()),
        Some(size) => Err(RunError::Missing(format!(
            "an image of {size} is too small: these filesystems need {} for this work; give {} that or more, or a smaller \
             {}",
            ByteSize(needed_bytes),
            setting("size", ""),
            setting("scale", "")
        ))),
    }
}

/// Checks that the directories of the images exist, that none is on a filesystem under test, and that they have space
/// for the images. For zram devices it checks that memory has space for their contents without compression.
pub fn check_images(
    kernel: &SysRoot,
    device: &DevicePlan,
    runs_dir: &Path,
    devices: &BTreeSet<DeviceSpec>,
    source_disk_bytes: u64,
) -> Result<()> {
    let total_bytes = |kind: BackingDevice| {
        let bytes = devices.iter().filter(|spec| spec.storage == DeviceStorage::Made(kind)).map(|spec| spec.bytes);
        bytes.fold(0, u64::saturating_add)
    };
    for spec in devices {
        if matches!(spec.storage, DeviceStorage::Made(BackingDevice::Loop | BackingDevice::Ram)) {
            limits::check_file_size("an image", spec.bytes)?;
        }
    }
    if device.source_device.is_none() {
        limits::check_file_size("the image of the source disk", source_disk_bytes)?;
    }
    let (mut in_source_dir, mut on_disk, mut in_memory) =
        (0, total_bytes(BackingDevice::Loop), total_bytes(BackingDevice::Ram));
    // The image of the source disk lies in the directory that the user named, or beside the other images.
    match (&device.source_device, &device.source_dir, &device.backing) {
        (Some(_), ..) => {}
        (None, Some(_), _) => in_source_dir = source_disk_bytes,
        (None, None, Backing::Ram | Backing::Zram) => in_memory = in_memory.saturating_add(source_disk_bytes),
        (None, None, _) => on_disk = on_disk.saturating_add(source_disk_bytes),
    }
    let zram_bytes = total_bytes(BackingDevice::Zram);
    let disk_dir = images_dir(device, runs_dir);
    // The needed bytes of each filesystem, by its device number, with a directory on it and the setting of the directory.
    let mut needs = BTreeMap::new();
    for (dir, needed_bytes, dir_setting) in [
        (device.source_dir.as_deref().unwrap_or(disk_dir), in_source_dir, setting("other", "DIR")),
        (disk_dir, on_disk, setting("on", "loop:DIR")),
        (Path::new(RAM_DIR), in_memory, setting("on", "loop:DIR")),
    ] {
        if needed_bytes > 0 {
            check_image_dir(kernel, dir, &dir_setting)?;
            let meta = dir.metadata().map_err(fsarena_sys::Error::io("looking at", dir))?;
            let (_, sum, _) = needs.entry(meta.dev()).or_insert((dir, 0u64, dir_setting));
            *sum = sum.saturating_add(needed_bytes);
        }
    }
    for (dir, needed_bytes, dir_setting) in needs.into_values() {
        check_free_space(dir, needed_bytes, &dir_setting)?;
    }
    // Images in memory use the same memory as zram devices.
    if zram_bytes > 0 { check_memory_for_zram(kernel, zram_bytes.saturating_add(in_memory)) } else { Ok(()) }
}

/// The memory that is available, in bytes.
///
/// # Errors
/// The kernel does not report it.
pub fn available_memory_or_missing(kernel: &SysRoot) -> Result<u64> {
    available_memory_bytes(kernel).ok_or_else(|| {
        let why = "/proc/meminfo does not show how much memory is free, which limits zram devices and tmpfs";
        RunError::Missing(why.into())
    })
}

/// Checks that the available memory has room for zram devices, whose contents may not be compressible, and for the images in
/// memory.
fn check_memory_for_zram(kernel: &SysRoot, needed_bytes: u64) -> Result<()> {
    let available_bytes = available_memory_or_missing(kernel)?;
    require(needed_bytes <= available_bytes, || {
        let (needed, available) = (ByteSize(needed_bytes), ByteSize(available_bytes));
        RunError::Missing(format!(
            "too little memory for zram devices: {needed} needed if their contents cannot be compressed, {available} \
             available; take a smaller {}",
            setting("scale", "")
        ))
    })
}

/// Checks that the filesystem of a directory has `needed_bytes` free for images. `dir_setting` sets another directory.
pub fn check_free_space(dir: &Path, needed_bytes: u64, dir_setting: &str) -> Result<()> {
    let free_bytes = fsarena_sys::dirs::free_bytes(dir)?;
    require(free_bytes >= needed_bytes, || {
        let (needed, free) = (ByteSize(needed_bytes), ByteSize(free_bytes));
        RunError::Missing(format!(
            "too little room for images in {dir:?}: {needed} needed, {free} free; free some, take a smaller {}, or put them \
             elsewhere: {dir_setting}",
            setting("scale", "")
        ))
    })
}

/// The directory of the images of a run that keeps them on disk.
pub fn images_dir<'a>(device: &'a DevicePlan, runs_dir: &'a Path) -> &'a Path {
    match &device.backing {
        Backing::Loop { path: Some(dir) } => dir,
        _ => nearest_existing(runs_dir),
    }
}

/// Returns the directory if it exists, else the nearest directory above it that does.
pub fn nearest_existing(dir: &Path) -> &Path {
    let existing = dir.ancestors().find(|dir| dir.is_dir());
    existing.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks that a directory exists and that the safety guard accepts an image in it. `dir_setting` sets the directory, or
/// another one if it is [`RAM_DIR`].
fn check_image_dir(kernel: &SysRoot, dir: &Path, dir_setting: &str) -> Result<()> {
    let image = match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => dir.join(format!("fsarena-{}", std::process::id())),
        // A file: fsarena did not make it, so the guard refuses it.
        Ok(_) => dir.to_path_buf(),
        Err(error) if dir == Path::new(RAM_DIR) => {
            let fix = format!("images in memory lie there: `mount -t tmpfs tmpfs /dev/shm`, or take `{dir_setting}`");
            return Err(RunError::Missing(format!("{RAM_DIR}: {error}; {fix}")));
        }
        Err(error) => {
            return Err(RunError::Plan(format!("{dir:?}: {error}; {dir_setting} needs a directory that exists")));
        }
    };
    Ok(check_image_path(kernel, &state_dir(), &image, &[])?)
}

/// The size of the source disk in bytes, for the inputs of all workloads and copies of them.
pub fn source_disk_bytes(plan: &Plan, room: Room) -> u64 {
    let def = fsarena_fs::filesystems::find(&plan.device.other_fs);
    let bytes = def.map_or(0, |def| def.size_for(room.source_bytes, SOURCE_DISK_FILES));
    bytes.checked_next_multiple_of(SOURCE_DISK_STEP_BYTES).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_layout::DeviceRole;
    use crate::testing::empty_record;
    use fsarena_fs::filesystems;

    #[test]
    fn images_in_two_directories_of_a_filesystem_share_its_free_space() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let most_bytes = fsarena_sys::dirs::free_bytes(dirs[0].path()).unwrap() / 10 * 6;
        let mut device = empty_record(&["ext4"], &[]).plan.device;
        device.backing = Backing::Loop { path: Some(dirs[0].path().into()) };
        device.source_dir = Some(dirs[1].path().into());
        let storage = DeviceStorage::Made(BackingDevice::Loop);
        let check = |source_disk_bytes| {
            let devices = [DeviceSpec { storage, role: DeviceRole::Whole, bytes: most_bytes }].into();
            check_images(&SysRoot::host(), &device, dirs[0].path(), &devices, source_disk_bytes)
        };
        assert!(check(0).is_ok());
        let error = check(most_bytes).unwrap_err().to_string();
        assert!(error.starts_with("too little room for images"), "{error}");
    }

    #[test]
    fn a_missing_directory_of_the_source_disk_is_reported_with_its_own_setting() {
        let dir = tempfile::tempdir().unwrap();
        let mut device = empty_record(&["ext4"], &[]).plan.device;
        device.source_dir = Some(dir.path().join("missing"));
        let error = check_images(&SysRoot::host(), &device, dir.path(), &[].into(), 1).unwrap_err().to_string();
        assert!(error.contains(&setting("other", "DIR")), "{error}");
    }

    #[test]
    fn the_inodes_of_mkfs_decide_the_size_for_many_small_files() {
        let ext4 = filesystems::find("ext4").unwrap();
        let room = Room { bytes: 1 << 30, inodes: 1_000_000, source_bytes: 0 };
        let size_with = |mkfs: &str| {
            let levels = [(factor::FS, "ext4"), (factor::OPTIONS, "default"), (factor::MKFS, mkfs)];
            let levels = levels.map(|(factor, level)| (factor.to_string(), level.to_string())).into();
            needed_bytes(&[ext4], &[Variant { name: "ext4".into(), levels }], room)
        };
        let least_bytes = ext4.size_with_inodes(room.bytes, room.inodes, 0);
        // The filesystem of the source disk does not count.
        let (xfs, levels) = (filesystems::find("xfs").unwrap(), [(factor::FS.to_string(), "xfs".to_string())]);
        let only_xfs = Variant { name: "xfs".into(), levels: levels.into() };
        assert_eq!(needed_bytes(&[ext4, xfs], &[only_xfs], room), xfs.size_for(room.bytes, room.inodes));
        assert_eq!(size_with(""), ext4.size_for(room.bytes, room.inodes));
        assert_eq!((size_with("-N 1200000"), size_with("-N 900000")), (least_bytes, size_with("")));
        assert_eq!(size_with("-i8192"), 8_192_000_000u64.next_multiple_of(1 << 20));
        assert!(least_bytes < size_with("-i8192"));
        assert_eq!(size_with("-i 64k"), 65_536_000_000u64.next_multiple_of(1 << 20));
        assert_eq!(size_with("-T ext4,largefile"), 1_000_000 << 20);
        assert_eq!(size_with("-T largefile -i 8192"), size_with("-i8192"));
    }
}
