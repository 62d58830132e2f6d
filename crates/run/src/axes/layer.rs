//! The axis of layers over the mounted filesystem: [`layers`].

use super::axis::{Axis, LevelCheck, lacking};
use crate::error::{Result, require};
use crate::layers;
use fsarena_core::factor;
use fsarena_core::setting_text::setting;

/// The layer that the load works through, mounted for each cell.
pub const AXIS: Axis = Axis::new(
    factor::LAYER,
    "overlay, overlay:3, overlay-upper, fuse, bindfs",
    "what the load works through, over the mounted filesystem: `overlay` (overlayfs with the prepared files in one lower directory, `overlay:3` with two more), `overlay-upper` (with all files in the upper directory), `fuse` (fuse2fs, an ext4 image in user space), `bindfs` (a FUSE program that passes every request on); `none` or empty for nothing",
    layers::check_level,
)
.checked(check);

fn check(check: &LevelCheck) -> Result<()> {
    let level = check.variant.level(factor::LAYER);
    let Some(module) = layers::module(level) else { return Ok(()) };
    layers::check_filesystem(check.variant)?;
    let types = check.kernel.filesystems()?;
    let guest = setting("on", "qemu");
    let why = || {
        format!("this kernel has no {module} filesystem; try `modprobe {module}`, or take a guest: {guest}")
    };
    require(types.contains(module), || lacking(check, factor::LAYER, why()))?;
    layers::check_programs(level).map_err(|why| lacking(check, factor::LAYER, why))
}
