//! Idling after the idle wait, before each task: shows whether the idle wait is long enough.

use super::axis::Axis;
use fsarena_core::factor;
use std::time::Duration;

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::FURTHER_IDLE,
    "60s, 500ms",
    "time to idle after the idle wait, before each task: 60s; empty begins at once",
    |level| time(level).map(drop),
)
.and_directories();

/// The time of a level.
///
/// # Errors
/// An unreadable time; the message shows how to write it.
pub fn time(level: &str) -> Result<Duration, String> {
    match level {
        "" => Ok(Duration::ZERO),
        level => humantime::parse_duration(level)
            .map_err(|error| format!("invalid time `{level}` ({error}); write it like 60s or 500ms")),
    }
}
