//! The time series of a load, merged to the number of points that a run stores.

use super::histogram::{SparseHistogram, empty_histogram, quantiles, to_sparse};
use fsarena_core::series::{LatencyPercentiles, MAX_SERIES_POINTS, SeriesPoint};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The counts of one interval of time.
#[derive(Debug, Clone)]
pub struct SeriesInterval<'a> {
    /// When it began, in seconds after the start.
    pub start_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// The number of operations that ended in it.
    pub operations: u64,
    /// The bytes that these read or wrote.
    pub bytes: u64,
    /// Their latencies by kind; empty if the load does not record them over time.
    pub latencies: &'a [SparseHistogram],
}

/// Merges consecutive intervals to at most [`MAX_SERIES_POINTS`] points (one more with a warm-up), with percentiles of all their
/// latencies. The first `warm_up_count` intervals are the warm-up; no point has both warm-up intervals and later ones.
pub fn merge_to_points(intervals: &[SeriesInterval], warm_up_count: usize) -> Vec<SeriesPoint> {
    let intervals_per_point = intervals.len().div_ceil(MAX_SERIES_POINTS).max(1);
    let (warm_up, measured) = intervals.split_at(warm_up_count.min(intervals.len()));
    let mut latencies = empty_histogram();
    let mut points = vec![];
    for (part, is_warm_up) in [(warm_up, true), (measured, false)] {
        points.extend(part.chunks(intervals_per_point).map(|chunk| merge(chunk, is_warm_up, &mut latencies)));
    }
    points
}

/// Merges intervals to one point. `latencies` is a histogram to reuse.
fn merge(intervals: &[SeriesInterval], warm_up: bool, latencies: &mut Histogram<u64>) -> SeriesPoint {
    latencies.reset();
    for (value, count) in intervals.iter().flat_map(|interval| interval.latencies).flatten() {
        latencies.saturating_record_n(*value, *count);
    }
    SeriesPoint {
        start_s: intervals.first().map_or(0.0, |interval| interval.start_s),
        length_s: intervals.iter().map(|interval| interval.length_s).sum(),
        warm_up,
        operations: intervals.iter().map(|interval| interval.operations).sum(),
        bytes: intervals.iter().map(|interval| interval.bytes).sum(),
        latency: (!latencies.is_empty()).then(|| {
            let [p50_ns, p99_ns, p999_ns] = quantiles(latencies, [0.5, 0.99, 0.999]);
            LatencyPercentiles { p50_ns, p99_ns, p999_ns }
        }),
    }
}

/// Collects a time series from single operations, in intervals of equal length.
pub struct SeriesBuilder {
    interval_length: Duration,
    /// The latencies in the current interval.
    latencies: Histogram<u64>,
    /// The bytes in the current interval.
    bytes: u64,
    /// The bytes and the latencies of each earlier interval.
    closed: Vec<(u64, SparseHistogram)>,
}

impl SeriesBuilder {
    /// Makes an empty series with intervals of this length.
    pub fn new(interval_length: Duration) -> SeriesBuilder {
        SeriesBuilder { interval_length, latencies: empty_histogram(), bytes: 0, closed: vec![] }
    }

    /// Counts an operation with a latency of `latency_ns` that ended at `end`, a time after the start of the load. Operations
    /// must be counted in the order of their ends.
    pub fn count(&mut self, end: Duration, latency_ns: u64, bytes: u64) {
        self.close_before(end);
        self.latencies.saturating_record(latency_ns);
        self.bytes += bytes;
    }

    /// Returns the points of a load of this duration without a warm-up.
    pub fn into_points(mut self, duration: Duration) -> Vec<SeriesPoint> {
        self.close_before(duration);
        let (length_s, whole_intervals) = (self.interval_length.as_secs_f64(), self.closed.len());
        let last_length_s = duration.saturating_sub(self.interval_length * whole_intervals as u32).as_secs_f64();
        // No interval follows a load that ends together with one.
        if last_length_s > 0.0 || !self.latencies.is_empty() {
            self.close();
        }
        let mut intervals = vec![];
        for (index, (bytes, latencies)) in self.closed.iter().enumerate() {
            intervals.push(SeriesInterval {
                start_s: index as f64 * length_s,
                length_s: if index < whole_intervals { length_s } else { last_length_s },
                operations: latencies.iter().map(|(_, count)| count).sum(),
                bytes: *bytes,
                latencies: std::slice::from_ref(latencies),
            });
        }
        merge_to_points(&intervals, 0)
    }

