//! Charts of the CPU time by user, and of the time of the run by activity, for each variant.

use crate::chart_context::{ChartContext, stacked_bar};
use crate::drawing::{Anchor, Axis, Chart, Colour, KeySign, LegendKey, Mark, Panel, theme};
use crate::number::with_unit;
use fsarena_core::observations::{ReadingTotal, reading_totals};
use fsarena_core::{event::Activity, sample::Unit};
use fsarena_stats::{comparison::median, ratio::Ratio};

/// The parts of the CPU time: id of the metric, text of the legend, and position on the colour scale of heat maps, whose colours
/// differ from the colours of filesystems.
const CPU_PARTS: [(&str, &str, Option<f64>); 4] = [
    ("user", "process, user mode", Some(0.95)),
    ("system", "process, in the kernel", Some(0.7)),
    ("background_cpu", "kernel threads and the rest of the machine", Some(0.42)),
    // Grey, because the CPU is idle. The total CPU time leaves this part out.
    ("iowait_ns", "CPU idle, waiting for I/O", None),
];

/// The chart of CPU time: of the process in user and kernel mode, and of everything else.
pub fn cpu_charts(context: &ChartContext) -> Vec<Chart> {
    let totals = reading_totals(context.record(), &CPU_PARTS.map(|(id, ..)| id));
    if !totals.iter().any(|total| total.id == "system") {
        return vec![];
    }
    let has_value = |variant: usize| totals.iter().any(|total| median(&total.values[variant]).is_some());
    let drawn = context.variants_where(has_value);
    let bars: Vec<_> = drawn.iter().enumerate().map(|(row, variant)| cpu_bar(&totals, *variant, row)).collect();
    let furthest_end = bars.iter().map(|(_, end)| *end).fold(0.0, f64::max);
    let x_axis = Axis::from_zero("CPU time over all tasks of a round", furthest_end * 1.15, Unit::Seconds);
    let marks = bars.into_iter().flat_map(|(marks, _)| marks).collect();
    let panel =
        Panel::with_rows("", x_axis, drawn.iter().map(|variant| context.variant_name(*variant)), (60, 30), marks);
    let present = CPU_PARTS.iter().filter(|(id, ..)| totals.iter().any(|total| total.id == *id));
    let key = |(_, label, heat_position): &(_, &str, Option<f64>)| {
        LegendKey::new(*label, part_colour(*heat_position), KeySign::Area(1.0))
    };
    let legend = present.map(key).collect();
    let meaning = "The CPU time of all tasks until the data was on the device, as the median over rounds. One part is the \
                 process itself. The other is everything else that ran, such as the filesystem's journal, writeback and \
                 checksum threads. Waiting for I/O is idle time. The bar shows how long it was, but the total leaves it \
                 out. Whiskers are \
                 95% intervals of the whole CPU time (with fewer than 8 rounds, the smallest and the largest value; \
                 with one round, none).";
    let caption = format!("{meaning}{}", context.undrawn_variants_note(&drawn, "no CPU time was read"));
    vec![Chart { panels: vec![panel], legend, ..Chart::new("cpu", "Who used the CPU", caption) }]
}

/// The colour at this position on the scale of heat maps; grey for `None`.
fn part_colour(heat_position: Option<f64>) -> Colour {
    heat_position.map_or(theme::GRID, Colour::on_heat_scale)
}

/// The marks of one variant's bar, and the coordinate of its right end or of the end of its interval, in seconds.
fn cpu_bar(totals: &[ReadingTotal], variant: usize, row: usize) -> (Vec<Mark>, f64) {
    let (mut parts, mut used_s) = (vec![], 0.0);
    for (id, _, heat_position) in CPU_PARTS {
        let Some(total) = totals.iter().find(|total| total.id == id) else { continue };
        let Some(value) = median(&total.values[variant]) else { continue };
        let seconds = if total.unit == Unit::Nanoseconds { value / 1e9 } else { value };
        if heat_position.is_some() {
            used_s += seconds;
        }
        parts.push((seconds, part_colour(heat_position)));
    }
    let (mut marks, mut end) = stacked_bar(row, parts);
    let y = Axis::row_centre(row);
    if let Some(typical) = typical_cpu_time(totals, variant) {
        marks.push(Mark::HorizontalInterval { x: (typical.low, typical.high), y, clipped_end: None });
        end = end.max(typical.high);
    }
    marks.push(Mark::value_text(y, with_unit(used_s, Unit::Seconds)));
    (marks, end)
}

