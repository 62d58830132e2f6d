//! What carries the filesystem: a device made once a run, of which the variant's cells take the right one.

use super::axis::{Asked, Axis, lacking};
use crate::executor::{Result, require};
use fsarena_core::factor::device::{self, BackingDevice};
use fsarena_core::{factor, plan::Backing};
use fsarena_sys::zram;

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::DEVICE,
    "loop, ram, zram",
    "what carries the filesystem: `loop` (image on disk), `ram` (image in memory), `zram` (compressed memory, no loop device between); empty for what --on or --erase says",
    |level| device::parse(level).map(drop),
)
.checked(check);

fn check(asked: &Asked) -> Result<()> {
    let level = factor::device::parse(asked.variant.level(factor::DEVICE)).unwrap_or_default();
    let zram =
        level == Some(BackingDevice::Zram) || (level.is_none() && asked.plan.device.backing == Backing::Zram);
    let why = "this kernel makes no zram devices (CONFIG_ZRAM, or modprobe zram)";
    require(!zram || zram::is_supported(asked.kernel), || lacking(asked, factor::DEVICE, why))
}
