//! Charts of latency by percentile, on the axis of HdrHistogram's plots: medians of the rounds' percentiles, and percentiles
//! of all rounds together.

use crate::chart_context::{ChartContext, point_with_interval, widen_range};
use crate::drawing::{Axis, Chart, Mark, Panel, SeriesPoint};
use crate::{matrix, phrases::task_label};
use fsarena_core::{latency::LatencyHistogram, observations::Grid, sample::Unit};
use fsarena_stats::{comparison::median, ratio::Ratio};

/// The percentiles of readings: the part of the reading's id, the label, and the position −lg(1 − q) of the quantile q on the
/// axis.
const PERCENTILES: [(&str, &str, f64); 4] =
    [("p50", "50%", 0.301), ("p95", "95%", 1.301), ("p99", "99%", 2.0), ("p999", "99.9%", 3.0)];
/// The position of the longest latency, right of all percentiles.
const LONGEST_POSITION: f64 = 3.7;
/// The kinds of operations whose latency is read: the prefix of the readings' ids, and the name in texts.
const OPERATION_KINDS: [(&str, &str); 6] = [
    ("commit", "durable commits"),
    ("read", "reads"),
    ("write", "writes"),
    ("sync", "syncs"),
    ("flush", "dbench's Flush, which syncs a file"),
    ("corrected", "operations from their intended start"),
];
/// A chart has at most this many panels.
const MAX_PANELS: usize = 12;

/// A chart for each kind of operation: the medians over rounds of its latency percentiles.
pub fn percentile_charts(context: &ChartContext) -> Vec<Chart> {
    OPERATION_KINDS.iter().map(|kind| percentile_chart(context, kind)).collect()
}

fn percentile_chart(context: &ChartContext, (prefix, operations): &(&str, &str)) -> Chart {
    let mut quantiles = vec![];
    for (id, label, position) in PERCENTILES.into_iter().chain([("max", "longest", LONGEST_POSITION)]) {
        let grid = Grid::of(context.record(), &format!("{prefix}_latency_{id}_ns"));
        quantiles.extend(grid.map(|grid| MeasuredQuantile { label, position, grid }));
    }
    // Some loads measure only some of the percentiles.
    let is_measured = |task: usize, variant: usize| {
        quantiles.iter().any(|quantile| quantile.grid.values[task][variant].iter().any(|value| *value > 0.0))
    };
    let has_values = |task: &usize| !context.variants_where(|variant| is_measured(*task, variant)).is_empty();
    let tasks: Vec<usize> = (0..context.record().tasks.len()).filter(has_values).collect();
    let variants = context.variants_where(|variant| tasks.iter().any(|task| is_measured(*task, variant)));
    let (shown, left_out_note) = choose_tasks(context, &tasks);
    let panels = shown.into_iter().map(|task| percentile_panel(context, &quantiles, task)).collect();
    let caption = format!(
        "Latency of {operations} by percentile. On the axis every further nine takes the same width, and the right end is the \
         longest latency. Lines are medians over rounds, bars 95% intervals (with fewer than 8 rounds, the smallest and \
         the largest value; with one round, none).{left_out_note}{}",
        context.undrawn_variants_note(&variants, "no such operations")
    );
    let chart = Chart::new(format!("latency-{prefix}"), format!("Latency of {operations}"), caption);
    Chart { legend: context.line_legend(&variants), ..chart.with_panels(panels) }
}

/// The tasks of [`representative_tasks`], sorted by name, block size, threads and other parameters, and a sentence, with a space
/// before it, if others are left out.
pub fn choose_tasks(context: &ChartContext, tasks: &[usize]) -> (Vec<usize>, String) {
    let mut shown = representative_tasks(context, tasks);
    // The tasks of a load come in the random order in which they ran.
    let id = |task: &usize| &context.record().tasks[*task].id;
    shown.sort_by_key(|task| (&id(task).name, matrix::block_size_and_threads(id(task)), &id(task).params));
    let left_out_note = match tasks.len() - shown.len() {
        0 => String::new(),
        _ => format!(" Of {} tasks, {} are shown, each with the most threads of its mode.", tasks.len(), shown.len()),
    };
    (shown, left_out_note)
}

/// All tasks if a chart has room for them; else the first tasks with the most threads of their name.
fn representative_tasks(context: &ChartContext, tasks: &[usize]) -> Vec<usize> {
    if tasks.len() <= MAX_PANELS {
        return tasks.to_vec();
    }
    let threads = |task: &usize| {
        context.record().tasks[*task].id.clients().and_then(|count| count.parse::<u32>().ok()).unwrap_or(0)
    };
    let name = |task: &usize| context.record().tasks[*task].id.name.as_str();
    let max_threads =
        |task: &usize| tasks.iter().filter(|other| name(other) == name(task)).map(threads).max().unwrap_or(0);
    tasks.iter().copied().filter(|task| threads(task) == max_threads(task)).take(MAX_PANELS).collect()
}

/// A percentile of the latency that the run measured.
struct MeasuredQuantile {
    /// The label on the axis.
    label: &'static str,
    /// The position on the axis.
    position: f64,
    /// The latencies in nanoseconds.
    grid: Grid,
}

