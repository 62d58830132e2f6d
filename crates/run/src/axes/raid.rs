//! Several devices under one filesystem, made once a run.

use super::axis::{Asked, Axis, lacking, wrong};
use crate::error::{Result, require};
use crate::layout::filesystem_of;
use fsarena_core::factor::{self, raid};
use fsarena_core::plan::Backing;

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::RAID,
    "raid0, raid1, raid0:3",
    "several devices of equal size: `raid0` stripes data and metadata over two, `raid1` mirrors them; `raid0:3` over three. On this machine btrfs alone does it; in a guest md does it for every filesystem",
    |level| raid::parse(level).map(drop),
)
.checked(check);

fn check(asked: &Asked) -> Result<()> {
    let fs = asked.variant.level(factor::FS);
    if asked.plan.device.backing == Backing::Dir || fs == factor::RAW {
        return Ok(());
    }
    // An option set may bring it too.
    let (def, options) = filesystem_of(asked.variant)?;
    if options.raid.is_none() {
        return Ok(());
    }
    if def.raid.is_none() {
        let why = match asked.kernel.path("proc/mdstat").exists() {
            true => "fsarena assembles md arrays in guests only; take btrfs, or --on qemu",
            false => "this kernel has no md (CONFIG_MD); take btrfs, or a guest: --on qemu",
        };
        return Err(lacking(asked, factor::RAID, format!("{fs} stripes nothing by itself, and {why}")));
    }
    let one = matches!(asked.plan.device.backing, Backing::Erase { .. });
    let why = "--erase names one device; say device=loop, ram or zram";
    require(!one || !asked.variant.level(factor::DEVICE).is_empty(), || wrong(asked, factor::RAID, why))
}
