//! The number of clients, which is a setting of the workload: the cell has it already.

use super::axis::{Asked, Axis, nothing, wrong};
use crate::executor::Fatal;
use fsarena_core::factor::{self, clients};

/// The axis.
pub const AXIS: Axis = Axis { factor: factor::CLIENTS, of_directories: true, check, set_up: nothing };

fn check(asked: &Asked) -> Result<(), Fatal> {
    if asked.variant.level(factor::CLIENTS).is_empty() {
        return Ok(());
    }
    match asked.plan.workloads.iter().find(|workload| !clients::applies(&workload.settings)) {
        None => Ok(()),
        Some(workload) => Err(wrong(
            asked,
            factor::CLIENTS,
            format!("workload {} has neither clients nor threads", workload.name),
        )),
    }
}
