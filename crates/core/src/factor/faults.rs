//! The factor `faults`: simulated faults of the device.

use super::{bytes, parsed};
use serde::{Deserialize, Serialize};

/// A simulated fault of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Faults {
    /// Every request is delayed.
    Delay {
        /// The delay in milliseconds.
        ms: u64,
    },
    /// The device alternates between working and failing every request.
    Flaky {
        /// Seconds in which it works.
        up_s: u64,
        /// Seconds in which it fails.
        down_s: u64,
    },
    /// Reads and writes of a range fail.
    Error {
        /// Where it begins, in bytes: a multiple of 512.
        start: u64,
        /// Its length in bytes: a multiple of 512.
        bytes: u64,
    },
}

/// A sector, the unit of the device mapper.
const SECTOR: u64 = 512;

/// Parses a level: `delay:5ms`, `flaky:9s/1s` or `error:64MiB+1MiB`. None for an empty level: a device without faults.
///
/// # Errors
/// The level does not have one of these forms.
pub fn parse(level: &str) -> Result<Option<Faults>, String> {
    parsed(level, "device fault", "`delay:5ms`, `flaky:9s/1s` or `error:64MiB+1MiB`", parse_fault)
}

fn parse_fault(level: &str) -> Option<Faults> {
    let number = |text: &str, unit: &str| text.strip_suffix(unit)?.parse().ok().filter(|number| *number > 0);
    let sectors = |text: &str| bytes(text).filter(|bytes| bytes % SECTOR == 0);
    match level.split_once(':')? {
        ("delay", time) => Some(Faults::Delay { ms: number(time, "ms")? }),
        ("flaky", times) => {
            let (up, down) = times.split_once('/')?;
            Some(Faults::Flaky { up_s: number(up, "s")?, down_s: number(down, "s")? })
        }
        ("error", range) => {
            let (start, length) = range.split_once('+')?;
            Some(Faults::Error { start: sectors(start)?, bytes: sectors(length)? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_flaky_devices_and_error_ranges_are_parsed() {
        assert_eq!(parse("delay:5ms"), Ok(Some(Faults::Delay { ms: 5 })));
        assert_eq!(parse("flaky:9s/1s"), Ok(Some(Faults::Flaky { up_s: 9, down_s: 1 })));
        let range = Faults::Error { start: 64 << 20, bytes: 1 << 20 };
        assert_eq!(parse("error:64MiB+1MiB"), Ok(Some(range)));
        for wrong in ["delay", "delay:5", "delay:0ms", "flaky:9s", "error:1MiB", "error:100+7", "slow:1ms"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
