//! A device that misbehaves: set up inside guests, whose kernel runs nothing else.

use super::axis::{Asked, Axis, lacking};
use crate::error::{Result, require};
use fsarena_core::factor::{self, faults};

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::FAULTS,
    "delay:5ms, flaky:9s/1s, error:64MiB+1MiB",
    "a device that misbehaves, in a guest (device mapper): `delay:5ms` delays each request, `flaky:9s/1s` fails for 1 s after every 9 s, `error:64MiB+1MiB` fails in that range; empty for none",
    |level| faults::parse(level).map(drop),
)
.checked(check);

fn check(asked: &Asked) -> Result<()> {
    let why = "fsarena has no devices of this machine misbehave; take a guest: --on qemu";
    require(asked.variant.level(factor::FAULTS).is_empty(), || lacking(asked, factor::FAULTS, why))
}
