//! Who used the CPU: the process, in user and in kernel mode, and the filesystem's own threads; and time that the CPU
//! waited for I/O.

use crate::drawing::{Axis, Chart, Colour, Key, Mark, Panel, Sign, theme};
use crate::number::with_unit;
use crate::seen::{Seen, stacked};
use fsarena_core::observations::{ReadingTotal, reading_totals};
use fsarena_core::sample::Unit;
use fsarena_stats::{comparison::median, ratio::Ratio};

/// The parts: name of the metric, what it is, and its place on the scale of heat maps. Colours of filesystems mean
/// filesystems, so these are others.
const PARTS: [(&str, &str, f64); 4] = [
    ("user", "process, user mode", 0.95),
    ("system", "process, in the kernel", 0.7),
    ("background_cpu", "kernel threads and the rest of the machine", 0.42),
    ("iowait_ns", "CPU idle, waiting for I/O", f64::NAN),
];

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let totals = reading_totals(seen.record(), &PARTS.map(|(id, ..)| id));
    if !totals.iter().any(|total| total.id == "system") {
        return vec![];
    }
    let has = |variant: usize| totals.iter().any(|total| median(&total.values[variant]).is_some());
    let drawn = seen.variants(has);
    let bars: Vec<_> = drawn.iter().enumerate().map(|(row, variant)| bar(&totals, *variant, row)).collect();
    let furthest = bars.iter().map(|(_, end)| *end).fold(0.0, f64::max);
    let x = Axis::from_zero("CPU time over all tasks of a round", furthest * 1.15, Unit::Seconds);
    let marks = bars.into_iter().flat_map(|(marks, _)| marks).collect();
    let panel = Panel::rows("", x, drawn.iter().map(|variant| seen.name(*variant)), (60, 30), marks);
    let present = PARTS.iter().filter(|(id, ..)| totals.iter().any(|total| total.id == *id));
    let key = |(_, words, share): &(_, &str, f64)| Key::new(*words, colour(*share), Sign::Area(1.0));
    let legend = present.map(key).collect();
    let about = "CPU time over all tasks, medians over rounds, until the data was on the device: of the process \
                 itself, and of everything beyond it, which is the filesystem's journal, writeback and checksum \
                 threads and whatever else ran. Waiting for I/O is idle time, shown for its length. Whiskers are \
                 95% intervals of the CPU time in all (under 8 rounds the extremes seen), none where one round has it.";
    let about = format!("{about}{}", seen.not_drawn(&drawn, "no CPU time was read"));
    vec![Chart { panels: vec![panel], legend, ..Chart::new("cpu", "Who used the CPU", about) }]
}

fn colour(share: f64) -> Colour {
    if share.is_nan() { theme::GRID } else { Colour::heat(share) }
}

/// The parts of one variant in a row, and where they end.
fn bar(totals: &[ReadingTotal], variant: usize, row: usize) -> (Vec<Mark>, f64) {
    let lengths = PARTS.map(|(id, _, share)| {
        let total = totals.iter().find(|total| total.id == id)?;
        let middle = median(&total.values[variant])?;
        Some((if total.unit == Unit::Nanoseconds { middle / 1e9 } else { middle }, share))
    });
    let used = lengths.iter().flatten().filter(|(_, share)| !share.is_nan()).map(|(length, _)| length).sum();
    let parts = lengths.into_iter().flatten().map(|(length, share)| (length, colour(share)));
    let (mut marks, mut end) = stacked(row, parts);
    let y = Axis::slot(row);
    if let Some(typical) = in_all(totals, variant) {
        marks.push(Mark::Across { x: (typical.low, typical.high), y, beyond: None });
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
