//! The limits of the numbers in a plan.
//!
//! The numbers come from a plan file, a flag, a stored run, a shard, or a message to an agent, a guest or a rank. The types
//! of a plan apply these limits when they are deserialised; [`super::resolve`] applies them to plan files and flags. So
//! every time in a plan fits a [`Duration`], and looping over the rounds ends.

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{ops::RangeInclusive, time::Duration};

/// The most variants of a plan: a round of more takes days, and each is kept in memory.
pub const MAX_VARIANTS: usize = 10_000;

/// The longest time in seconds: more than thirty years. Added to the time of a clock, it cannot overflow.
pub const MAX_TIME_S: f64 = 1e9;
/// The most rounds of a run; more do not change the result of any test in fsarena.
pub const MAX_ROUNDS: u32 = 100_000;
/// The most warm-up rounds of a run, all shards together.
pub const MAX_WARMUP_ROUNDS: u32 = 5_000;
/// The most aged images of a variant: each lies in the cache.
const MAX_IMAGES: u32 = 1_000;
/// The largest difference between two figures that a setting may have, as a fraction.
const MAX_DIFFERENCE: f64 = 100.0;
/// The most memory of a guest, in bytes: 1 PiB.
const MAX_MEMORY_BYTES: u64 = 1 << 50;
/// The most runs that share the error probability of one answer.
const MAX_ERROR_SPLIT: u32 = 10_000;

/// Converts a time in seconds to a [`Duration`].
///
/// # Errors
/// The time is negative, not a number, or longer than thirty years.
pub fn checked_duration(seconds: f64) -> Result<Duration, String> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds <= MAX_TIME_S);
    time.ok_or_else(|| format!("a time lies between 0 and {MAX_TIME_S} seconds, and this one is {seconds}"))
}

/// Checks a time in seconds.
pub(super) fn check_seconds(seconds: f64) -> Result<f64, String> {
    checked_duration(seconds).map(|_| seconds)
}

/// Checks how long a guest may send nothing, in seconds. The error names the key, because the parser reports no position in
/// a table whose type has several kinds.
fn check_silence_timeout(seconds: f64) -> Result<f64, String> {
    check_seconds(seconds).map_err(|fault| format!("patience_s: {fault}"))
}

/// Checks a number of rounds.
pub(super) fn check_rounds(rounds: u32) -> Result<u32, String> {
    match rounds {
        0 => Err("a run has at least one round".into()),
        1..=MAX_ROUNDS => Ok(rounds),
        _ => Err(format!("a run has at most {MAX_ROUNDS} rounds")),
    }
}

/// Returns the value if it is in the range, otherwise the message as an error.
fn check_range<T: PartialOrd>(value: T, range: RangeInclusive<T>, message: impl Into<String>) -> Result<T, String> {
    if range.contains(&value) { Ok(value) } else { Err(message.into()) }
}

/// Checks a number of warm-up rounds, counted over all shards.
pub(super) fn check_warmup(rounds: u32) -> Result<u32, String> {
    let message = format!("at most {MAX_WARMUP_ROUNDS} warm-up rounds, counted over all shards");
    check_range(rounds, 0..=MAX_WARMUP_ROUNDS, message)
}

/// Checks a number of aged images of each variant.
pub(super) fn check_images(images: u32) -> Result<u32, String> {
    check_range(images, 1..=MAX_IMAGES, format!("a variant has from 1 to {MAX_IMAGES} aged images"))
}

/// Checks a difference, as a fraction.
///
/// # Errors
/// The difference is not above 0% and at most 10,000%.
pub fn check_difference(fraction: f64) -> Result<f64, String> {
    // False for NaN.
    if fraction > 0.0 && fraction <= MAX_DIFFERENCE {
        return Ok(fraction);
    }
    Err(format!("a difference lies above 0% and is at most 10000%, and this one is {}%", 100.0 * fraction))
}

/// Checks a share of time, in per cent.
pub(super) fn check_percentage(percent: f64) -> Result<f64, String> {
    check_range(percent, 0.0..=100.0, "a percentage of time lies between 0 and 100")
}

/// Checks the size of a device.
pub(super) fn check_size(size: ByteSize) -> Result<ByteSize, String> {
    check_range(size, ByteSize(1)..=ByteSize(u64::MAX), "a device has at least one byte")
}

/// Checks the memory of a guest.
pub(super) fn check_memory(size: ByteSize) -> Result<ByteSize, String> {
    let max = ByteSize(MAX_MEMORY_BYTES);
    check_range(size, ByteSize(1)..=max, format!("a guest has from 1 B to {max} of memory"))
}

