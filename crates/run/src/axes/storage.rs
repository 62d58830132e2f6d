//! The axes of the storage below a filesystem and the layers above it: the place of its journal, its devices, injected
//! faults, and layers. The checks here are for variants that run in this kernel; `preflight::guests` checks those that
//! run in guests.

use super::axis::{Axis, LevelCheck};
use crate::error::{Result, require};
use crate::{device_layout::filesystem_of, layers};
use fsarena_core::factor;
use fsarena_core::factor::device::{self, BackingDevice};
use fsarena_core::plan::Backing;
use fsarena_core::setting_text::setting;
use fsarena_sys::device_mapper::DeviceMapper;
use fsarena_sys::{links, zram};

/// The journal or log on a separate device, made once per run.
pub const JOURNAL: Axis = Axis::new(
    factor::JOURNAL,
    "external, external:256MiB, external@ram",
    "place of the journal or log: `external` on a separate device, with a size (`external:256MiB`) or a backing device (`external@ram`); empty for inside the filesystem",
    |level| device::parse_journal(level).map(drop),
)
.with_check(check_journal);

fn check_journal(check: &LevelCheck) -> Result<()> {
    if check.level().is_empty() || check.variant.level(factor::FS) == factor::RAW {
        return Ok(());
    }
    // Fails if the filesystem cannot have a separate journal, or cannot have one of this size.
    filesystem_of(check.variant)?;
    Ok(())
}

/// Several devices under one filesystem, made once per run.
pub const RAID: Axis = Axis::new(
    factor::RAID,
    "raid0, raid1, raid0:3",
    "several devices of equal size: `raid0` stripes data and metadata over two, `raid1` mirrors them; `raid0:3` over three. On this machine btrfs alone does it; in a guest md does it for every filesystem",
    |level| device::parse_raid(level).map(drop),
)
.with_check(check_raid);

fn check_raid(check: &LevelCheck) -> Result<()> {
    let fs = check.variant.level(factor::FS);
    // In a directory fsarena makes no devices.
    if check.plan.device.backing == Backing::Dir || fs == factor::RAW {
        return Ok(());
    }
    // A variant can also request RAID by the options of its filesystem, so check these and not only this level.
    let (def, options) = filesystem_of(check.variant)?;
    if options.raid.is_none() {
        return Ok(());
    }
    if def.raid.is_none() {
        let why = format!(
            "{fs} has no RAID of its own, and fsarena assembles md arrays in guests only; take btrfs, or a guest: {}",
            setting("on", "qemu")
        );
        return Err(check.missing_error(why));
    }
    let erases = matches!(check.plan.device.backing, Backing::Erase { .. });
    let why = || format!("{} gives fsarena only one device; use device=loop, ram or zram", setting("erase", ""));
    require(!erases || !check.variant.level(factor::DEVICE).is_empty(), || check.plan_error(why()))
}

/// Devices between the disk and the filesystem, made for each cell.
pub const STACK: Axis = Axis::new(
    factor::STACK,
    "crypt, luks, integrity, thin, thin-snapshot, snapshot, thin+crypt",
    "devices between the disk and the filesystem (device mapper): `crypt` encrypts, `luks` encrypts with a LUKS header like cryptsetup, `integrity` keeps checksums, `thin` allocates on the first write, `snapshot` and `thin-snapshot` put the filesystem under a snapshot, so that the first write to each block copies it; `thin+crypt` is a chain from the disk up; empty for none",
    links::check_level,
)
.with_check(check_stack);

