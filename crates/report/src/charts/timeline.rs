//! Charts over time: the throughput of the cells over the run, and the throughput within each task.

use crate::drawing::{Axis, Chart, KeySign, LegendKey, Mark, Panel, theme};
use crate::number::{ordinal, with_unit};
use crate::phrases::{overall_figure_name, task_label};
use crate::time_series::{self, TimeSeries, left_out_note};
use crate::{chart_context::ChartContext, charts::latency::choose_tasks, drawing::colour::ORANGE};
use fsarena_core::event::{Activity, NoteKind, Outcome};
use fsarena_core::record::RunRecord;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::comparison::median;
use std::collections::BTreeSet;

/// The chart shows about this many cells at most: if there are more, it shows every n-th round.
const MAX_CELLS: usize = 1500;
/// Opacity of the mark on a cell that began on a busy machine.
const BUSY_OPACITY: f64 = 0.2;

/// One cell: the measurement of one variant in one round.
struct CellPoint {
    /// Its start, in seconds since the run began.
    start_s: f64,
    /// Its end, in seconds since the run began.
    end_s: f64,
    /// The index of the variant.
    variant: usize,
    round: u32,
    /// The throughput of its tasks in per cent of the median of the same tasks in all cells.
    throughput_percent: f64,
    /// Seconds spent waiting until the machine was idle.
    idle_s: f64,
    /// Seconds left out as warm-up.
    warm_up_s: f64,
}

/// The chart of every cell's throughput at the time it began, and of the share of its time that was not measured.
pub fn run_timeline_charts(context: &ChartContext) -> Vec<Chart> {
    let mut cells = cell_points(context);
    if cells.len() < 3 {
        return vec![];
    }
    cells.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    let round_step = cells.len().div_ceil(MAX_CELLS) as u32;
    cells.retain(|cell| cell.round % round_step == 0);
    let drawn = context.variants_where(|variant| cells.iter().any(|cell| cell.variant == variant));
    let metric = context.report.analyses.first().map_or(String::new(), overall_figure_name);
    let caption = format!(
        "One point a cell, at the time it began: throughput, the work of a cell over its {metric}, in per cent of \
         the median of the same tasks in all cells. A line that rises or falls shows a machine that drifts. Below: the share \
         of each cell's time that went into idle wait and warm-up, which no figure counts; orange marks cells that \
         began on a busy machine. A point is one measurement and has no interval.{}{}",
        match round_step {
            1 => String::new(),
            step => format!(" Every {} round is drawn.", ordinal(step.into())),
        },
        context.undrawn_variants_note(&drawn, "no cell that was done and has a value"),
    );
    let panels = vec![cell_throughput_panel(context, &cells), unmeasured_time_panel(context, &cells)];
    let mut legend = context.line_legend(&drawn);
    legend.push(LegendKey::new("idle wait", theme::GREY, KeySign::Area(1.0)));
    if cells.iter().any(|cell| cell.warm_up_s > 0.0) {
        legend.push(LegendKey::new("warm-up", theme::WARM_UP, KeySign::Area(1.0)));
    }
    if !busy_cells(context.record()).is_empty() {
        legend.push(LegendKey::new("began on a busy machine", ORANGE, KeySign::Area(BUSY_OPACITY)));
    }
    vec![Chart { panels, legend, ..Chart::new("timeline", "Throughput over time", caption) }]
}

/// The values of the tasks of one cell, summed up.
#[derive(Clone, Default)]
struct CellSums {
    /// The sum of the logarithms of the tasks' values, each divided by the median of the task in all cells.
    log_sum: f64,
    /// Number of tasks with a value.
    task_count: usize,
    /// Warm-up in seconds.
    warm_up_s: f64,
}

/// The cells that were done and have a value of the first metric. Cells of different workloads have different tasks.
fn cell_points(context: &ChartContext) -> Vec<CellPoint> {
    let record = context.record();
    let Some(analysis) = context.report.analyses.first() else { return vec![] };
    let Some((metric, values)) = record.metric(&analysis.metric.id) else { return vec![] };
    // A rate or a score is a throughput. For a time, less time means more throughput.
    let is_rate = matches!(metric.unit, Unit::PerSecond | Unit::BytesPerSecond);
    let sign = if is_rate || metric.direction == Direction::Higher { 1.0 } else { -1.0 };
    let run_start = record.cells.iter().map(|cell| cell.started_at).fold(f64::INFINITY, f64::min);
    let mut cells = vec![];
    for (cell, sums) in record.cells.iter().zip(sums_by_cell(record, &values)) {
        if cell.outcome != Outcome::Done || sums.task_count == 0 {
            continue;
        }
        let spent_s = |part: Activity| cell.spent_on(part) as f64 / 1e9;
        // The mean logarithm weighs all tasks alike, however long they take.
        let log_mean = sums.log_sum / sums.task_count as f64;
        cells.push(CellPoint {
            start_s: cell.started_at - run_start,
            end_s: cell.started_at - run_start + spent_s(Activity::Total),
            variant: cell.variant,
            round: cell.round,
            throughput_percent: 100.0 * (sign * log_mean).exp(),
            idle_s: spent_s(Activity::Idle),
            warm_up_s: sums.warm_up_s,
        });
    }
    cells
}

