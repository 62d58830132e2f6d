//! Units of figures, and which way is better.

use serde::{Deserialize, Serialize};

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
