//! Computes the size of the images, and checks whether there is space for them.

use crate::error::{Result, RunError, require};
use crate::layout::{Carrier, DeviceSpec};
use crate::settings::setting;
use bytesize::ByteSize;
use fsarena_core::factor::device::BackingDevice;
use fsarena_core::plan::{Backing, DevicePlan, OtherDevice, Plan};
use fsarena_fs::safety::{ScratchDevice, WrittenLog, check_image_path};
use fsarena_fs::{Error, def::FsDef};
use fsarena_load::workload::Room;
use fsarena_sys::{host::available_memory, kernel::SysRoot, limits, undo::state_dir};
use std::{collections::BTreeSet, os::unix::fs::MetadataExt, path::Path};

/// Image sizes are whole multiples of this, so that small changes of the work do not change the geometry.
const SIZE_STEP: u64 = 256 << 20;
/// The same for the source disk.
const OTHER_STEP: u64 = 64 << 20;
/// Files on the source disk: archives, and copies of them.
const OTHER_FILES: u64 = 100;
/// Where images in memory lie.
pub const RAM: &str = "/dev/shm";

/// The size that the filesystem which needs most needs for the work: all variants get the same.
pub fn needed(defs: &[&FsDef], room: Room) -> u64 {
    defs.iter().map(|def| def.size_for(room.bytes, room.inodes)).max().unwrap_or(0)
}

/// The size of a device to be erased, which passes the guard. The guard looks again before it is used.
pub fn erased(kernel: &SysRoot, path: &Path, signature: Option<&str>, needed: u64) -> Result<u64> {
    let size = to_erase(kernel, path, signature)?.size_bytes();
    large_enough(path, size, "these filesystems need", needed).map(|()| size)
}

/// A device that the user named for erasing, which passes the guard.
///
/// # Errors
/// Where the guard refuses it.
pub fn to_erase(kernel: &SysRoot, path: &Path, signature: Option<&str>) -> Result<ScratchDevice, Error> {
    ScratchDevice::from_erase(kernel, path, signature, &WrittenLog::open(&state_dir()))
}

fn large_enough(path: &Path, size: u64, who: &str, needed: u64) -> Result<()> {
    require(size >= needed, || {
        let (path, size, needed) = (path.display(), ByteSize(size), ByteSize(needed));
        RunError::Missing(format!(
            "{path} has {size} and {who} {needed} for this work; take a smaller {}",
            setting("scale", "")
        ))
    })
}

/// The device that the user named to be the source disk, which passes the guard.
///
/// # Errors
/// Where the guard refuses it.
pub fn named(kernel: &SysRoot, other: &OtherDevice) -> Result<ScratchDevice> {
    let mut found = to_erase(kernel, &other.path, other.signature.as_deref());
    if let Err(Error::Refused { fix, .. }) = &mut found {
        // The guard names the flags of the devices under test.
        *fix = fix.replace("--erase-signature", "--other-signature").replace("--on loop:DIR", "--other DIR");
    }
    Ok(found?)
}

/// A device for the source disk passes the guard, is another one than that under test, and has room for the inputs.
pub fn other_device(kernel: &SysRoot, plan: &Plan, needed: u64) -> Result<()> {
    let Some(other) = &plan.device.other_device else { return Ok(()) };
    let device = named(kernel, other)?;
    let number = |path: &Path| path.metadata().map(|meta| meta.rdev()).ok();
    let erased =
        matches!(&plan.device.backing, Backing::Erase { path, .. } if number(path) == number(&other.path));
    let (erase, source) = (setting("erase", ""), setting("other", ""));
    let why = || format!("{} is both {erase} and {source}; name another device", other.path.display());
    require(!erased, || RunError::Plan(why()))?;
    large_enough(&other.path, device.size_bytes(), "the source disk needs", needed)
}

/// The size of the image: what was asked for if it will do, else what work and filesystems need.
pub fn image_size(plan: &Plan, needed: u64) -> Result<u64> {
    match plan.device.size {
        None => Ok(needed.checked_next_multiple_of(SIZE_STEP).unwrap_or(u64::MAX)),
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

/// Images go into directories that exist, not onto a filesystem under test, and there is room for them; what is
/// compressed in memory has room there uncompressed.
pub fn images(
    kernel: &SysRoot,
    device: &DevicePlan,
    runs: &Path,
    devices: &BTreeSet<DeviceSpec>,
    other: u64,
) -> Result<()> {
    let sum = |on: BackingDevice| {
        let bytes = devices.iter().filter(|wanted| wanted.on == Carrier::Made(on)).map(|wanted| wanted.bytes);
        bytes.fold(0, u64::saturating_add)
    };
    let (apart, beside, below) = match (&device.other_device, &device.other_dir, &device.backing) {
        (Some(_), ..) => (0, 0, 0),
        (None, Some(_), _) => (other, 0, 0),
        (None, None, Backing::Ram | Backing::Zram) => (0, other, 0),
        (None, None, _) => (0, 0, other),
    };
    let on_disk = images_dir(device, runs);
    for wanted in devices.iter().filter(|wanted| wanted.on != Carrier::Made(BackingDevice::Zram)) {
        if matches!(wanted.on, Carrier::Made(_)) {
            limits::check_file_size("an image", wanted.bytes)?;
        }
    }
    if device.other_device.is_none() {
        limits::check_file_size("the image of the source disk", other)?;
    }
    let zram = sum(BackingDevice::Zram);
    for (dir, needed) in [
        (device.other_dir.as_deref().unwrap_or(on_disk), apart),
        (on_disk, sum(BackingDevice::Loop).saturating_add(below)),
        (Path::new(RAM), sum(BackingDevice::Ram).saturating_add(beside)),
    ] {
        if needed > 0 {
            image_dir(kernel, dir)?;
            let zram = if dir == Path::new(RAM) { zram } else { 0 };
            room(dir, needed.saturating_add(zram))?;
        }
    }
    if zram == 0 {
        return Ok(());
    }
    let available = available_memory(kernel).ok_or_else(|| {
        RunError::Missing(
            "/proc/meminfo does not say how much memory is free, and zram devices take it".into(),
        )
    })?;
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

fn room(dir: &Path, needed: u64) -> Result<()> {
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
        _ => existing(runs),
    }
}

/// The directory, or the nearest above it that exists.
pub fn existing(dir: &Path) -> &Path {
    let above = dir.ancestors().find(|dir| dir.is_dir());
    above.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn image_dir(kernel: &SysRoot, dir: &Path) -> Result<()> {
    let image = match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => dir.join(format!("fsarena-{}", std::process::id())),
        // A file: fsarena did not make it, so the guard refuses it.
        Ok(_) => dir.to_path_buf(),
        Err(error) if dir == Path::new(RAM) => {
            let flag = setting("on", "loop:DIR");
            let fix =
                format!("images in memory lie there: `mount -t tmpfs tmpfs /dev/shm`, or take `{flag}`");
            return Err(RunError::Missing(format!("{RAM}: {error}; {fix}")));
        }
        Err(error) => {
            let flag = setting("on", "loop:DIR");
            let why = format!("{dir:?}: {error}; {flag} needs a directory that exists");
            return Err(RunError::Plan(why));
        }
    };
    Ok(check_image_path(kernel, &state_dir(), &image, &[])?)
}

pub fn other_size(plan: &Plan, room: Room) -> u64 {
    let def = fsarena_fs::filesystems::find(&plan.device.other_fs);
    let bytes = def.map_or(0, |def| def.size_for(room.other_bytes, OTHER_FILES));
    bytes.checked_next_multiple_of(OTHER_STEP).unwrap_or(u64::MAX)
}
