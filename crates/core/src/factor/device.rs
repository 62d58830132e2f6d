//! The factor `device`: the backing device of the filesystem.

use crate::names;

/// A device that fsarena makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackingDevice {
    /// A loop image on disk.
    Loop,
    /// A loop image in memory (tmpfs).
    Ram,
    /// Compressed memory as a block device.
    Zram,
}

impl BackingDevice {
    /// Its name as a level.
    pub fn name(self) -> &'static str {
        match self {
            BackingDevice::Loop => "loop",
            BackingDevice::Ram => "ram",
            BackingDevice::Zram => "zram",
        }
    }
}

/// Parses a level. Returns `None` for an empty level: the filesystem then uses the device that the plan sets for the whole run.
///
/// # Errors
/// No device has this name.
pub fn parse(level: &str) -> Result<Option<BackingDevice>, String> {
    let known = [BackingDevice::Loop, BackingDevice::Ram, BackingDevice::Zram];
    match level {
        "" => Ok(None),
        level => Ok(Some(names::find("device", level, known, |device| device.name())?)),
    }
}
