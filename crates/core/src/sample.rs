//! Readings: the raw numbers of a task.

use crate::latency::Latencies;
pub use crate::metric::spec::{Fold, MetricSpec, Over, ReadingDef, Scope};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The unit of a reading or a metric. Its symbol is part of names in JSON and CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
    /// Per cent.
    Percent,
    /// A quotient without a unit.
    Ratio,
    /// Things per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
}

impl Unit {
    /// Every unit in its order, with the suffix of names in JSON and CSV and the symbol that people read.
    const ALL: [(Unit, &str, &str); 8] = [
        (Unit::Nanoseconds, "ns", "ns"),
        (Unit::Seconds, "s", "s"),
        (Unit::Bytes, "bytes", "B"),
        (Unit::Count, "count", ""),
        (Unit::Percent, "percent", "%"),
        (Unit::Ratio, "ratio", "×"),
        (Unit::PerSecond, "per_s", "/s"),
        (Unit::BytesPerSecond, "bytes_per_s", "B/s"),
    ];

    /// Every suffix.
    pub fn suffixes() -> impl Iterator<Item = &'static str> {
        Unit::ALL.iter().map(|(_, suffix, _)| *suffix)
    }

    /// The suffix of names in JSON and CSV: `elapsed_s`.
    pub const fn suffix(self) -> &'static str {
        Unit::ALL[self as usize].1
    }

    /// The symbol that people read after a number.
    pub const fn symbol(self) -> &'static str {
        Unit::ALL[self as usize].2
    }

    /// What one of it is worth in seconds, ones or ones a second: a nanosecond is 1e-9, a per cent 0.01.
    pub const fn worth(self) -> f64 {
        match self {
            Unit::Nanoseconds => 1e-9,
            Unit::Percent => 0.01,
            _ => 1.0,
        }
    }

    /// The name of a metric with its unit: the suffix is added where the name does not end with it.
    pub fn named(self, id: &str) -> String {
        format!("{}_{}", self.bare(id), self.suffix())
    }

    /// The name of a metric without its unit.
    pub fn bare(self, id: &str) -> &str {
        id.strip_suffix(self.suffix()).and_then(|rest| rest.strip_suffix('_')).unwrap_or(id)
    }

    /// Whether both measure the same: `s` and `ns`, `percent` and `ratio`.
    pub fn is_of_same_quantity(self, other: Unit) -> bool {
        const SAME: [[Unit; 2]; 2] = [[Unit::Nanoseconds, Unit::Seconds], [Unit::Percent, Unit::Ratio]];
        self == other || SAME.iter().any(|units| units.contains(&self) && units.contains(&other))
    }

    /// Finds a unit by its suffix.
    pub fn from_suffix(suffix: &str) -> Option<Unit> {
        Unit::ALL.iter().find(|(_, own, _)| *own == suffix).map(|(unit, ..)| *unit)
    }
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Less is better: time, CPU, bytes.
    Lower,
    /// More is better: throughput, usable space.
    Higher,
    /// Neither: a circumstance.
    Neutral,
}

impl Direction {
    /// The word in declarations, in the store and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Direction::Lower => "lower",
            Direction::Higher => "higher",
            Direction::Neutral => "neutral",
        }
    }
}

/// The raw readings of one task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Readings(pub BTreeMap<String, f64>);

impl Readings {
    /// Notes a reading.
    pub fn set(&mut self, id: &str, value: f64) {
        self.0.insert(id.to_string(), value);
    }

    /// The value of a reading, where it was taken.
    pub fn get(&self, id: &str) -> Option<f64> {
        self.0.get(id).copied()
    }

    /// Takes over the readings of another set.
    pub fn extend(&mut self, other: Readings) {
        self.0.extend(other.0);
    }
}

/// The part of a sample that the measured work itself contributes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The readings that the work took.
    pub readings: Readings,
    /// The definitions of readings that its commands printed, and that fsarena does not know.
    pub printed: Vec<MetricSpec>,
    /// The time series of its load; empty if the load does not record one.
    pub series: Vec<crate::series::Point>,
    /// The latencies of its load, from the intended start where the load is paced; empty if it does not record them.
    pub latencies: Latencies,
    /// Peak memory of its largest command, in bytes; 0 if it started none.
    pub peak_bytes: u64,
}

impl From<()> for Found {
    fn from((): ()) -> Found {
        Found::default()
    }
}

impl From<Readings> for Found {
    fn from(readings: Readings) -> Found {
        Found { readings, ..Found::default() }
    }
}

impl Found {
    /// Adds what later work of the same task contributed. A task has one load, so the later series replaces this one.
    pub fn extend(&mut self, later: Found) {
        self.readings.extend(later.readings);
        self.printed.extend(later.printed);
        self.peak_bytes = self.peak_bytes.max(later.peak_bytes);
        if !later.series.is_empty() {
            self.series = later.series;
        }
        self.latencies.add(&later.latencies);
    }
}

/// The raw readings of one task in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The task that was timed.
    pub task: crate::cell::TaskInfo,
    /// When it began: seconds since 1970, UTC.
    pub started_at: f64,
    /// Its readings.
    pub readings: Readings,
    /// What its load did over time, where it tells; at most [`crate::series::MOST_POINTS`] and one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<crate::series::Point>,
    /// The latencies of its load.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub latencies: Latencies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_named_once() {
        assert_eq!(Unit::Seconds.named("elapsed"), "elapsed_s");
        assert_eq!(Unit::Seconds.named("lat_ns"), "lat_ns_s");
        assert_eq!(Unit::Seconds.named("ios"), "ios_s");
        assert_eq!(Unit::Bytes.named("device_write_bytes"), "device_write_bytes");
        assert_eq!(Unit::Bytes.named("bytes"), "bytes_bytes");
        assert_eq!(Unit::Percent.named("cpu_utilization"), "cpu_utilization_percent");
    }
}
