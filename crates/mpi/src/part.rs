//! What one client measured, as it travels to rank 0.

use fsarena_core::{sample::Sample, series::Point};

/// Points of a time series that travel: enough to know what a client did in a part of its time.
const POINTS: usize = 20;

/// A sample without what only one client's own report would show.
pub fn reduced(mut sample: Sample) -> Sample {
    let size = sample.series.len().div_ceil(POINTS).max(1);
    sample.series = sample.series.chunks(size).map(joined).collect();
    sample
}

/// Stretches of time as one, without latencies.
fn joined(points: &[Point]) -> Point {
    Point {
        start_s: points[0].start_s,
        length_s: points.iter().map(|point| point.length_s).sum(),
        warm_up: points.iter().all(|point| point.warm_up),
        operations: points.iter().map(|point| point.operations).sum(),
        bytes: points.iter().map(|point| point.bytes).sum(),
        latency: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::tests::sample;

    #[test]
    fn neighbours_are_joined_and_nothing_is_lost() {
        let point = |at: u32| Point {
            start_s: f64::from(at) * 0.5,
            length_s: 0.5,
            warm_up: at < 3,
            operations: 2,
            bytes: 8,
            latency: None,
        };
        let whole = Sample { series: (0..50).map(point).collect(), ..sample(0.0, 1.0, &[]) };
        let reduced = reduced(whole);
        assert_eq!(reduced.series.len(), 17);
        assert_eq!(reduced.series[1].start_s, 1.5);
        assert_eq!((reduced.series[0].warm_up, reduced.series[1].warm_up), (true, false));
        assert_eq!(reduced.series.iter().map(|point| point.operations).sum::<u64>(), 100);
        assert_eq!(reduced.series.iter().map(|point| point.length_s).sum::<f64>(), 25.0);
    }
}
