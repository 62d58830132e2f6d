//! A device that misbehaves: set up inside guests, whose kernel runs nothing else.

use super::axis::{Asked, Axis, lacking, nothing};
use crate::executor::Result;
use fsarena_core::factor::{self, FactorDef, faults};

/// The axis.
pub const AXIS: Axis = Axis {
    def: FactorDef {
        id: factor::FAULTS,
        default: "",
        example: "delay:5ms, flaky:9s/1s, error:64MiB+1MiB",
        help: "a device that misbehaves, in a guest (device mapper): `delay:5ms` delays each request, `flaky:9s/1s` fails for 1 s after every 9 s, `error:64MiB+1MiB` fails in that range; empty for none",
        check: |level| faults::parse(level).map(drop),
    },
    of_directories: false,
    check,
    set_up: nothing,
};

fn check(asked: &Asked) -> Result<()> {
    if asked.variant.level(factor::FAULTS).is_empty() {
        return Ok(());
    }
    let why = "fsarena has no devices of this machine misbehave; take a guest: --on qemu";
    Err(lacking(asked, factor::FAULTS, why))
}
