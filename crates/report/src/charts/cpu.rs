//! Who used the CPU: the process, in user and in kernel mode, and the filesystem's own threads; and time that the CPU
//! waited for I/O.

use super::{Seen, not_drawn, typical};
use crate::number::with_unit;
use crate::sections::totals::{self, Total};
use fsarena_charts::colour::{Colour, theme};
use fsarena_charts::{Axis, Chart, Key, Mark, Panel, Sign};
use fsarena_core::sample::Unit;
use fsarena_stats::comparison::median;
use fsarena_stats::ratio::Ratio;

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
    let totals = totals::of(seen.record(), &PARTS.map(|(id, ..)| id));
    if !totals.iter().any(|total| total.id == "system") {
        return vec![];
    }
    let rows: Vec<(usize, Vec<Mark>, f64)> =
        (0..seen.record().variants.len()).filter_map(|variant| bar(&totals, variant)).collect();
    let furthest = rows.iter().map(|(_, _, end)| *end).fold(0.0, f64::max);
    let drawn: Vec<usize> = rows.iter().map(|(variant, ..)| *variant).collect();
    let names: Vec<String> = rows.iter().map(|(variant, ..)| seen.name(*variant).to_string()).collect();
    let marks = rows
        .into_iter()
        .enumerate()
        .flat_map(|(row, (_, marks, _))| marks.into_iter().map(move |mark| lowered(mark, row)));
    let panel = Panel {
        title: String::new(),
        x: Axis::from_zero("CPU time over all tasks of a round", furthest * 1.15, Unit::Seconds),
        marks: marks.collect(),
        y: Axis::names(&names),
        height: 60 + 30 * names.len() as u32,
    };
    let present = PARTS.iter().filter(|(id, ..)| totals.iter().any(|total| total.id == *id));
    let legend = present.map(|(_, words, share)| Key {
        label: words.to_string(),
        colour: colour(*share),
        sign: Sign::Area(1.0),
    });
    let about = "CPU time over all tasks, medians over rounds, until the data was on the device: of the process \
                 itself, and of everything beyond it, which is the filesystem's journal, writeback and checksum \
                 threads and whatever else ran. Waiting for I/O is idle time, shown for its length. Whiskers are \
                 95% intervals of the CPU time in all (under 8 rounds the extremes seen), none where one round has it.";
    let about = format!("{about}{}", not_drawn(&seen.others(&drawn), "no CPU time was read"));
    vec![Chart {
        panels: vec![panel],
        legend: legend.collect(),
        ..Chart::new("cpu", "Who used the CPU", about)
    }]
}

fn colour(share: f64) -> Colour {
    if share.is_nan() { theme::GRID } else { Colour::heat(share) }
}

/// The parts of one variant, in the first row, and where they end. None for a variant without any.
fn bar(totals: &[Total], variant: usize) -> Option<(usize, Vec<Mark>, f64)> {
    let mut marks = vec![];
    let (mut from, mut used) = (0.0, 0.0);
    for (id, _, share) in PARTS {
        let Some(total) = totals.iter().find(|total| total.id == id) else { continue };
        let Some(middle) = median(&total.values[variant]) else { continue };
        let length = if total.unit == Unit::Nanoseconds { middle / 1e9 } else { middle };
        marks.extend(Mark::edged((from, from + length), (-0.85, -0.15), colour(share)));
        from += length;
        if !share.is_nan() {
            used = from;
        }
    }
    if marks.is_empty() {
        return None;
    }
    let (mut end, mut whisker) = (from, None);
    if let Some(typical) = in_all(totals, variant) {
        marks.push(Mark::Across { x: (typical.low, typical.high), y: -0.5, beyond: None });
        whisker = Some(typical.high);
        end = end.max(typical.high);
    }
    marks.push(Mark::Figure {
        at: (from, -0.5),
        whisker,
        text: with_unit(used, Unit::Seconds),
        colour: theme::SOFT,
        strong: false,
    });
    Some((variant, marks, end))
}

/// The typical sum of what was used, over rounds that have all parts.
fn in_all(totals: &[Total], variant: usize) -> Option<Ratio> {
    let used: Vec<&Vec<f64>> =
        totals.iter().filter(|total| total.id != "iowait_ns").map(|total| &total.values[variant]).collect();
    let rounds = used.iter().map(|values| values.len()).min()?;
    let sums = (0..rounds).map(|round| used.iter().map(|values| values[round]).sum::<f64>());
    typical(&sums.collect::<Vec<f64>>())
}

/// A mark of the first row, moved to another.
fn lowered(mark: Mark, row: usize) -> Mark {
    let down = row as f64;
    match mark {
        Mark::Box { x, y, colour, opacity } => Mark::Box { x, y: (y.0 - down, y.1 - down), colour, opacity },
        Mark::Across { x, y, beyond } => Mark::Across { x, y: y - down, beyond },
        Mark::Line { points, colour, width, dash } => {
            let points = points.into_iter().map(|(x, y)| (x, y - down)).collect();
            Mark::Line { points, colour, width, dash }
        }
        Mark::Figure { at, whisker, text, colour, strong } => {
            Mark::Figure { at: (at.0, at.1 - down), whisker, text, colour, strong }
        }
        other => other,
    }
}
