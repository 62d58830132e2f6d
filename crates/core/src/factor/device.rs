//! What carries the filesystem.

use super::{DEVICE, FactorDef};
use crate::names;

/// The factor.
pub const DEF: FactorDef = FactorDef {
    id: DEVICE,
    default: "",
    example: "loop, ram, zram",
    help: "what carries the filesystem: `loop` (image on disk), `ram` (image in memory), `zram` (compressed memory, no loop device between); empty for what --on or --erase says",
    check: |level| parse(level).map(drop),
};

/// A device that fsarena makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carrier {
    /// A loop image on disk.
    Loop,
    /// A loop image in memory (tmpfs).
    Ram,
    /// Compressed memory as a block device.
    Zram,
}

impl Carrier {
    /// The level.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Loop => "loop",
            Carrier::Ram => "ram",
            Carrier::Zram => "zram",
        }
    }
}

/// The meaning of a level. None is what the run as a whole has.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<Carrier>, String> {
    let known = [Carrier::Loop, Carrier::Ram, Carrier::Zram];
    match level {
        "" => Ok(None),
        level => Ok(Some(names::find("device", level, known, |carrier| carrier.name())?)),
    }
}