/// The panel of one task: for each variant, the median over rounds of each percentile, with its interval.
fn percentile_panel(context: &ChartContext, quantiles: &[MeasuredQuantile], task: usize) -> Panel {
    let (mut marks, mut all_points) = (vec![], vec![]);
    for (variant, style) in context.styles.iter().enumerate() {
        let mut points = vec![];
        for quantile in quantiles {
            let mut values = quantile.grid.values[task][variant].clone();
            values.retain(|value| *value > 0.0);
            let Some(latency_ns) = median(&values) else { continue };
            points.push(point_with_interval(quantile.position, latency_ns, Ratio::typical_value(&values)));
        }
        marks.extend(style.series_marks(&points, 1.75));
        all_points.extend(points);
    }
    let ticks = quantiles.iter().map(|quantile| (quantile.position, quantile.label.to_string())).collect();
    let range = SeriesPoint::vertical_range(&all_points, (f64::INFINITY, 0.0));
    latency_panel(context, task, (ticks, 4.0), range, marks)
}

/// A panel of one task. Its horizontal axis has these ticks and ends at `axis_end`; its vertical axis has this range, in
/// nanoseconds.
fn latency_panel(
    context: &ChartContext,
    task: usize,
    (ticks, axis_end): (Vec<(f64, String)>, f64),
    (low, high): (f64, f64),
    marks: Vec<Mark>,
) -> Panel {
    let x_axis =
        Axis { label: "percentile".into(), range: (0.0, axis_end), is_log: false, ticks, has_grid_lines: true };
    let y_axis = Axis::log_in_unit("latency", low / 1.2, high * 1.2, Unit::Nanoseconds);
    Panel::new(task_label(&context.record().tasks[task]), x_axis, y_axis, 230, marks)
}

/// The number of steps between the points of a curve.
const CURVE_STEPS: usize = 200;

/// The chart of the latencies of all rounds together, by percentile; without panels if the run has none.
pub fn pooled_charts(context: &ChartContext) -> Vec<Chart> {
    let latencies = &context.record().latencies;
    let mut tasks: Vec<usize> = latencies.keys().map(|(task, _)| *task).collect();
    tasks.dedup();
    let (shown, left_out_note) = choose_tasks(context, &tasks);
    let variants = context.variants_where(|variant| latencies.keys().any(|(_, other)| *other == variant));
    let panels = shown.into_iter().map(|task| pooled_panel(context, task)).collect();
    let caption = format!(
        "Latency of all requests of all rounds by percentile; every nine is as wide as the one before. A line ends where \
         ten requests lie beyond it. These are shown, not compared: comparisons take the percentile of each \
         round.{left_out_note}{}",
        context.undrawn_variants_note(&variants, "no latencies")
    );
    let chart = Chart::new("latency-pooled", "Latency of all rounds together", caption);
    vec![Chart { legend: context.area_legend(&variants), ..chart.with_panels(panels) }]
}

/// The panel of one task: the curve of each variant.
fn pooled_panel(context: &ChartContext, task: usize) -> Panel {
    let (mut marks, mut all_points) = (vec![], vec![]);
    let latencies_of_task = context.record().latencies.iter().filter(|((other, _), _)| *other == task);
    for ((_, variant), latencies) in latencies_of_task {
        let points = quantile_curve(latencies);
        marks.push(context.styles[*variant].line_mark(&points, 1.75));
        all_points.extend(points);
    }
    let percentile_label = |nines: u32| match nines {
        0 => "0%".to_string(),
        1 => "90%".into(),
        2 => "99%".into(),
        _ => format!("99.{}%", "9".repeat(nines as usize - 2)),
    };
    let last_nines = (all_points.iter().map(|(x, _)| *x).fold(0.0, f64::max).ceil() as u32).max(1);
    let ticks = (0..=last_nines).map(|nines| (f64::from(nines), percentile_label(nines))).collect();
    let range = widen_range((f64::INFINITY, 0.0), all_points.into_iter().map(|(_, y)| y));
    latency_panel(context, task, (ticks, f64::from(last_nines)), range, marks)
}

/// The points of a curve: x is −lg(1 − q) of a quantile q, y is its latency in nanoseconds. The x are evenly spaced up to the
/// quantile beyond which ten requests lie.
fn quantile_curve(latencies: &LatencyHistogram) -> Vec<(f64, f64)> {
    let last_position = (latencies.count() as f64 / 10.0).log10().max(0.0);
    let mut points = vec![];
    for step in 0..=CURVE_STEPS {
        let x = last_position * step as f64 / CURVE_STEPS as f64;
        if let Some(ns) = latencies.quantile(1.0 - 10f64.powf(-x)) {
            points.push((x, ns.max(1) as f64));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_at_the_quantile_beyond_which_ten_requests_lie() {
        let curve = quantile_curve(&LatencyHistogram::new([(100, 900), (200, 90), (240, 10)]));
        let (first, last) = (curve[0], curve[CURVE_STEPS]);
        assert_eq!((first, last.1), ((0.0, 100.0), 200.0));
        assert!((last.0 - 2.0).abs() < 1e-9, "1000 requests: the 99th percentile is the last");
    }
}
