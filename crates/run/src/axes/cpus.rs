//! The CPUs that the load may run on, by affinity: it goes with the process, so there is nothing to undo.

use super::axis::{Asked, Axis, Stage, lacking, unfit, wrong};
use crate::executor::Fatal;
use fsarena_core::factor::{self, cpus};
use fsarena_sys::Error;

/// The axis.
pub const AXIS: Axis = Axis { factor: factor::CPUS, of_directories: true, check, set_up };

fn check(asked: &Asked) -> Result<(), Fatal> {
    let parsed =
        cpus::parse(asked.variant.level(factor::CPUS)).map_err(|why| wrong(asked, factor::CPUS, why))?;
    let Some(list) = parsed else { return Ok(()) };
    let Some(online) = asked.kernel.fact("sys/devices/system/cpu/online") else { return Ok(()) };
    let known = cpus::parse(&online).ok().flatten().unwrap_or_default();
    match list.iter().find(|cpu| !known.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(lacking(asked, factor::CPUS, format!("there is no CPU {cpu}; online are {online}"))),
    }
}

fn set_up(stage: &mut Stage) -> Result<(), Error> {
    stage.done.confine.cpus = cpus::parse(stage.variant.level(factor::CPUS)).map_err(unfit(factor::CPUS))?;
    Ok(())
}