/// The typical CPU time of a round over all parts except waiting for I/O, with its interval, in seconds. All these parts are
/// metrics in seconds; only `iowait_ns` is in nanoseconds.
fn typical_cpu_time(totals: &[ReadingTotal], variant: usize) -> Option<Ratio> {
    let counted = totals.iter().filter(|total| total.id != "iowait_ns");
    let counted: Vec<&Vec<f64>> = counted.map(|total| &total.values[variant]).collect();
    let rounds = counted.iter().map(|values| values.len()).min()?;
    let sums = (0..rounds).map(|round| counted.iter().map(|values| values[round]).sum::<f64>());
    Ratio::typical_value(&sums.collect::<Vec<f64>>())
}

/// The parts of the time of a cell: activity, text of the legend, and colour. The colours are greys, because other colours
/// stand for filesystems or users of the CPU; the idle wait has the grey of the chart of throughput over time.
const TIME_PARTS: [(Activity, &str, Colour); 3] = [
    (Activity::Timed, "timed", theme::INK),
    (Activity::Lifecycle, "mkfs, mount, unmount", theme::MUTED),
    (Activity::Idle, "waiting until idle", theme::GREY),
];

/// The chart of the time of all cells of each variant: timed, lifecycle, idle wait and the rest.
pub fn time_spent_charts(context: &ChartContext) -> Vec<Chart> {
    let spent_s = |variant: usize, part: Activity| {
        let cells = context.record().cells.iter().filter(|cell| cell.variant == variant);
        cells.map(|cell| cell.spent_on(part)).sum::<u64>() as f64 / 1e9
    };
    let variants = context.variants_where(|variant| spent_s(variant, Activity::Total) > 0.0);
    if variants.is_empty() {
        return vec![];
    }
    let longest_s = variants.iter().map(|variant| spent_s(*variant, Activity::Total)).fold(0.0, f64::max);
    let x_axis = Axis::from_zero("time of all cells", longest_s * 1.2, Unit::Seconds);
    let bars = variants.iter().enumerate().map(|(row, variant)| time_bar(row, |part| spent_s(*variant, part)));
    let names = variants.iter().map(|variant| context.variant_name(*variant));
    let panel = Panel::with_rows("", x_axis, names, (60, 30), bars.flatten().collect());
    let mut legend: Vec<LegendKey> =
        (TIME_PARTS.iter()).map(|(_, label, colour)| LegendKey::new(*label, *colour, KeySign::Area(1.0))).collect();
    legend.push(LegendKey::new("other: preparing, booting guests, reading counters", theme::PAPER, KeySign::Area(1.0)));
    let caption = "The time of all cells of a variant, added up: what was timed, making and mounting filesystems, waiting \
                 until the machine was idle, and the rest. Sums are exact and have no interval.";
    vec![Chart { panels: vec![panel], legend, ..Chart::new("spent", "Where the time went", caption) }]
}

/// The bar of a variant in this row, counted from 0. `spent_s` returns the seconds that the variant spent on an activity.
fn time_bar(row: usize, spent_s: impl Fn(Activity) -> f64) -> Vec<Mark> {
    let parts = TIME_PARTS.map(|(part, _, colour)| (spent_s(part), colour));
    let sum_s: f64 = parts.iter().map(|(seconds, _)| seconds).sum();
    let total_s = spent_s(Activity::Total);
    let other = ((total_s - sum_s).max(0.0), theme::PAPER);
    let (mut marks, end) = stacked_bar(row, parts.into_iter().chain([other]));
    let timed = with_unit(100.0 * spent_s(Activity::Timed) / total_s, Unit::Percent);
    let text = format!("{}, {timed} timed", with_unit(total_s, Unit::Seconds));
    marks.push(Mark::text((end, Axis::row_centre(row)), (6, 0), text, theme::MUTED, Anchor::Start));
    marks
}
