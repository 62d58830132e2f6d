//! Time series of a load: throughput and latency of a task on a variant over time, combined from the series of all rounds.

use crate::number;
use fsarena_core::series::{LatencyPercentiles, MOST_POINTS, Point, SeriesTable};
use fsarena_core::{observations, record::RunRecord};
use fsarena_stats::comparison::median;
use serde::Serialize;
use std::collections::BTreeMap;

/// The throughput and the latency of a task on one variant over time, combined over its rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeSeries {
    /// The index of the task in the record.
    #[serde(skip)]
    pub task: usize,
    /// The index of the variant in the record.
    #[serde(skip)]
    pub variant: usize,
    /// The number of rounds that have a series.
    pub rounds: usize,
    /// The stretches, in the order of time: about [`MOST_POINTS`] if all rounds took the same time, at most twice that number
    /// otherwise.
    pub stretches: Vec<Stretch>,
}

/// A sentence on the points of the series that fsarena did not load because the run has too many points; `None` if it loaded
/// all.
pub fn left_out_note(series: &SeriesTable) -> Option<String> {
    if series.left_out == 0 {
        return None;
    }
    let shown = series.points.len() as u64;
    let all = shown + series.left_out;
    let step = (all as f64 / shown.max(1) as f64).round() as u64;
    Some(format!(
        "{shown} of {all} stretches are shown, those of every {} round, the same rounds for every variant; the others are in \
         run.db",
        number::ordinal(step)
    ))
}

/// One stretch of the time of a task. Figures are medians over the rounds that lasted until this stretch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stretch {
    /// The start, in seconds after the start of the load.
    pub start_s: f64,
    /// The length, in seconds.
    pub length_s: f64,
    /// Whether the stretch is warm-up in most rounds.
    pub warm_up: bool,
    /// Operations per second.
    pub operations_per_s: f64,
    /// The smallest and the largest operations per second of any round.
    pub operations_range_per_s: (f64, f64),
    /// Bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// The median latency, in nanoseconds; `None` if the load measures no latencies over time.
    pub latency_p50_ns: Option<f64>,
    /// The 99th percentile of the latency, in nanoseconds.
    pub latency_p99_ns: Option<f64>,
    /// The 99.9th percentile of the latency, in nanoseconds.
    pub latency_p999_ns: Option<f64>,
}

/// The largest number of stretches in a time series, not counting a shorter last one.
const MAX_STRETCHES: usize = 2 * MOST_POINTS;

/// The time series of every task on every variant that has one, by task and then by variant. Dropped rounds are left out.
pub fn time_series_of_run(record: &RunRecord) -> Vec<TimeSeries> {
    let left_out = observations::rounds_left_out(record);
    let mut rows: BTreeMap<(usize, usize), Vec<&[Point]>> = BTreeMap::new();
    // The points of one row follow each other.
    let mut samples = record.series.sample_row.clone();
    samples.dedup();
    for row in samples {
        let cell = &record.cells[record.samples.cell[row as usize] as usize];
        if !left_out.contains(&cell.round) {
            let task = record.samples.task[row as usize] as usize;
            rows.entry((task, cell.variant)).or_default().push(record.series.points_of(row));
        }
    }
    let series = |((task, variant), rows): ((usize, usize), Vec<&[Point]>)| TimeSeries {
        task,
        variant,
        rounds: rows.len(),
        stretches: combine_rounds(&rows),
    };
    rows.into_iter().map(series).collect()
}

/// Combines the series of rounds, until the time that at least half of the rounds lasted.
///
/// Each round has a median length of its points; the largest of these medians is the length of a stretch. It is a median,
/// because the last point of a round ends with the last operation, so it can be far longer than the others.
fn combine_rounds(rounds: &[&[Point]]) -> Vec<Stretch> {
    let usual_length = |points: &&[Point]| median(&points.iter().map(|point| point.length_s).collect::<Vec<_>>());
    let longest = rounds.iter().filter_map(usual_length).fold(0.0, f64::max);
    let mut ends: Vec<f64> = rounds.iter().map(|points| points.last().map_or(0.0, Point::end_s)).collect();
    ends.sort_by(f64::total_cmp);
    let until = ends[(ends.len() - 1) / 2];
    // A damaged database may have points of any length. Bound the number of stretches.
    let length_s = f64::max(longest, until / MAX_STRETCHES as f64);
    // Ignore a rest under a tenth of a stretch: it is a rounding error, or an operation that took a little longer.
    let count = if length_s > 0.0 { (until / length_s - 0.1).ceil().max(0.0) as usize } else { 0 };
    (0..count).filter_map(|at| stretch_at(rounds, at as f64 * length_s, length_s)).collect()
}

