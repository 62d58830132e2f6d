//! A device that misbehaves.

use super::{bytes, parsed};
use serde::{Deserialize, Serialize};

/// What a device does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Faults {
    /// Every request is done later.
    Delay {
        /// The delay in milliseconds.
        ms: u64,
    },
    /// Every request fails for a while, again and again.
    Flaky {
        /// Seconds in which it works.
        up_s: u64,
        /// Seconds in which it does not.
        down_s: u64,
    },
    /// A range can be neither read nor written.
    Error {
        /// Where it begins, in bytes: a multiple of 512.
        start: u64,
        /// Its length in bytes: a multiple of 512.
        bytes: u64,
    },
}

/// A sector, the unit of the device mapper.
const SECTOR: u64 = 512;

/// The meaning of a level. None is a good device.
///
/// # Errors
/// How a level is written.
pub fn parse(level: &str) -> Result<Option<Faults>, String> {
    let number = |text: &str, unit: &str| text.strip_suffix(unit)?.parse().ok().filter(|number| *number > 0);
    let sectors = |text: &str| bytes(text).filter(|bytes| bytes % SECTOR == 0);
    let faults = |level: &str| match level.split_once(':') {
        Some(("delay", time)) => number(time, "ms").map(|ms| Faults::Delay { ms }),
        Some(("flaky", times)) => times.split_once('/').and_then(|(up, down)| {
            Some(Faults::Flaky { up_s: number(up, "s")?, down_s: number(down, "s")? })
        }),
        Some(("error", range)) => range.split_once('+').and_then(|(start, length)| {
            Some(Faults::Error { start: sectors(start)?, bytes: sectors(length)? })
        }),
        _ => None,
    };
    parsed(level, "device fault", "`delay:5ms`, `flaky:9s/1s` or `error:64MiB+1MiB`", faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_kinds() {
        assert_eq!(parse("delay:5ms"), Ok(Some(Faults::Delay { ms: 5 })));
        assert_eq!(parse("flaky:9s/1s"), Ok(Some(Faults::Flaky { up_s: 9, down_s: 1 })));
        let range = Faults::Error { start: 64 << 20, bytes: 1 << 20 };
        assert_eq!(parse("error:64MiB+1MiB"), Ok(Some(range)));
        for wrong in ["delay", "delay:5", "delay:0ms", "flaky:9s", "error:1MiB", "error:100+7", "slow:1ms"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
