//! Who used the CPU: the process, in user and in kernel mode, and the filesystem's own threads; and time that the CPU
//! waited for I/O.

use crate::number::with_unit;
use crate::seen::{Seen, typical};
use crate::totals::{self, Total};
use crate::words::not_drawn;
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
    let mut rows: Vec<(usize, Vec<Mark>, f64)> = vec![];
    for variant in 0..seen.record().variants.len() {
        rows.extend(bar(&totals, variant, rows.len()));
    }
    let furthest = rows.iter().map(|(_, _, end)| *end).fold(0.0, f64::max);
    let drawn: Vec<usize> = rows.iter().map(|(variant, ..)| *variant).collect();
    let names: Vec<String> = rows.iter().map(|(variant, ..)| seen.name(*variant).to_string()).collect();
    let panel = Panel {
        title: String::new(),
        x: Axis::from_zero("CPU time over all tasks of a round", furthest * 1.15, Unit::Seconds),
        marks: rows.into_iter().flat_map(|(_, marks, _)| marks).collect(),
        y: Axis::names(&names),
        height: 60 + 30 * names.len() as u32,
    };
    let present = PARTS.iter().filter(|(id, ..)| totals.iter().any(|total| total.id == *id));
    let legend = present.map(|(_, words, share)| Key::new(*words, colour(*share), Sign::Area(1.0)));
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
fn bar(totals: &[Total], variant: usize, row: usize) -> Option<(usize, Vec<Mark>, f64)> {
    let row = row as f64;
    let mut marks = vec![];
    let (mut from, mut used) = (0.0, 0.0);
    for (id, _, share) in PARTS {
        let Some(total) = totals.iter().find(|total| total.id == id) else { continue };
        let Some(middle) = median(&total.values[variant]) else { continue };
        let length = if total.unit == Unit::Nanoseconds { middle / 1e9 } else { middle };
        marks.extend(Mark::edged((from, from + length), (-0.85 - row, -0.15 - row), colour(share)));
        from += length;
        if !share.is_nan() {
            used = from;
        }
    }
    if marks.is_empty() {
        return None;
    }
    let mut end = from;
    if let Some(typical) = in_all(totals, variant) {
        marks.push(Mark::Across { x: (typical.low, typical.high), y: -0.5 - row, beyond: None });
        end = end.max(typical.high);
    }
    marks.push(Mark::figure(-0.5 - row, with_unit(used, Unit::Seconds)));
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
