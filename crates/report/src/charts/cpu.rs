//! Charts of the CPU time by user, and of the time of the run by activity, for each variant.

use crate::chart_context::{ChartContext, stacked_bar};
use crate::drawing::{Anchor, Axis, Chart, Colour, KeySign, LegendKey, Mark, Panel, theme};
use crate::number::with_unit;
use fsarena_core::observations::{ReadingTotal, reading_totals};
use fsarena_core::{event::SpentOn, sample::Unit};
use fsarena_stats::{comparison::median, ratio::Ratio};

/// The parts of the CPU time: id of the metric, text of the legend, and position on the colour scale of heat maps, whose
/// colours differ from those of filesystems. NaN stands for grey.
const CPU_PARTS: [(&str, &str, f64); 4] = [
    ("user", "process, user mode", 0.95),
    ("system", "process, in the kernel", 0.7),
    ("background_cpu", "kernel threads and the rest of the machine", 0.42),
    ("iowait_ns", "CPU idle, waiting for I/O", f64::NAN),
];

/// The chart of CPU time: of the process in user and kernel mode, and of everything else.
pub fn cpu_charts(context: &ChartContext) -> Vec<Chart> {
    let totals = reading_totals(context.record(), &CPU_PARTS.map(|(id, ..)| id));
    if !totals.iter().any(|total| total.id == "system") {
        return vec![];
    }
    let has_value = |variant: usize| totals.iter().any(|total| median(&total.values[variant]).is_some());
    let drawn = context.variants(has_value);
    let bars: Vec<_> = drawn.iter().enumerate().map(|(row, variant)| cpu_bar(&totals, *variant, row)).collect();
    let furthest = bars.iter().map(|(_, end)| *end).fold(0.0, f64::max);
    let x = Axis::from_zero("CPU time over all tasks of a round", furthest * 1.15, Unit::Seconds);
    let marks = bars.into_iter().flat_map(|(marks, _)| marks).collect();
    let panel = Panel::with_rows("", x, drawn.iter().map(|variant| context.name(*variant)), (60, 30), marks);
    let present = CPU_PARTS.iter().filter(|(id, ..)| totals.iter().any(|total| total.id == *id));
    let key = |(_, label, heat_position): &(_, &str, f64)| {
        LegendKey::new(*label, part_colour(*heat_position), KeySign::Area(1.0))
    };
    let legend = present.map(key).collect();
    let about = "The CPU time of all tasks until the data was on the device, as the median over rounds. One part is the \
                 process itself. The other is everything else that ran, such as the filesystem's journal, writeback and \
                 checksum threads. Waiting for I/O is idle time. The bar shows how long it was, but the total leaves it \
                 out. Whiskers are \
                 95% intervals of the whole CPU time (with fewer than 8 rounds, the smallest and the largest value; \
                 with one round, none).";
    let about = format!("{about}{}", context.not_drawn_note(&drawn, "no CPU time was read"));
    vec![Chart { panels: vec![panel], legend, ..Chart::new("cpu", "Who used the CPU", about) }]
}

fn part_colour(heat_position: f64) -> Colour {
    if heat_position.is_nan() { theme::GRID } else { Colour::on_heat_scale(heat_position) }
}

/// The marks of one variant's bar, and the coordinate of its right end, including the interval.
fn cpu_bar(totals: &[ReadingTotal], variant: usize, row: usize) -> (Vec<Mark>, f64) {
    let lengths = CPU_PARTS.map(|(id, _, heat_position)| {
        let total = totals.iter().find(|total| total.id == id)?;
        let middle = median(&total.values[variant])?;
        Some((if total.unit == Unit::Nanoseconds { middle / 1e9 } else { middle }, heat_position))
    });
    let used_s =
        lengths.iter().flatten().filter(|(_, heat_position)| !heat_position.is_nan()).map(|(length, _)| length).sum();
    let parts = lengths.into_iter().flatten().map(|(length, heat_position)| (length, part_colour(heat_position)));
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
const TIME_PARTS: [(SpentOn, &str, Colour); 3] = [
    (SpentOn::Timed, "timed", theme::INK),
    (SpentOn::Lifecycle, "mkfs, mount, unmount", theme::MUTED),
    (SpentOn::Idle, "waiting until idle", theme::GREY),
];

/// The chart of the time of all cells of each variant: timed, lifecycle, idle wait and the rest.
pub fn time_spent_charts(context: &ChartContext) -> Vec<Chart> {
    let spent = |variant: usize, part: SpentOn| {
        let cells = context.record().cells.iter().filter(|cell| cell.variant == variant);
        cells.map(|cell| cell.spent_on(part)).sum::<u64>() as f64 / 1e9
    };
    let variants = context.variants(|variant| spent(variant, SpentOn::Total) > 0.0);
    if variants.is_empty() {
        return vec![];
    }
    let longest = variants.iter().map(|variant| spent(*variant, SpentOn::Total)).fold(0.0, f64::max);
    let x = Axis::from_zero("time of all cells", longest * 1.2, Unit::Seconds);
    let bars = variants.iter().enumerate().map(|(row, variant)| time_bar(row, |part| spent(*variant, part)));
    let names = variants.iter().map(|variant| context.name(*variant));
    let panel = Panel::with_rows("", x, names, (60, 30), bars.flatten().collect());
    let mut legend: Vec<LegendKey> =
        (TIME_PARTS.iter()).map(|(_, label, colour)| LegendKey::new(*label, *colour, KeySign::Area(1.0))).collect();
    legend.push(LegendKey::new("other: preparing, reading counters", theme::PAPER, KeySign::Area(1.0)));
    let about = "The time of all cells of a variant, added up: what was timed, making and mounting filesystems, waiting \
                 until the machine was idle, and the rest. Sums are exact and have no interval.";
    vec![Chart { panels: vec![panel], legend, ..Chart::new("spent", "Where the time went", about) }]
}

/// The bar of a variant. `seconds` returns the time that it spent on a part.
fn time_bar(row: usize, seconds: impl Fn(SpentOn) -> f64) -> Vec<Mark> {
    let parts = TIME_PARTS.map(|(part, _, colour)| (seconds(part), colour));
    let sum: f64 = parts.iter().map(|(length, _)| length).sum();
    let total = seconds(SpentOn::Total);
    let other = ((total - sum).max(0.0), theme::PAPER);
    let (mut marks, end) = stacked_bar(row, parts.into_iter().chain([other]));
    let timed = with_unit(100.0 * seconds(SpentOn::Timed) / total, Unit::Percent);
    let text = format!("{}, {timed} timed", with_unit(total, Unit::Seconds));
    marks.push(Mark::text((end, Axis::row_centre(row)), (6, 0), text, theme::MUTED, Anchor::Start));
    marks
}