/// Sums up the samples of each cell: the values of a metric above zero, and the warm-up. `values` are by sample.
fn sums_by_cell(record: &RunRecord, values: &[f64]) -> Vec<CellSums> {
    let warm_ups_ns = record.metric("warmup_ns").map(|(_, values)| values);
    let log_medians = log_medians_by_task(record, values);
    let mut sums = vec![CellSums::default(); record.cells.len()];
    for (sample, value) in values.iter().enumerate() {
        let sum = &mut sums[record.samples.cell[sample] as usize];
        let log_median = log_medians[record.samples.task[sample] as usize];
        if let Some(log_median) = log_median.filter(|_| *value > 0.0) {
            sum.log_sum += value.ln() - log_median;
            sum.task_count += 1;
        }
        if let Some(warm_ups_ns) = &warm_ups_ns
            && !warm_ups_ns[sample].is_nan()
        {
            sum.warm_up_s += warm_ups_ns[sample] / 1e9;
        }
    }
    sums
}

/// For each task the median of the logarithms of its values above zero, in all cells. `None` for a task that has no such value
/// or that totals leave out.
fn log_medians_by_task(record: &RunRecord, values: &[f64]) -> Vec<Option<f64>> {
    let mut logs_by_task = vec![vec![]; record.tasks.len()];
    for (task, value) in record.samples.task.iter().zip(values) {
        if *value > 0.0 && record.tasks[*task as usize].in_totals {
            logs_by_task[*task as usize].push(value.ln());
        }
    }
    logs_by_task.iter().map(|logs| median(logs)).collect()
}

/// The cells with a task that began on a busy machine, by round and variant.
fn busy_cells(record: &RunRecord) -> BTreeSet<(u32, usize)> {
    let timeouts = record.notes_of(NoteKind::IdleTimeout);
    timeouts.filter_map(|(round, note)| Some((round?, record.variant_index(note.variant.as_deref()?)?))).collect()
}

/// The horizontal axis from the start of the run to the end of the last cell.
fn time_axis(cells: &[CellPoint]) -> Axis {
    let end_s = cells.iter().map(|cell| cell.end_s).fold(0.0, f64::max);
    Axis::from_zero("since the run began", end_s, Unit::Seconds)
}

/// The panel of throughput over time, with marks on cells that began on a busy machine.
fn cell_throughput_panel(context: &ChartContext, cells: &[CellPoint]) -> Panel {
    let max_percent = cells.iter().map(|cell| cell.throughput_percent).fold(0.0, f64::max);
    let busy_cells = busy_cells(context.record());
    let mut marks = vec![];
    for cell in cells.iter().filter(|cell| busy_cells.contains(&(cell.round, cell.variant))) {
        let (x, y) = ((cell.start_s, cell.end_s), (0.0, max_percent * 1.02));
        marks.push(Mark::Box { x, y, colour: ORANGE, opacity: BUSY_OPACITY });
    }
    for (variant, style) in context.styles.iter().enumerate() {
        let cells_of_variant = cells.iter().filter(|cell| cell.variant == variant);
        let points: Vec<(f64, f64)> = cells_of_variant.map(|cell| (cell.start_s, cell.throughput_percent)).collect();
        if points.len() > 1 {
            marks.push(style.line_mark(&points, 1.0));
        }
        marks.extend(style.dot_marks(points));
    }
    let x_axis = Axis { label: String::new(), ..time_axis(cells) };
    let y_axis = Axis::from_zero("% of the median", max_percent, Unit::Percent);
    Panel::new("throughput, median of the same tasks in all cells = 100%", x_axis, y_axis, 230, marks)
}

