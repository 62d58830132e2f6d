//! The journal or log on a separate device, made once per run.

use super::axis::{Asked, Axis};
use crate::{error::Result, layout::filesystem_of};
use fsarena_core::factor::{self, journal};

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::JOURNAL,
    "external, external:256MiB, external@ram",
    "place of the journal or log: `external` on a separate device, with a size (`external:256MiB`) or a backing device (`external@ram`); empty for inside the filesystem",
    |level| journal::parse(level).map(drop),
)
.checked(check);

fn check(asked: &Asked) -> Result<()> {
    if asked.variant.level(factor::JOURNAL).is_empty() || asked.variant.level(factor::FS) == factor::RAW {
        return Ok(());
    }
    // Whether the filesystem can have it, and of this size.
    Ok(filesystem_of(asked.variant).map(drop)?)
}
