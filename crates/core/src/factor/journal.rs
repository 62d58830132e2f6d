//! The factor `journal`: the place of the journal or log, inside the filesystem or on a separate device.

use super::device::{self, BackingDevice};
use super::{bytes, parsed};

/// A journal on a separate device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct External {
    /// Its size in bytes; default: the size that mkfs chooses.
    pub bytes: Option<u64>,
    /// Its backing device; default: the same kind as the filesystem's device.
    pub on: Option<BackingDevice>,
}

/// Parses a level. None for an empty level: the journal is inside the filesystem.
///
/// # Errors
/// The level does not have the form `external[:SIZE][@DEVICE]`.
pub fn parse(level: &str) -> Result<Option<External>, String> {
    let (place, on) = level.split_once('@').unwrap_or((level, ""));
    let on = device::parse(on)?;
    let external = |_: &str| match place.split_once(':') {
        Some(("external", size)) => Some(External { bytes: Some(bytes(size)?), on }),
        None if place == "external" => Some(External { bytes: None, on }),
        _ => None,
    };
    parsed(level, "journal", "`external`, `external:256MiB` or `external@ram`", external)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_backing_device_are_optional() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("external"), Ok(Some(External { bytes: None, on: None })));
        let both = External { bytes: Some(64 << 20), on: Some(BackingDevice::Ram) };
        assert_eq!(parse("external:64MiB@ram"), Ok(Some(both)));
        for wrong in ["internal", "external:", "external:0", "external@moon", "external:many"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
