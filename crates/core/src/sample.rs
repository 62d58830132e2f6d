//! Samples and their readings: the raw numbers that fsarena measures for a task.

use crate::latency::LatencyHistogram;
pub use crate::metric::spec::{Direction, Fold, FoldRules, MetricSpec, ReadingDef, Scope, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The raw readings of one task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Readings(pub BTreeMap<String, f64>);

impl Readings {
    /// Sets the value of a reading.
    pub fn set(&mut self, id: &str, value: f64) {
        self.0.insert(id.to_string(), value);
    }

    /// The value of a reading; None if it was not taken.
    pub fn get(&self, id: &str) -> Option<f64> {
        self.0.get(id).copied()
    }

    /// Adds readings; these replace readings with the same name.
    pub fn extend(&mut self, added: Readings) {
        self.0.extend(added.0);
    }
}

/// The output of a task: the part of its sample that the workload itself reports.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskOutput {
    /// The readings of the workload.
    pub readings: Readings,
    /// The definitions of readings that its commands printed and that fsarena does not define.
    pub printed_metrics: Vec<MetricSpec>,
    /// The time series of its load; empty if the load does not record one.
    pub series: Vec<crate::series::SeriesPoint>,
    /// The latencies of its load, counted from the intended start if the load is paced. Empty if it does not record them.
    pub latencies: LatencyHistogram,
    /// Peak memory of its largest command, in bytes; 0 if it started none.
    pub peak_memory_bytes: u64,
    /// The output of its parts that ran at the same time, such as two jobs of fio. Each becomes a sample after the
    /// sample of the task, without time, CPU time and device readings, which only the task as a whole has.
    pub parts: Vec<TaskPart>,
}

/// The output of one part of a task, which ran at the same time as other parts.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPart {
    /// Its name and title, as those of a task.
    pub task: crate::cell::TaskInfo,
    /// Its readings.
    pub readings: Readings,
    /// The latencies of its load.
    pub latencies: LatencyHistogram,
}

impl TaskPart {
    /// The sample of this part, whose task began at `started_at`.
    pub fn into_sample(self, started_at: f64) -> Sample {
        let TaskPart { task, readings, latencies } = self;
        Sample { task, started_at, readings, series: vec![], latencies }
    }
}

impl From<()> for TaskOutput {
    fn from((): ()) -> TaskOutput {
        TaskOutput::default()
    }
}

impl From<Readings> for TaskOutput {
    fn from(readings: Readings) -> TaskOutput {
        TaskOutput { readings, ..TaskOutput::default() }
    }
}

impl TaskOutput {
    /// Adds the output of later work of the same task. A task has only one load, so a later series replaces this one.
    pub fn extend(&mut self, later: TaskOutput) {
        self.readings.extend(later.readings);
        self.printed_metrics.extend(later.printed_metrics);
        self.peak_memory_bytes = self.peak_memory_bytes.max(later.peak_memory_bytes);
        if !later.series.is_empty() {
            self.series = later.series;
        }
        self.latencies.merge(&later.latencies);
        self.parts.extend(later.parts);
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
    /// The time series of its load; empty if it does not record one. At most [`crate::series::MAX_SERIES_POINTS`] + 1 points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<crate::series::SeriesPoint>,
    /// The latencies of its load.
    #[serde(default, skip_serializing_if = "LatencyHistogram::is_empty")]
    pub latencies: LatencyHistogram,
}

impl Sample {
    /// Whether this is the sample of a part of a task ([`TaskPart`]), which is not timed.
    pub fn is_of_part(&self) -> bool {
        self.readings.get(crate::metric::reading::ELAPSED).is_none()
    }
}
