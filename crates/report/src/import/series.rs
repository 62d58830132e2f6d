//! Samples in one shape, whatever they came from.

use super::reading::Conditions;
use fsarena_core::number::plural;
use fsarena_core::sample::Direction;
use std::{collections::BTreeMap, fmt};

/// All samples of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The file.
    pub origin: String,
    /// The format it was in.
    pub format: &'static str,
    /// The series, in the order of the file; those of the metric that people compare first.
    pub series: Vec<Series>,
    /// What the file has and fsarena does not count.
    pub left_out: Vec<LeftOut>,
}

/// One quantity, measured again and again under equal conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The subject, and the conditions by which its series in this file differ: `random read test[threads=8]`.
    pub name: String,
    /// The benchmark, task or command. Empty if the file does not name one.
    pub subject: String,
    /// The conditions of all values.
    pub conditions: Conditions,
    /// Its metric: `elapsed`, `ns/op`.
    pub metric: String,
    /// Its unit as the file has it; empty if the file has none.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Every value, in the order of the file.
    pub values: Vec<f64>,
    /// The mean value of each round; None if some value has no round.
    pub rounds: Option<BTreeMap<String, f64>>,
}

/// Parts of a file that are not among the samples, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The kind of part: `run`, `row`, `document`.
    pub noun: &'static str,
    /// The benchmark, task or command; empty if it has none.
    pub subject: String,
    /// Why.
    pub why: String,
    /// The number of parts.
    pub count: usize,
}

impl LeftOut {
    /// Lists what was left out, the first five kinds by name; None if nothing was.
    pub fn words(all: &[LeftOut]) -> Option<String> {
        const NAMED: usize = 5;
        let mut words: Vec<String> = all.iter().take(NAMED).map(LeftOut::to_string).collect();
        let others: usize = all.iter().skip(NAMED).map(|one| one.count).sum();
        words.extend((others > 0).then(|| plural(others, "other")));
        (!words.is_empty()).then(|| words.join("; "))
    }
}

impl fmt::Display for LeftOut {
    /// `2 runs of cp: exit code 1`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.subject.is_empty() { "" } else { " of " };
        write!(out, "{}{of}{}: {}", plural(self.count, self.noun), self.subject, self.why)
    }
}
