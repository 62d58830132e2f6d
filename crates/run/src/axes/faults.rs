//! A device that misbehaves: set up inside guests, whose kernel runs nothing else.

use super::axis::{Asked, Axis, lacking, nothing};
use crate::executor::Fatal;
use fsarena_core::factor;

/// The axis.
pub const AXIS: Axis = Axis { factor: factor::FAULTS, of_directories: false, check, set_up: nothing };

fn check(asked: &Asked) -> Result<(), Fatal> {
    match asked.variant.level(factor::FAULTS) {
        "" => Ok(()),
        _ => Err(lacking(
            asked,
            factor::FAULTS,
            "fsarena has no devices of this machine misbehave; take a guest: --on qemu",
        )),
    }
}
