//! A baseline that a run measures again: the figures that were stored, and whether they were measured in the same state.

use crate::sample::Unit;
use serde::{Deserialize, Serialize};

/// A baseline that a run recalled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecalledBaseline {
    /// Its name.
    pub name: String,
    /// The name that its variant has in this run.
    pub variant: String,
    /// When the run that measured it began.
    pub measured: String,
    /// The parts of the state that differ now: the kernel, mkfs, the work and so on. Empty if the state digests are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The stored figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<StoredFigures>,
}

/// The stored values of one task by one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredFigures {
    /// The task with its parameters.
    pub task: String,
    /// The id of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The value of each round, with the number of the round.
    pub values: Vec<(u32, f64)>,
}
