//! The place of the journal or log: inside the filesystem, or on a separate device.

use super::{bytes, device::BackingDevice};

/// A journal on a separate device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct External {
    /// Its size in bytes; by default that of the filesystem.
    pub bytes: Option<u64>,
    /// Its backing device; by default of the same kind as the filesystem's.
    pub on: Option<BackingDevice>,
}

/// The meaning of a level. None is inside.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<External>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    let wrong =
        || format!("invalid journal `{level}`; write `external`, `external:256MiB` or `external@ram`");
    let (place, on) = match level.split_once('@') {
        Some((place, on)) => (place, super::device::parse(on)?),
        None => (level, None),
    };
    let size = match place.split_once(':') {
        Some(("external", size)) => Some(bytes(size).ok_or_else(wrong)?),
        None if place == "external" => None,
        _ => return Err(wrong()),
    };
    Ok(Some(External { bytes: size, on }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_carrier_may_be_said() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("external"), Ok(Some(External { bytes: None, on: None })));
        let both = External { bytes: Some(64 << 20), on: Some(BackingDevice::Ram) };
        assert_eq!(parse("external:64MiB@ram"), Ok(Some(both)));
        for wrong in ["internal", "external:", "external:0", "external@moon", "external:many"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