    /// Closes every interval that was over at `now`, including intervals without operations.
    fn close_before(&mut self, now: Duration) {
        while now >= self.interval_length * (self.closed.len() as u32 + 1) {
            self.close();
        }
    }

    /// Closes the current interval and begins the next one.
    fn close(&mut self) {
        self.closed.push((std::mem::take(&mut self.bytes), to_sparse(&self.latencies)));
        self.latencies.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of one second with these latencies.
    fn series_intervals(histograms: &[SparseHistogram]) -> Vec<SeriesInterval<'_>> {
        let mut intervals = vec![];
        for (second, latencies) in histograms.iter().enumerate() {
            intervals.push(SeriesInterval {
                start_s: second as f64,
                length_s: 1.0,
                operations: latencies.iter().map(|(_, count)| count).sum(),
                bytes: 10,
                latencies: std::slice::from_ref(latencies),
            });
        }
        intervals
    }

    #[test]
    fn few_intervals_become_one_point_each() {
        let histograms: Vec<SparseHistogram> = vec![vec![(100, 3)], vec![], vec![(200, 1), (900, 1)]];
        let points = merge_to_points(&series_intervals(&histograms), 1);
        assert_eq!(points.iter().map(|point| point.operations).collect::<Vec<_>>(), [3, 0, 2]);
        assert_eq!(points.iter().map(|point| point.warm_up).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(points[0].latency, Some(LatencyPercentiles { p50_ns: 100, p99_ns: 100, p999_ns: 100 }));
        assert_eq!((points[1].latency, points[2].start_s), (None, 2.0));
    }

    #[test]
    fn many_intervals_are_merged_without_losing_operations() {
        // 1000 intervals of one slow and 99 fast operations: each merged point has both.
        let histograms: Vec<SparseHistogram> = (0..1000).map(|_| vec![(50, 99), (5000, 1)]).collect();
        let points = merge_to_points(&series_intervals(&histograms), 130);
        assert!(points.len() <= MAX_SERIES_POINTS + 1, "{}", points.len());
        assert_eq!(points.iter().map(|point| point.operations).sum::<u64>(), 100_000);
        assert_eq!(points.iter().map(|point| point.bytes).sum::<u64>(), 10_000);
        let warm_up_s: f64 = points.iter().filter(|point| point.warm_up).map(|point| point.length_s).sum();
        assert_eq!(warm_up_s, 130.0);
        assert!(points.windows(2).all(|pair| pair[0].end_s() == pair[1].start_s));
        let latency = points[20].latency.unwrap();
        assert_eq!((latency.p50_ns, latency.p99_ns), (50, 50));
        assert!(latency.p999_ns >= 5000);
    }

    #[test]
    fn a_series_of_operations_includes_intervals_without_any() {
        let ms = Duration::from_millis;
        let mut builder = SeriesBuilder::new(ms(100));
        builder.count(ms(20), 1000, 10);
        builder.count(ms(30), 1000, 10);
        builder.count(ms(350), 2000, 5);
        let points = builder.into_points(ms(420));
        assert_eq!(points.iter().map(|point| point.operations).collect::<Vec<_>>(), [2, 0, 0, 1, 0]);
        assert_eq!(points.iter().map(|point| point.bytes).collect::<Vec<_>>(), [20, 0, 0, 5, 0]);
        assert!((points[4].length_s - 0.02).abs() < 1e-9);
        assert!((points[4].start_s - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_load_that_ends_with_an_interval_has_no_point_of_length_zero() {
        let ms = Duration::from_millis;
        let mut builder = SeriesBuilder::new(ms(100));
        builder.count(ms(150), 1000, 10);
        let points = builder.into_points(ms(200));
        assert_eq!(points.iter().map(|point| point.operations).collect::<Vec<_>>(), [0, 1]);
    }
}
