//! Time series of a load: throughput and latency of a task on a variant over time, combined from the series of all rounds.

use crate::number;
use fsarena_core::series::{LatencyPercentiles, MAX_SERIES_POINTS, SeriesPoint, SeriesTable};
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
    /// The stretches, in the order of time: about [`MAX_SERIES_POINTS`] if all rounds took the same time, and never more than
    /// twice that number plus one.
    pub stretches: Vec<Stretch>,
}

/// A sentence with the number of points of the series that fsarena left out because the run has too many points; `None` if it
/// loaded all.
pub fn left_out_note(series: &SeriesTable) -> Option<String> {
    if series.omitted_count == 0 {
        return None;
    }
    let shown = series.points.len() as u64;
    let total = shown + series.omitted_count;
    // Points are omitted, so at least every second round is. Rounds of different lengths can make the quotient smaller than 2.
    let step = ((total as f64 / shown.max(1) as f64).round() as u64).max(2);
    Some(format!(
        "{shown} of {total} points in time are shown: those of every {} round, the same rounds for every variant. The others are in \
         run.db",
        number::ordinal(step)
    ))
}

/// A period of time within a task. Its figures are medians over the rounds that lasted at least until its start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stretch {
    /// The start, in seconds after the start of the load.
    pub start_s: f64,
    /// The length, in seconds. All stretches of a series have the same, even if the rounds end within the last one.
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

/// The largest number of stretches in a time series, not counting the last one, in which the rounds may end. It limits
/// the memory for a damaged database.
const MAX_STRETCHES: usize = 2 * MAX_SERIES_POINTS;

/// The time series of every task on every variant that has one, by task and then by variant. Dropped rounds are left out.
pub fn time_series_of_run(record: &RunRecord) -> Vec<TimeSeries> {
    let left_out = observations::rounds_left_out(record);
    // By task and variant: the points of each round.
    let mut rounds: BTreeMap<(usize, usize), Vec<&[SeriesPoint]>> = BTreeMap::new();
    // The points of one row follow each other.
    let mut sample_rows = record.series.sample_row.clone();
    sample_rows.dedup();
    for row in sample_rows {
        let cell = &record.cells[record.samples.cell[row as usize] as usize];
        if !left_out.contains(&cell.round) {
            let task = record.samples.task[row as usize] as usize;
            rounds.entry((task, cell.variant)).or_default().push(record.series.points_of(row));
        }
    }
    let series = |((task, variant), rounds): ((usize, usize), Vec<&[SeriesPoint]>)| TimeSeries {
        task,
        variant,
        rounds: rounds.len(),
        stretches: combine_rounds(&rounds),
    };
    rounds.into_iter().map(series).collect()
}

/// Combines the series of rounds, until the time that at least half of the rounds lasted.
///
/// The length of a stretch is the median length of the points of a round, for the round where this median is largest. A
/// median and not the maximum, because the last point of a round ends with the last operation and can be far longer
/// than the others.
fn combine_rounds(rounds: &[&[SeriesPoint]]) -> Vec<Stretch> {
    let median_length_s =
        |points: &&[SeriesPoint]| median(&points.iter().map(|point| point.length_s).collect::<Vec<_>>());
    let max_length_s = rounds.iter().filter_map(median_length_s).fold(0.0, f64::max);
    let mut round_ends_s: Vec<f64> =
        rounds.iter().map(|points| points.last().map_or(0.0, SeriesPoint::end_s)).collect();
    round_ends_s.sort_by(f64::total_cmp);
    let end_s = round_ends_s[(round_ends_s.len() - 1) / 2];
    // A damaged database may have points of any length. Bound the number of stretches.
    let length_s = f64::max(max_length_s, end_s / MAX_STRETCHES as f64);
    // Ignore a rest under a tenth of a stretch: it is a rounding error, or an operation that took a little longer.
    let count = if length_s > 0.0 { (end_s / length_s - 0.1).ceil().max(0.0) as usize } else { 0 };
    (0..count).filter_map(|index| stretch_at(rounds, index as f64 * length_s, length_s)).collect()
}