fn check_stack(check: &LevelCheck) -> Result<()> {
    let chain = links::parse_level(check.level()).map_err(|why| check.plan_error(why))?;
    if chain.is_empty() || check.variant.level(factor::FS) == factor::RAW {
        return Ok(());
    }
    let guest = setting("on", "qemu");
    let (_, options) = filesystem_of(check.variant)?;
    require(options.raid.is_none() && options.journal.is_none(), || {
        check.plan_error("a stack has one device below it: leave out `raid` and `journal`")
    })?;
    let erases = matches!(check.plan.device.backing, Backing::Erase { .. });
    require(!erases || !check.variant.level(factor::DEVICE).is_empty(), || {
        let why = format!(
            "a stack needs space outside the filesystem, but {} gives fsarena only one device; use device=loop, ram or zram",
            setting("erase", "")
        );
        check.plan_error(why)
    })?;
    // This fails if the control device or the rights to it are missing, or if the kernel has no device mapper
    // (CONFIG_BLK_DEV_DM).
    let mapper = DeviceMapper::open(None)
        .map_err(|error| check.missing_error(format!("no device mapper: {error}; take a guest: {guest}")))?;
    links::check_programs(check.level()).map_err(|why| check.missing_error(why))?;
    let mut targets = chain.iter().flat_map(|link| link.targets);
    let Some(target) = targets.find(|target| !mapper.has_target(target)) else { return Ok(()) };
    let why = format!("this kernel's device mapper has no target {target}; take a guest: {guest}");
    Err(check.missing_error(why))
}

/// The backing device of the filesystem, made once per run and shared by the variants with the same level.
pub const DEVICE: Axis = Axis::new(
    factor::DEVICE,
    "loop, ram, zram",
    "backing device of the filesystem: `loop` (image on disk), `ram` (image in memory), `zram` (compressed memory, no loop device between); empty for the device of the plan",
    |level| device::parse_device(level).map(drop),
)
.with_check(check_device);

fn check_device(check: &LevelCheck) -> Result<()> {
    let level = device::parse_device(check.level()).unwrap_or_default();
    let needs_zram =
        level == Some(BackingDevice::Zram) || (level.is_none() && check.plan.device.backing == Backing::Zram);
    let why = "this kernel makes no zram devices (CONFIG_ZRAM, or modprobe zram)";
    require(!needs_zram || zram::is_supported(check.kernel), || check.missing_error(why))
}

/// Injected faults of the device. fsarena sets them up in guests only, never on a device of this machine: the kernel of
/// a guest serves only the cell that runs in it.
pub const FAULTS: Axis = Axis::new(
    factor::FAULTS,
    "delay:5ms, flaky:9s/1s, error:64MiB+1MiB",
    "a device that misbehaves, in a guest (device mapper): `delay:5ms` delays each request, `flaky:9s/1s` fails for 1 s after every 9 s, `error:64MiB+1MiB` fails in that range; empty for none",
    |level| device::parse_faults(level).map(drop),
)
.with_check(check_faults);

fn check_faults(check: &LevelCheck) -> Result<()> {
    let guest = setting("on", "qemu");
    let why =
        || format!("fsarena injects faults only in guests, never into devices of this machine; take a guest: {guest}");
    require(check.level().is_empty(), || check.missing_error(why()))
}

/// The layer over the mounted filesystem that the load works through, mounted for each cell.
pub const LAYER: Axis = Axis::new(
    factor::LAYER,
    "overlay, overlay:3, overlay-upper, fuse, bindfs",
    "second filesystem over the mounted one, which the load uses: `overlay` (overlayfs with the prepared files in one lower directory, `overlay:3` with two more), `overlay-upper` (with all files in the upper directory), `fuse` (fuse2fs, an ext4 image in user space), `bindfs` (a FUSE program that passes every request on); `none` or empty for nothing",
    layers::check_level,
)
.with_check(check_layer);

fn check_layer(check: &LevelCheck) -> Result<()> {
    let level = check.level();
    let Some(module) = layers::module(level) else { return Ok(()) };
    layers::check_filesystem(check.variant)?;
    let types = check.kernel.mountable_filesystems()?;
    let guest = setting("on", "qemu");
    let why = || format!("this kernel has no {module} filesystem; try `modprobe {module}`, or take a guest: {guest}");
    require(types.contains(module), || check.missing_error(why()))?;
    layers::check_programs(level).map_err(|why| check.missing_error(why))
}
