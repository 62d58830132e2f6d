//! The limits of the numbers in a plan.
//!
//! The numbers come from a plan file, a flag, a stored run, a shard, or a message to an agent, a guest or a rank. The types
//! of a plan apply these limits when they are deserialised; [`super::resolve`] applies them to plan files and flags. So
//! every time in a plan fits a [`Duration`], and looping over the rounds ends.

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, de::Error};
use std::time::Duration;

/// The most variants of a plan: a round of more takes days, and each is kept in memory.
pub const MAX_VARIANTS: usize = 10_000;

/// The longest time in seconds: more than thirty years. Adding it to a clock cannot overflow.
pub const LONGEST_S: f64 = 1e9;
/// The most rounds of a run; more do not change the result of any test in fsarena.
pub const MAX_ROUNDS: u32 = 100_000;
/// The most warm-up rounds of a run, all shards together.
pub const MOST_WARMUP: u32 = 5_000;
/// The most aged images of a variant: each lies in the cache.
const MOST_IMAGES: u32 = 1_000;
/// The largest difference between two figures that a setting may have, as a fraction.
const LARGEST_DIFFERENCE: f64 = 100.0;
/// The most memory of a guest, in bytes: 1 PiB.
const MOST_MEMORY: u64 = 1 << 50;
/// The most runs that share the error probability of one answer.
const MAX_ERROR_SPLIT: u32 = 10_000;

/// Converts a time in seconds to a [`Duration`].
///
/// # Errors
/// If it is negative, not a number, or longer than thirty years.
pub fn duration(seconds: f64) -> Result<Duration, String> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds <= LONGEST_S);
    time.ok_or_else(|| format!("a time lies between 0 and {LONGEST_S} seconds, and this one is {seconds}"))
}

/// Checks a time in seconds.
pub(super) fn seconds(seconds: f64) -> Result<f64, String> {
    duration(seconds).map(|_| seconds)
}

/// Checks how long a guest may send nothing, in seconds. The error names the key, because the parser reports no position in
/// a table whose type has several kinds.
fn patience(seconds: f64) -> Result<f64, String> {
    self::seconds(seconds).map_err(|fault| format!("patience_s: {fault}"))
}

/// Checks a number of rounds.
pub(super) fn rounds(rounds: u32) -> Result<u32, String> {
    match rounds {
        0 => Err("a run has at least one round".into()),
        1..=MAX_ROUNDS => Ok(rounds),
        _ => Err(format!("a run has at most {MAX_ROUNDS} rounds")),
    }
}

/// Checks a number of warm-up rounds, counted over all shards.
pub(super) fn warmup(rounds: u32) -> Result<u32, String> {
    if rounds > MOST_WARMUP {
        return Err(format!("at most {MOST_WARMUP} warm-up rounds, counted over all shards"));
    }
    Ok(rounds)
}

/// Checks a number of aged images of each variant.
pub(super) fn images(images: u32) -> Result<u32, String> {
    if !(1..=MOST_IMAGES).contains(&images) {
        return Err(format!("a variant has from 1 to {MOST_IMAGES} aged images"));
    }
    Ok(images)
}

/// Checks a difference, as a fraction.
///
/// # Errors
/// If it is not above 0% and at most 10,000%.
pub fn difference(fraction: f64) -> Result<f64, String> {
    // False for NaN.
    if fraction > 0.0 && fraction <= LARGEST_DIFFERENCE {
        return Ok(fraction);
    }
    Err(format!("a difference lies above 0% and is at most 10000%, and this one is {}%", 100.0 * fraction))
}

/// Checks a share of time, in per cent.
pub(super) fn share(percent: f64) -> Result<f64, String> {
    if !(0.0..=100.0).contains(&percent) {
        return Err("a percentage of time lies between 0 and 100".into());
    }
    Ok(percent)
}

/// Checks the size of a device.
pub(super) fn size(size: ByteSize) -> Result<ByteSize, String> {
    if size.as_u64() == 0 {
        return Err("a device has at least one byte".into());
    }
    Ok(size)
}

/// Checks the memory of a guest.
pub(super) fn memory(size: ByteSize) -> Result<ByteSize, String> {
    if !(1..=MOST_MEMORY).contains(&size.as_u64()) {
        return Err(format!("a guest has from 1 B to {} of memory", ByteSize(MOST_MEMORY)));
    }
    Ok(size)
}

/// Checks the number of runs that share the error probability of one answer.
fn error_split(runs: u32) -> Result<u32, String> {
    if !(1..=MAX_ERROR_SPLIT).contains(&runs) {
        return Err(format!("from 1 to {MAX_ERROR_SPLIT} runs share the error of one answer"));
    }
    Ok(runs)
}

/// Defines functions for `deserialize_with`, each of which applies the check of its name: in
/// `required` for values that must be there, in `optional` for others.
macro_rules! checked_deserialisers {
    (required: $($check:ident $required:ty),*; optional: $($optional_check:ident $optional:ty),*;) => {
        /// Deserialises required values and checks their limits.
        pub(super) mod required {
            use super::*;
            $(pub fn $check<'de, D: Deserializer<'de>>(from: D) -> Result<$required, D::Error> {
                super::$check(Deserialize::deserialize(from)?).map_err(D::Error::custom)
            })*
        }
        /// Deserialises optional values and checks their limits.
        pub(super) mod optional {
            use super::*;
            $(pub fn $optional_check<'de, D: Deserializer<'de>>(from: D) -> Result<Option<$optional>, D::Error> {
                Option::deserialize(from)?.map(super::$optional_check).transpose().map_err(D::Error::custom)
            })*
        }
    };
}

checked_deserialisers! {
    required: seconds f64, patience f64, rounds u32, warmup u32, images u32, share f64, memory ByteSize;
    optional: seconds f64, difference f64, size ByteSize, error_split u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_time_can_be_added_to_a_clock() {
        assert_eq!(duration(1.5), Ok(Duration::from_millis(1500)));
        assert!(std::time::Instant::now().checked_add(4 * duration(LONGEST_S).unwrap()).is_some());
        for invalid in [-1.0, f64::NAN, f64::INFINITY, 1e30, 1.1e9] {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn limits_accept_their_bounds_and_reject_values_beyond() {
        assert_eq!([0, 1, MAX_ROUNDS, u32::MAX].map(|n| rounds(n).is_ok()), [false, true, true, false]);
        assert_eq!([0, MOST_WARMUP, u32::MAX].map(|n| warmup(n).is_ok()), [true, true, false]);
        assert_eq!(
            [0.0, 0.01, 100.0, 101.0, f64::NAN].map(|n| difference(n).is_ok()),
            [false, true, true, false, false]
        );
        assert_eq!([-1.0, 0.0, 100.0, f64::NAN].map(|n| share(n).is_ok()), [false, true, true, false]);
        assert_eq!([0, 1, u64::MAX].map(|n| memory(ByteSize(n)).is_ok()), [false, true, false]);
        assert_eq!([0, 1, u64::MAX].map(|n| size(ByteSize(n)).is_ok()), [false, true, true]);
    }
}
