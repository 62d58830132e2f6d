//! The memory that the load may use, by a control group.

use super::axis::{Asked, Axis, Stage, lacking, unfit};
use crate::error::{Result, require};
use bytesize::ByteSize;
use fsarena_core::factor::{self, bytes};
use fsarena_sys::{Error, cgroup::Controller, kernel::SysRoot};

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::MEMORY,
    "64MiB, 1GiB",
    "memory of the load by a cgroup limit, page cache that it fills included: `256MiB`; empty for no limit",
    |level| parse(level).map(drop),
)
.and_directories()
.checked(check)
.set_up(set_up);

fn controller(kernel: &SysRoot) -> Option<Controller> {
    Controller::find(kernel, "memory", "memory")
}

fn check(asked: &Asked) -> Result<()> {
    let why = "this kernel offers no memory controller (cgroup)";
    let able = asked.variant.level(factor::MEMORY).is_empty() || controller(asked.kernel).is_some();
    require(able, || lacking(asked, factor::MEMORY, why))
}

fn set_up(stage: &mut Stage) -> Result<(), Error> {
    let most = parse(stage.variant.level(factor::MEMORY)).map_err(unfit(factor::MEMORY))?;
    let (Some(most), Some(controller)) = (most, controller(stage.kernel)) else { return Ok(()) };
    let group = controller.group(stage.journal)?;
    let attribute = if controller.unified { "memory.max" } else { "memory.limit_in_bytes" };
    group.set(attribute, &most.to_string())?;
    stage.done.join(group);
    Ok(())
}

/// The minimum, in bytes: the measuring process itself needs it.
const LEAST: u64 = 32 << 20;

/// The meaning of a level, in bytes. None stands for unlimited.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<u64>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    let bytes = bytes(level).ok_or_else(|| format!("invalid size `{level}`; write it like `256MiB`"))?;
    let needs = "the measuring process itself needs";
    let enough = (bytes >= LEAST).then_some(Some(bytes));
    enough.ok_or_else(|| format!("`{level}` is too little: {needs} {}", ByteSize(LEAST)))
}
