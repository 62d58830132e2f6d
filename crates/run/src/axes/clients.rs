//! The number of clients, which is a setting of the workload: the cell has it already.

use super::axis::{Asked, Axis, wrong};
use crate::error::Result;
use fsarena_core::factor::{self, clients};

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::CLIENTS,
    "1, 5, 20",
    "number of clients of the load, as a difference between variants: it sets the workload's `clients` or `threads`; empty leaves them",
    |level| clients::parse(level).map(drop),
)
.and_directories()
.checked(check);

fn check(asked: &Asked) -> Result<()> {
    if asked.variant.level(factor::CLIENTS).is_empty() {
        return Ok(());
    }
    let Some(workload) = asked.plan.workloads.iter().find(|work| !clients::applies(&work.settings)) else {
        return Ok(());
    };
    let why = format!("workload {} has neither clients nor threads", workload.name);
    Err(wrong(asked, factor::CLIENTS, why))
}
