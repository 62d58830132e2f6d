//! The time series of a load, merged to the number of points that a run stores.

use super::histogram::{SparseHistogram, empty_histogram, quantiles, to_sparse};
use fsarena_core::series::{LatencyPercentiles, MOST_POINTS, Point};
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

/// Merges consecutive intervals to at most [`MOST_POINTS`] points (one more with a warm-up), with percentiles of all their
/// latencies. No point has both warm-up intervals (the first `warm_up_count`) and later ones.
pub fn merge_to_points(intervals: &[SeriesInterval], warm_up_count: usize) -> Vec<Point> {
    let chunk_length = intervals.len().div_ceil(MOST_POINTS).max(1);
    let (before, after) = intervals.split_at(warm_up_count.min(intervals.len()));
    let mut latencies = empty_histogram();
    let before = before.chunks(chunk_length).map(|part| merge(part, true, &mut latencies)).collect::<Vec<_>>();
    let after = after.chunks(chunk_length).map(|part| merge(part, false, &mut latencies));
    before.into_iter().chain(after).collect()
}

fn merge(part: &[SeriesInterval], warm_up: bool, latencies: &mut Histogram<u64>) -> Point {
    latencies.reset();
    for (value, count) in part.iter().flat_map(|interval| interval.latencies).flatten() {
        latencies.saturating_record_n(*value, *count);
    }
    Point {
        start_s: part.first().map_or(0.0, |interval| interval.start_s),
        length_s: part.iter().map(|interval| interval.length_s).sum(),
        warm_up,
        operations: part.iter().map(|interval| interval.operations).sum(),
        bytes: part.iter().map(|interval| interval.bytes).sum(),
        latency: (!latencies.is_empty()).then(|| {
            let [p50_ns, p99_ns, p999_ns] = quantiles(latencies, [0.5, 0.99, 0.999]);
            LatencyPercentiles { p50_ns, p99_ns, p999_ns }
        }),
    }
}

/// Collects a time series from single operations, in intervals of equal length.
pub struct SeriesBuilder {
    length: Duration,
    latencies: Histogram<u64>,
    bytes: u64,
    closed: Vec<(u64, SparseHistogram)>,
}

impl SeriesBuilder {
    /// Makes an empty series with intervals of this length.
    pub fn new(length: Duration) -> SeriesBuilder {
        SeriesBuilder { length, latencies: empty_histogram(), bytes: 0, closed: vec![] }
    }

    /// Counts an operation that ended `ended` after the start of the load and took `ns` nanoseconds.
    pub fn count(&mut self, ended: Duration, ns: u64, bytes: u64) {
        self.close_before(ended);
        self.latencies.saturating_record(ns);
        self.bytes += bytes;
    }

    /// Returns the points of a load that took `took` and had no warm-up.
    pub fn points(mut self, took: Duration) -> Vec<Point> {
        self.close_before(took);
        let (length, whole_intervals) = (self.length.as_secs_f64(), self.closed.len());
        let last_length = took.saturating_sub(self.length * whole_intervals as u32).as_secs_f64();
        self.close();
        let mut intervals = vec![];
        for (at, (bytes, latencies)) in self.closed.iter().enumerate() {
            intervals.push(SeriesInterval {
                start_s: at as f64 * length,
                length_s: if at < whole_intervals { length } else { last_length },
                operations: latencies.iter().map(|(_, count)| count).sum(),
                bytes: *bytes,
                latencies: std::slice::from_ref(latencies),
            });
        }
        merge_to_points(&intervals, 0)
    }

    /// Closes every interval that was over at `now`, including intervals without operations.
    fn close_before(&mut self, now: Duration) {
        while now >= self.length * (self.closed.len() as u32 + 1) {
            self.close();
        }
    }

    fn close(&mut self) {
        self.closed.push((std::mem::take(&mut self.bytes), to_sparse(&self.latencies)));
        self.latencies.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series_intervals(counted: &[SparseHistogram]) -> Vec<SeriesInterval<'_>> {
        let mut all = vec![];
        for (at, latencies) in counted.iter().enumerate() {
            all.push(SeriesInterval {
                start_s: at as f64,
                length_s: 1.0,
                operations: latencies.iter().map(|(_, count)| count).sum(),
                bytes: 10,
                latencies: std::slice::from_ref(latencies),
            });
        }
        all
    }

    #[test]
    fn few_intervals_become_one_point_each() {
        let counted: Vec<SparseHistogram> = vec![vec![(100, 3)], vec![], vec![(200, 1), (900, 1)]];
        let points = merge_to_points(&series_intervals(&counted), 1);
        assert_eq!(points.iter().map(|interval| interval.operations).collect::<Vec<_>>(), [3, 0, 2]);
        assert_eq!(points.iter().map(|interval| interval.warm_up).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(points[0].latency, Some(LatencyPercentiles { p50_ns: 100, p99_ns: 100, p999_ns: 100 }));
        assert_eq!((points[1].latency, points[2].start_s), (None, 2.0));
    }

    #[test]
    fn many_intervals_are_merged_without_losing_operations() {
        // 1000 intervals of one slow and 99 fast operations: each merged point has both.
        let counted: Vec<SparseHistogram> = (0..1000).map(|_| vec![(50, 99), (5000, 1)]).collect();
        let points = merge_to_points(&series_intervals(&counted), 130);
        assert!(points.len() <= MOST_POINTS + 1, "{}", points.len());
        assert_eq!(points.iter().map(|interval| interval.operations).sum::<u64>(), 100_000);
        assert_eq!(points.iter().map(|interval| interval.bytes).sum::<u64>(), 10_000);
        let warm: f64 = points.iter().filter(|interval| interval.warm_up).map(|interval| interval.length_s).sum();
        assert_eq!(warm, 130.0);
        assert!(points.windows(2).all(|two| two[0].end_s() == two[1].start_s));
        let latency = points[20].latency.unwrap();
        assert_eq!((latency.p50_ns, latency.p99_ns), (50, 50));
        assert!(latency.p999_ns >= 5000);
    }

    #[test]
    fn a_track_includes_intervals_without_operations() {
        let ms = Duration::from_millis;
        let mut builder = SeriesBuilder::new(ms(100));
        builder.count(ms(20), 1000, 10);
        builder.count(ms(30), 1000, 10);
        builder.count(ms(350), 2000, 5);
        let points = builder.points(ms(420));
        assert_eq!(points.iter().map(|interval| interval.operations).collect::<Vec<_>>(), [2, 0, 0, 1, 0]);
        assert_eq!(points.iter().map(|interval| interval.bytes).collect::<Vec<_>>(), [20, 0, 0, 5, 0]);
        assert!((points[4].length_s - 0.02).abs() < 1e-9);
        assert!((points[4].start_s - 0.4).abs() < 1e-9);
    }
}