/// The stretch that starts at `start_s`; `None` if no round has points in it.
fn stretch_at(rounds: &[&[SeriesPoint]], start_s: f64, length_s: f64) -> Option<Stretch> {
    let figures: Vec<RoundFigures> =
        rounds.iter().filter_map(|points| RoundFigures::between(points, start_s, start_s + length_s)).collect();
    let median_of = |figure: fn(&RoundFigures) -> f64| median(&figures.iter().map(figure).collect::<Vec<_>>());
    let median_percentile = |percentile: fn(&LatencyPercentiles) -> u64| {
        let values = figures.iter().filter_map(|round| Some(percentile(round.latency.as_ref()?) as f64));
        median(&values.collect::<Vec<_>>())
    };
    let rates = figures.iter().map(|round| round.operations_per_s);
    Some(Stretch {
        start_s,
        length_s,
        warm_up: 2 * figures.iter().filter(|round| round.warm_up).count() > figures.len(),
        operations_per_s: median_of(|round| round.operations_per_s)?,
        operations_range_per_s: (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)),
        bandwidth_bytes_per_s: median_of(|round| round.bytes_per_s)?,
        latency_p50_ns: median_percentile(|latency| latency.p50_ns),
        latency_p99_ns: median_percentile(|latency| latency.p99_ns),
        latency_p999_ns: median_percentile(|latency| latency.p999_ns),
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
    /// The figures of a round between two times. Rates are means over the points, weighted by the part of each point between
    /// these times. Percentiles, which have no mean, come from the point with the longest such part. `None` if no point overlaps
    /// the time.
    fn between(points: &[SeriesPoint], start_s: f64, end_s: f64) -> Option<RoundFigures> {
        let overlap_s = |point: &SeriesPoint| (point.end_s().min(end_s) - point.start_s.max(start_s)).max(0.0);
        let longest = points.iter().max_by(|a, b| overlap_s(a).total_cmp(&overlap_s(b)))?;
        let covered_s: f64 = points.iter().map(overlap_s).sum();
        if covered_s <= 0.0 {
            return None;
        }
        let mean = |rate: fn(&SeriesPoint) -> f64| {
            points.iter().map(|point| rate(point) * overlap_s(point)).sum::<f64>() / covered_s
        };
        Some(RoundFigures {
            operations_per_s: mean(SeriesPoint::operations_per_s),
            bytes_per_s: mean(SeriesPoint::bytes_per_s),
            warm_up: longest.warm_up,
            latency: longest.latency,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_counts_the_points_shown_and_all_points() {
        let point = SeriesPoint { start_s: 0.0, length_s: 1.0, warm_up: false, operations: 1, bytes: 1, latency: None };
        let note = |count| {
            left_out_note(&SeriesTable { sample_row: vec![0; 3], points: vec![point; 3], omitted_count: count })
        };
        assert_eq!(note(0), None);
        let sentence = note(6).unwrap();
        assert!(sentence.contains("3 of 9 points in time are shown: those of every 3rd round"), "{sentence}");
    }

    fn point(start_s: f64, length_s: f64, operations: u64) -> SeriesPoint {
        let p50_ns = 1000 * operations;
        let latency = Some(LatencyPercentiles { p50_ns, p99_ns: 2 * p50_ns, p999_ns: 3 * p50_ns });
        SeriesPoint { start_s, length_s, warm_up: start_s == 0.0, operations, bytes: 10 * operations, latency }
    }

    #[test]
    fn rounds_of_equal_length_are_combined_point_by_point() {
        let points = |counts: [u64; 3]| -> Vec<SeriesPoint> {
            (0..).map(f64::from).zip(counts).map(|(start_s, count)| point(start_s, 1.0, count)).collect()
        };
        let rounds = [[10, 100, 110], [20, 90, 120], [30, 80, 100]].map(points);
        let stretches = combine_rounds(&rounds.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let rates: Vec<f64> = stretches.iter().map(|stretch| stretch.operations_per_s).collect();
        assert_eq!(rates, [20.0, 90.0, 110.0]);
        assert_eq!(stretches[1].operations_range_per_s, (80.0, 100.0));
        assert_eq!(stretches.iter().map(|stretch| stretch.warm_up).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((stretches[2].bandwidth_bytes_per_s, stretches[2].latency_p99_ns), (1100.0, Some(220_000.0)));
    }

    #[test]
    fn rounds_of_different_lengths_are_combined_while_half_of_them_last() {
        // Three rounds of 4 s, 2 s and 1 s, with points of 2 s, 1 s and 1 s.
        let long = [point(0.0, 2.0, 200), point(2.0, 2.0, 200)];
        let middle = [point(0.0, 1.0, 50), point(1.0, 1.0, 50)];
        let short = [point(0.0, 1.0, 70)];
        let stretches = combine_rounds(&[&long, &middle, &short]);
        // Two of three rounds lasted 2 s, which is one stretch: 100, 50 and 70 operations per second.
        assert_eq!((stretches.len(), stretches[0].length_s, stretches[0].operations_per_s), (1, 2.0, 70.0));
        assert!(combine_rounds(&[&[]]).is_empty());
        let hostile = [point(0.0, 1e-12, 1), point(0.0, 1e-12, 1), point(9e8, 1e-12, 1 << 40)];
        assert!(combine_rounds(&[&hostile]).len() <= MAX_STRETCHES + 1);
    }

    #[test]
    fn a_long_last_point_does_not_change_the_length_of_stretches() {
        let mut points: Vec<SeriesPoint> = (0..5).map(|start_s| point(f64::from(start_s), 1.0, 10)).collect();
        points.push(point(5.0, 4.0, 1));
        let stretches = combine_rounds(&[&points]);
        assert_eq!((stretches.len(), stretches[0].length_s), (9, 1.0));
        assert_eq!((stretches[4].operations_per_s, stretches[7].operations_per_s), (10.0, 0.25));
    }
}