/// The stretch from `start_s` on; `None` if no round has points in it.
fn stretch_at(rounds: &[&[Point]], start_s: f64, length_s: f64) -> Option<Stretch> {
    let parts: Vec<RoundFigures> =
        rounds.iter().filter_map(|points| RoundFigures::between(points, start_s, start_s + length_s)).collect();
    let median_of = |figure: fn(&RoundFigures) -> f64| median(&parts.iter().map(figure).collect::<Vec<_>>());
    let percentile = |figure: fn(&LatencyPercentiles) -> u64| {
        let known = parts.iter().filter_map(|part| Some(figure(part.latency.as_ref()?) as f64));
        median(&known.collect::<Vec<_>>())
    };
    let rates = parts.iter().map(|part| part.operations_per_s);
    Some(Stretch {
        start_s,
        length_s,
        warm_up: 2 * parts.iter().filter(|part| part.warm_up).count() > parts.len(),
        operations_per_s: median_of(|part| part.operations_per_s)?,
        operations_range_per_s: (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)),
        bandwidth_bytes_per_s: median_of(|part| part.bytes_per_s)?,
        latency_p50_ns: percentile(|one| one.p50_ns),
        latency_p99_ns: percentile(|one| one.p99_ns),
        latency_p999_ns: percentile(|one| one.p999_ns),
    })
}

/// The figures of one round in a stretch.
struct RoundFigures {
    operations_per_s: f64,
    bytes_per_s: f64,
    warm_up: bool,
    latency: Option<LatencyPercentiles>,
}

impl RoundFigures {
    /// The figures of a round between two times, in seconds. Rates are means over the points, weighted by the time that each
    /// point has between these times. Percentiles, which have no mean, are those of the point with the largest such time.
    /// `None` if no point lies between the times.
    fn between(points: &[Point], from: f64, until: f64) -> Option<RoundFigures> {
        let overlap_s = |point: &Point| (point.end_s().min(until) - point.start_s.max(from)).max(0.0);
        let longest = points.iter().max_by(|a, b| overlap_s(a).total_cmp(&overlap_s(b)))?;
        let covered_s: f64 = points.iter().map(overlap_s).sum();
        if covered_s <= 0.0 {
            return None;
        }
        let mean =
            |rate: fn(&Point) -> f64| points.iter().map(|one| rate(one) * overlap_s(one)).sum::<f64>() / covered_s;
        Some(RoundFigures {
            operations_per_s: mean(Point::operations_per_s),
            bytes_per_s: mean(Point::bytes_per_s),
            warm_up: longest.warm_up,
            latency: longest.latency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_counts_the_stretches_left_out() {
        let point = Point { start_s: 0.0, length_s: 1.0, warm_up: false, operations: 1, bytes: 1, latency: None };
        let note =
            |count| left_out_note(&SeriesTable { sample_row: vec![0; 3], points: vec![point; 3], left_out: count });
        assert_eq!(note(0), None);
        let sentence = note(6).unwrap();
        assert!(sentence.contains("3 of 9 stretches are shown, those of every 3rd round"), "{sentence}");
    }

    fn point(start_s: f64, length_s: f64, operations: u64) -> Point {
        let p50_ns = 1000 * operations;
        let latency = Some(LatencyPercentiles { p50_ns, p99_ns: 2 * p50_ns, p999_ns: 3 * p50_ns });
        Point { start_s, length_s, warm_up: start_s == 0.0, operations, bytes: 10 * operations, latency }
    }

    #[test]
    fn rounds_of_equal_length_are_combined_point_by_point() {
        let rounds = [[10, 100, 110], [20, 90, 120], [30, 80, 100]]
            .map(|of| of.into_iter().enumerate().map(|(at, count)| point(at as f64, 1.0, count)).collect::<Vec<_>>());
        let series = combine_rounds(&rounds.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(series.iter().map(|one| one.operations_per_s).collect::<Vec<_>>(), [20.0, 90.0, 110.0]);
        assert_eq!(series[1].operations_range_per_s, (80.0, 100.0));
        assert_eq!(series.iter().map(|one| one.warm_up).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((series[2].bandwidth_bytes_per_s, series[2].latency_p99_ns), (1100.0, Some(220_000.0)));
    }

    #[test]
    fn rounds_of_different_lengths_are_combined_while_half_of_them_last() {
        // Three rounds of 4 s, 2 s and 1 s, with points of 2 s, 1 s and 1 s.
        let long: Vec<Point> = (0..2).map(|at| point(2.0 * f64::from(at), 2.0, 200)).collect();
        let middle: Vec<Point> = (0..2).map(|at| point(f64::from(at), 1.0, 50)).collect();
        let short = vec![point(0.0, 1.0, 70)];
        let series = combine_rounds(&[&long, &middle, &short]);
        // Two of three rounds lasted 2 s, which is one stretch: 100, 50 and 70 operations per second.
        assert_eq!((series.len(), series[0].length_s, series[0].operations_per_s), (1, 2.0, 70.0));
        assert!(combine_rounds(&[&[]]).is_empty());
        let hostile = [point(0.0, 1e-12, 1), point(0.0, 1e-12, 1), point(9e8, 1e-12, 1 << 40)];
        assert!(combine_rounds(&[&hostile]).len() <= MAX_STRETCHES + 1);
    }

    #[test]
    fn a_long_last_point_does_not_change_the_length_of_stretches() {
        let mut points: Vec<Point> = (0..5).map(|at| point(f64::from(at), 1.0, 10)).collect();
        points.push(point(5.0, 4.0, 1));
        let series = combine_rounds(&[&points]);
        assert_eq!((series.len(), series[0].length_s), (9, 1.0));
        assert_eq!((series[4].operations_per_s, series[7].operations_per_s), (10.0, 0.25));
    }
}