/// Formats a size as a text that parses to the same size: `4.0 MiB`, but `1572864000 B` for 1500 MiB, which [`ByteSize`] rounds
/// to `1.5 GiB`.
pub(super) fn format_size(size: ByteSize) -> String {
    let rounded = size.to_string();
    if rounded.parse::<ByteSize>() == Ok(size) { rounded } else { format!("{} B", size.as_u64()) }
}

/// Serialises sizes without rounding, for `serialize_with`.
pub(super) mod exact {
    use super::*;

    /// Serialises a required size.
    pub fn size<S: Serializer>(size: &ByteSize, serializer: S) -> Result<S::Ok, S::Error> {
        format_size(*size).serialize(serializer)
    }

    /// Serialises an optional size.
    pub fn optional_size<S: Serializer>(size: &Option<ByteSize>, serializer: S) -> Result<S::Ok, S::Error> {
        size.map(format_size).serialize(serializer)
    }
}

/// Checks the number of runs that share the error probability of one answer.
fn check_error_split(runs: u32) -> Result<u32, String> {
    check_range(runs, 1..=MAX_ERROR_SPLIT, format!("from 1 to {MAX_ERROR_SPLIT} runs share the error of one answer"))
}

/// Defines functions for `deserialize_with` in the modules `required` and `optional`. Each entry is the name of the function,
/// the check that it applies, and the type of the value.
macro_rules! checked_deserialisers {
    (required: $($required:ident $check:ident $type:ty),*; optional: $($optional:ident $optional_check:ident $optional_type:ty),*;) => {
        /// Deserialises required values and checks their limits.
        pub(super) mod required {
            use super::*;
            $(pub fn $required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                super::$check(Deserialize::deserialize(deserializer)?).map_err(D::Error::custom)
            })*
        }
        /// Deserialises optional values and checks their limits.
        pub(super) mod optional {
            use super::*;
            $(pub fn $optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<$optional_type>, D::Error> {
                Option::deserialize(deserializer)?.map(super::$optional_check).transpose().map_err(D::Error::custom)
            })*
        }
    };
}

checked_deserialisers! {
    required:
        seconds check_seconds f64, silence_timeout check_silence_timeout f64, rounds check_rounds u32,
        warmup check_warmup u32, images check_images u32, percentage check_percentage f64,
        memory check_memory ByteSize;
    optional:
        seconds check_seconds f64, difference check_difference f64, size check_size ByteSize,
        error_split check_error_split u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_time_can_be_added_to_a_clock() {
        assert_eq!(checked_duration(1.5), Ok(Duration::from_millis(1500)));
        assert!(std::time::Instant::now().checked_add(4 * checked_duration(MAX_TIME_S).unwrap()).is_some());
        for invalid in [-1.0, f64::NAN, f64::INFINITY, 1e30, 1.1e9] {
            assert!(checked_duration(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_formatted_size_parses_to_the_same_size() {
        // 1500 MiB are 1572864000 B, and 1.5 GiB are 1536 MiB.
        let formatted = [ByteSize::mib(4), ByteSize::mib(1536), ByteSize::mib(1500), ByteSize(7)].map(format_size);
        assert_eq!(formatted, ["4.0 MiB", "1.5 GiB", "1572864000 B", "7 B"]);
        for size in [ByteSize::mib(1500), ByteSize(u64::MAX), ByteSize((1 << 53) + 1)] {
            assert_eq!(format_size(size).parse(), Ok(size));
        }
    }

    #[test]
    fn limits_accept_their_bounds_and_reject_values_beyond() {
        assert_eq!([0, 1, MAX_ROUNDS, u32::MAX].map(|n| check_rounds(n).is_ok()), [false, true, true, false]);
        assert_eq!([0, MAX_WARMUP_ROUNDS, u32::MAX].map(|n| check_warmup(n).is_ok()), [true, true, false]);
        assert_eq!(
            [0.0, 0.01, 100.0, 101.0, f64::NAN].map(|n| check_difference(n).is_ok()),
            [false, true, true, false, false]
        );
        assert_eq!([-1.0, 0.0, 100.0, f64::NAN].map(|n| check_percentage(n).is_ok()), [false, true, true, false]);
        assert_eq!([0, 1, u64::MAX].map(|n| check_memory(ByteSize(n)).is_ok()), [false, true, false]);
        assert_eq!([0, 1, u64::MAX].map(|n| check_size(ByteSize(n)).is_ok()), [false, true, true]);
    }
}