/// The panel of the share of each cell's time that went into idle wait and warm-up.
fn unmeasured_time_panel(context: &ChartContext, cells: &[CellPoint]) -> Panel {
    let percent_of_cell = |part_s: f64, cell: &CellPoint| 100.0 * part_s / (cell.end_s - cell.start_s).max(1e-9);
    let max_percent = cells.iter().map(|cell| percent_of_cell(cell.idle_s + cell.warm_up_s, cell)).fold(0.0, f64::max);
    let mut marks = vec![];
    for cell in cells {
        let (idle, warm_up) = (percent_of_cell(cell.idle_s, cell), percent_of_cell(cell.warm_up_s, cell));
        for (y, colour) in [((0.0, idle), theme::GREY), ((idle, idle + warm_up), theme::WARM_UP)] {
            if y.1 > y.0 {
                marks.push(Mark::Box { x: (cell.start_s, cell.end_s), y, colour, opacity: 1.0 });
            }
        }
    }
    let idle_ns: u64 = context.record().cells.iter().map(|cell| cell.spent_on(Activity::Idle)).sum();
    let idle_time = with_unit(idle_ns as f64, Unit::Nanoseconds);
    let title = format!("share of a cell's time not measured; the idle wait took {idle_time} in all");
    let y_axis = Axis::from_zero("% of its time", max_percent, Unit::Percent);
    Panel::new(title, time_axis(cells), y_axis, 150, marks)
}

/// Opacity of the mark on the warm-up.
const WARM_UP_OPACITY: f64 = 0.35;

/// The chart of operations a second within each task, with a mark on the warm-up.
pub fn task_timeline_charts(context: &ChartContext) -> Vec<Chart> {
    let all_series = time_series::time_series_of_run(context.record());
    let varying = all_series.iter().filter(|series| series.stretches.len() > 1);
    let mut tasks: Vec<usize> = varying.map(|series| series.task).collect();
    tasks.dedup();
    let (shown, tasks_left_out) = choose_tasks(context, &tasks);
    let series_of_task = |task: usize| all_series.iter().filter(|series| series.task == task).collect::<Vec<_>>();
    let panels = shown.into_iter().map(|task| task_throughput_panel(context, task, &series_of_task(task))).collect();
    let variants = context.variants_where(|variant| all_series.iter().any(|series| series.variant == variant));
    let variants_left_out = context.undrawn_variants_note(&variants, "no time series");
    let mut legend = context.line_legend(&variants);
    if all_series.iter().flat_map(|series| &series.stretches).any(|stretch| stretch.warm_up) {
        legend.push(LegendKey::new("warm-up, left out of all figures", theme::WARM_UP, KeySign::Area(WARM_UP_OPACITY)));
    }
    let caption = format!(
        "Operations a second in each stretch of a task. Lines are medians over rounds, bands the range of the rounds; one \
         round has no band. The line of a steady load is level.{tasks_left_out}{variants_left_out}{}",
        left_out_note(&context.record().series)
            .map_or(String::new(), |left_out| format!(" Not all rounds are drawn: {left_out}."))
    );
    let chart = Chart::new("time-series", "Throughput within a task", caption);
    vec![Chart { legend, ..chart.with_panels(panels) }]
}

/// The panel of one task: the operations a second of each variant over the time of the load.
fn task_throughput_panel(context: &ChartContext, task: usize, all_series: &[&TimeSeries]) -> Panel {
    let stretches = || all_series.iter().flat_map(|series| &series.stretches);
    let end_s = stretches().map(|stretch| stretch.start_s + stretch.length_s).fold(0.0, f64::max);
    let max_per_s = stretches().map(|stretch| stretch.operations_range_per_s.1).fold(0.0, f64::max);
    let warm_up = stretches().filter(|stretch| stretch.warm_up);
    let warm_up_end_s = warm_up.map(|stretch| stretch.start_s + stretch.length_s).fold(0.0, f64::max);
    let mut marks = vec![];
    if warm_up_end_s > 0.0 {
        let (x, y) = ((0.0, warm_up_end_s), (0.0, max_per_s * 1.02));
        marks.push(Mark::Box { x, y, colour: theme::WARM_UP, opacity: WARM_UP_OPACITY });
    }
    for series in all_series {
        let style = context.styles[series.variant];
        let stretches_with_middles =
            || series.stretches.iter().map(|stretch| (stretch.start_s + stretch.length_s / 2.0, stretch));
        let band = stretches_with_middles()
            .map(|(x, stretch)| (x, stretch.operations_range_per_s.0, stretch.operations_range_per_s.1));
        let points: Vec<(f64, f64)> =
            stretches_with_middles().map(|(x, stretch)| (x, stretch.operations_per_s)).collect();
        if series.rounds > 1 {
            marks.push(Mark::Band { points: band.collect(), colour: style.colour });
        }
        marks.push(style.line_mark(&points, 1.5));
        // A few points let a reader distinguish lines of similar colours.
        let dot_step = points.len().div_ceil(8).max(1);
        marks.extend(style.dot_marks(points.into_iter().step_by(dot_step)));
    }
    let x_axis = Axis::from_zero("since the load began", end_s, Unit::Seconds);
    let y_axis = Axis::from_zero("operations a second", max_per_s, Unit::PerSecond);
    Panel::new(task_label(&context.record().tasks[task]), x_axis, y_axis, 230, marks)
}
