//! Where CPU time and the time of the run went, for each variant.

use crate::chart_context::{ChartContext, stacked_bar};
use crate::drawing::{Anchor, Axis, Chart, Colour, Key, Mark, Panel, Sign, theme};
use crate::number::with_unit;
use fsarena_core::observations::{ReadingTotal, reading_totals};
use fsarena_core::{event::SpentOn, sample::Unit};
use fsarena_stats::{comparison::median, ratio::Ratio};

/// The parts: name of the metric, what it is, and its place on the scale of heat maps. Colours of filesystems mean
/// filesystems, so these are others.
const CPU_PARTS: [(&str, &str, f64); 4] = [
    ("user", "process, user mode", 0.95),
    ("system", "process, in the kernel", 0.7),
    ("background_cpu", "kernel threads and the rest of the machine", 0.42),
    ("iowait_ns", "CPU idle, waiting for I/O", f64::NAN),
];

/// Who used the CPU: the process in user and kernel mode, and everything beside it.
pub fn cpu_charts(context: &ChartContext) -> Vec<Chart> {
    let totals = reading_totals(context.record(), &CPU_PARTS.map(|(id, ..)| id));
    if !totals.iter().any(|total| total.id == "system") {
        return vec![];
    }
    let has = |variant: usize| totals.iter().any(|total| median(&total.values[variant]).is_some());
    let drawn = context.variants(has);
    let bars: Vec<_> =
        drawn.iter().enumerate().map(|(row, variant)| cpu_bar(&totals, *variant, row)).collect();
    let furthest = bars.iter().map(|(_, end)| *end).fold(0.0, f64::max);
    let x = Axis::from_zero("CPU time over all tasks of a round", furthest * 1.15, Unit::Seconds);
    let marks = bars.into_iter().flat_map(|(marks, _)| marks).collect();
    let panel = Panel::rows("", x, drawn.iter().map(|variant| context.name(*variant)), (60, 30), marks);
    let present = CPU_PARTS.iter().filter(|(id, ..)| totals.iter().any(|total| total.id == *id));
    let key = |(_, words, share): &(_, &str, f64)| Key::new(*words, part_colour(*share), Sign::Area(1.0));
    let legend = present.map(key).collect();
    let about = "CPU time over all tasks, medians over rounds, until the data was on the device: of the process \
                 itself, and of everything beyond it, which is the filesystem's journal, writeback and checksum \
                 threads and whatever else ran. Waiting for I/O is idle time, shown for its length. Whiskers are \
                 95% intervals of the CPU time in all (under 8 rounds the extremes seen), none where one round has it.";
    let about = format!("{about}{}", context.not_drawn(&drawn, "no CPU time was read"));
    vec![Chart { panels: vec![panel], legend, ..Chart::new("cpu", "Who used the CPU", about) }]
}

fn part_colour(share: f64) -> Colour {
    if share.is_nan() { theme::GRID } else { Colour::heat(share) }
}

/// The parts of one variant in a row, and where they end.
fn cpu_bar(totals: &[ReadingTotal], variant: usize, row: usize) -> (Vec<Mark>, f64) {
    let lengths = CPU_PARTS.map(|(id, _, share)| {
        let total = totals.iter().find(|total| total.id == id)?;
        let middle = median(&total.values[variant])?;
        Some((if total.unit == Unit::Nanoseconds { middle / 1e9 } else { middle }, share))
    });
    let used = lengths.iter().flatten().filter(|(_, share)| !share.is_nan()).map(|(length, _)| length).sum();
    let parts = lengths.into_iter().flatten().map(|(length, share)| (length, part_colour(share)));
    let (mut marks, mut end) = stacked_bar(row, parts);
    let y = Axis::slot(row);
    if let Some(typical) = in_all(totals, variant) {
        marks.push(Mark::HorizontalInterval { x: (typical.low, typical.high), y, beyond: None });
        end = end.max(typical.high);
    }
    marks.push(Mark::figure(y, with_unit(used, Unit::Seconds)));
    (marks, end)
}

/// The typical sum of what was used, over rounds that have all parts.
fn in_all(totals: &[ReadingTotal], variant: usize) -> Option<Ratio> {
    let used = totals.iter().filter(|total| total.id != "iowait_ns");
    let used: Vec<&Vec<f64>> = used.map(|total| &total.values[variant]).collect();
    let rounds = used.iter().map(|values| values.len()).min()?;
    let sums = (0..rounds).map(|round| used.iter().map(|values| values[round]).sum::<f64>());
    Ratio::typical(&sums.collect::<Vec<f64>>())
}

/// The parts in their order: name in the store, in words, and colour. Greys, and the idle wait as grey as in the chart of the
/// run over time: colours mean filesystems, or who used the CPU.
const TIME_PARTS: [(SpentOn, &str, Colour); 3] = [
    (SpentOn::Timed, "timed", theme::INK),
    (SpentOn::Lifecycle, "mkfs, mount, unmount", theme::SOFT),
    (SpentOn::Idle, "waiting until idle", theme::SHADE),
];

/// The time of all cells of each variant: timed, lifecycle, idle wait and the rest.
pub fn time_spent_charts(context: &ChartContext) -> Vec<Chart> {
    let spent = |variant: usize, part: SpentOn| {
        let cells = context.record().cells.iter().filter(|cell| cell.variant == variant);
        cells.map(|cell| cell.spent_on(part)).sum::<u64>() as f64 / 1e9
    };
    let variants = context.variants(|variant| spent(variant, SpentOn::Total) > 0.0);
    if variants.is_empty() {
        return vec![];
    }
    let most = variants.iter().map(|variant| spent(*variant, SpentOn::Total)).fold(0.0, f64::max);
    let x = Axis::from_zero("time of all cells", most * 1.2, Unit::Seconds);
    let bars = variants.iter().enumerate().map(|(row, variant)| time_bar(row, |part| spent(*variant, part)));
    let names = variants.iter().map(|variant| context.name(*variant));
    let panel = Panel::rows("", x, names, (60, 30), bars.flatten().collect());
    let mut legend: Vec<Key> =
        (TIME_PARTS.iter()).map(|(_, words, colour)| Key::new(*words, *colour, Sign::Area(1.0))).collect();
    legend.push(Key::new("other: preparing, reading counters", theme::PAPER, Sign::Area(1.0)));
    let about = "The time of all cells of a variant, added up: what was timed, making and mounting filesystems, waiting \
                 until the machine was idle, and the rest. Sums are exact and have no interval.";
    vec![Chart { panels: vec![panel], legend, ..Chart::new("spent", "Where the time went", about) }]
}

/// The bar of a variant that spent `of` each part, in seconds.
fn time_bar(row: usize, of: impl Fn(SpentOn) -> f64) -> Vec<Mark> {
    let known = TIME_PARTS.map(|(name, _, colour)| (of(name), colour));
    let sum: f64 = known.iter().map(|(length, _)| length).sum();
    let other = [((of(SpentOn::Total) - sum).max(0.0), theme::PAPER)];
    let (mut marks, end) = stacked_bar(row, known.into_iter().chain(other));
    let timed = with_unit(100.0 * of(SpentOn::Timed) / of(SpentOn::Total), Unit::Percent);
    let text = format!("{}, {timed} timed", with_unit(of(SpentOn::Total), Unit::Seconds));
    marks.push(Mark::words((end, Axis::slot(row)), (6, 0), text, theme::SOFT, Anchor::Start));
    marks
}
