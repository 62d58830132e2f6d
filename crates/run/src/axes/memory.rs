//! The memory that the load may use, by a control group.

use super::axis::{Asked, Axis, Stage, lacking, unfit};
use crate::executor::Fatal;
use fsarena_core::factor::{self, memory};
use fsarena_sys::Error;
use fsarena_sys::cgroup::Controller;
use fsarena_sys::kernel::Kernel;

/// The axis.
pub const AXIS: Axis = Axis { factor: factor::MEMORY, of_directories: true, check, set_up };

fn controller(kernel: &Kernel) -> Option<Controller> {
    Controller::find(kernel, "memory", "memory")
}

fn check(asked: &Asked) -> Result<(), Fatal> {
    let asked_for = !asked.variant.level(factor::MEMORY).is_empty();
    match asked_for && controller(asked.kernel).is_none() {
        true => Err(lacking(asked, factor::MEMORY, "this kernel offers no memory controller (cgroup)")),
        false => Ok(()),
    }
}

fn set_up(stage: &mut Stage) -> Result<(), Error> {
    let most = memory::parse(stage.variant.level(factor::MEMORY)).map_err(unfit(factor::MEMORY))?;
    let (Some(most), Some(controller)) = (most, controller(stage.kernel)) else { return Ok(()) };
    let group = controller.group(stage.journal)?;
    let attribute = if controller.unified { "memory.max" } else { "memory.limit_in_bytes" };
    group.set(attribute, &most.to_string())?;
    stage.done.join(group);
    Ok(())
}
