//! Time series of a load: what it did in each stretch of the time of one task.

use serde::{Deserialize, Serialize};

/// The most points that a task has, but for one more where the warm-up ends within a stretch. A load that counted
/// more finely merges neighbours.
pub const MOST_POINTS: usize = 60;

/// What a load did in one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When the stretch began, in seconds after the start of the load.
    pub start_s: f64,
    /// How long it is, in seconds.
    pub length_s: f64,
    /// Whether it was left out of the readings as warm-up.
    pub warm_up: bool,
    /// Operations that ended in it.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Their latencies; none where nothing ended, or where a load does not tell them over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// Percentiles of latency, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
}

impl Point {
    /// Operations a second.
    pub fn operations_per_s(&self) -> f64 {
        self.rate(self.operations)
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.rate(self.bytes)
    }

    /// When it ended, in seconds after the start of the load.
    pub fn end_s(&self) -> f64 {
        self.start_s + self.length_s
    }

    /// 0 of a stretch that is none: no clock here tells less than a nanosecond.
    fn rate(&self, amount: u64) -> f64 {
        if self.length_s >= 1e-9 { amount as f64 / self.length_s } else { 0.0 }
    }
}

/// The points of all samples of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeriesTable {
    /// For each point its sample, an index into the rows of [`crate::record::SampleTable`]; ascending.
    pub row: Vec<u32>,
    /// The points, those of one sample in the order of time.
    pub points: Vec<Point>,
    /// Points of whole rounds that are in the store and not here, because there are too many.
    pub left_out: u64,
}

impl SeriesTable {
    /// The points of one sample; none where its load told none.
    pub fn of(&self, row: u32) -> &[Point] {
        let from = self.row.partition_point(|one| *one < row);
        let until = self.row.partition_point(|one| *one <= row);
        &self.points[from..until]
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(start_s: f64) -> Point {
        Point { start_s, length_s: 0.5, warm_up: false, operations: 100, bytes: 4096, latency: None }
    }

    #[test]
    fn rates_are_of_its_own_length() {
        assert_eq!((point(1.0).operations_per_s(), point(1.0).bytes_per_s()), (200.0, 8192.0));
        assert_eq!(Point { length_s: 1e-17, ..point(0.0) }.operations_per_s(), 0.0);
    }

    #[test]
    fn each_sample_has_its_own_points() {
        let points = [0.0, 0.5, 0.0].map(point).to_vec();
        let table = SeriesTable { row: vec![2, 2, 5], points: points.clone(), left_out: 0 };
        assert_eq!((table.of(2), table.of(5)), (&points[..2], &points[2..]));
        assert!(table.of(0).is_empty() && table.of(3).is_empty() && table.of(9).is_empty());
    }
}
