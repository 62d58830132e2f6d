//! Time series of a load: the operations, bytes and latencies in each interval of one task.

use serde::{Deserialize, Serialize};

/// The most points of a task. One more is possible if the warm-up ends within an interval. If a load records more, fsarena
/// merges neighbouring points.
pub const MAX_SERIES_POINTS: usize = 60;

/// The operations of a load in one interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// When the interval began, in seconds after the start of the load.
    pub start_s: f64,
    /// The length of the interval in seconds.
    pub length_s: f64,
    /// Whether the interval belongs to the warm-up, which readings exclude.
    pub warm_up: bool,
    /// The number of operations that ended in the interval.
    pub operations: u64,
    /// The bytes that these operations read or wrote.
    pub bytes: u64,
    /// The latencies of these operations; None if no operation ended, or the load does not record latencies over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyPercentiles>,
}

/// Percentiles of latency, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyPercentiles {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
}

impl SeriesPoint {
    /// Operations a second.
    pub fn operations_per_s(&self) -> f64 {
        self.per_second(self.operations)
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.bytes)
    }

    /// When the interval ended, in seconds after the start of the load.
    pub fn end_s(&self) -> f64 {
        self.start_s + self.length_s
    }

    /// Divides an amount by the length of the interval, in seconds; 0 if the interval is shorter than a nanosecond, the
    /// resolution of the clocks.
    fn per_second(&self, amount: u64) -> f64 {
        if self.length_s >= 1e-9 { amount as f64 / self.length_s } else { 0.0 }
    }
}

/// The points of all samples of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeriesTable {
    /// For each point, the row of its sample in [`crate::record::SampleTable`], ascending.
    pub sample_row: Vec<u32>,
    /// The points of all samples; the points of each sample are in the order of time.
    pub points: Vec<SeriesPoint>,
    /// The number of stored points that this table leaves out, because there are too many. It leaves out whole rounds.
    pub omitted_count: u64,
}

impl SeriesTable {
    /// The points of the sample in this row; empty if its load recorded none.
    pub fn points_of(&self, row: u32) -> &[SeriesPoint] {
        let start = self.sample_row.partition_point(|row_of_point| *row_of_point < row);
        let end = self.sample_row.partition_point(|row_of_point| *row_of_point <= row);
        &self.points[start..end]
    }

    /// Whether the table has no points.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(start_s: f64) -> SeriesPoint {
        SeriesPoint { start_s, length_s: 0.5, warm_up: false, operations: 100, bytes: 4096, latency: None }
    }

    #[test]
    fn rates_divide_by_the_length_of_the_interval() {
        assert_eq!((point(1.0).operations_per_s(), point(1.0).bytes_per_s()), (200.0, 8192.0));
        assert_eq!(SeriesPoint { length_s: 1e-17, ..point(0.0) }.operations_per_s(), 0.0);
    }

    #[test]
    fn each_sample_has_its_own_points() {
        let points = [0.0, 0.5, 0.0].map(point).to_vec();
        let table = SeriesTable { sample_row: vec![2, 2, 5], points: points.clone(), omitted_count: 0 };
        assert_eq!((table.points_of(2), table.points_of(5)), (&points[..2], &points[2..]));
        assert!(table.points_of(0).is_empty() && table.points_of(3).is_empty() && table.points_of(9).is_empty());
    }
}
