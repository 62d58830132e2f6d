//! Where the time of a run went: what was timed, and what it took to get there.

use crate::number::{three, with_unit};
use crate::seen::{Seen, stacked};
use fsarena_charts::{Anchor, Axis, Chart, Colour, Key, Mark, Panel, Sign, theme};
use fsarena_core::{record::TOTAL, sample::Unit};
use std::collections::BTreeMap;

/// The parts in their order: name in the store, in words, and colour. Greys, and the idle wait as grey as in the picture of the
/// run over time: colours mean filesystems, or who used the CPU.
const PARTS: [(&str, &str, Colour); 3] = [
    ("timed", "timed", theme::INK),
    ("lifecycle", "mkfs, mount, unmount", theme::SOFT),
    ("idle", "waiting until idle", theme::SHADE),
];

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let mut by_variant: BTreeMap<usize, BTreeMap<&str, f64>> = BTreeMap::new();
    for cell in &seen.record().cells {
        for (name, ns) in &cell.spent {
            *by_variant.entry(cell.variant).or_default().entry(name).or_default() += *ns as f64 / 1e9;
        }
    }
    by_variant.retain(|_, parts| parts.get(TOTAL).is_some_and(|total| *total > 0.0));
    if by_variant.is_empty() {
        return vec![];
    }
    let most = by_variant.values().map(|parts| parts[TOTAL]).fold(0.0, f64::max);
    let x = Axis::from_zero("time of all cells", most * 1.2, Unit::Seconds);
    let marks = by_variant.values().enumerate().flat_map(|(row, parts)| bar(row, parts)).collect();
    let panel = Panel::rows("", x, by_variant.keys().map(|variant| seen.name(*variant)), (60, 30), marks);
    let mut legend: Vec<Key> =
        (PARTS.iter()).map(|(_, words, colour)| Key::new(*words, *colour, Sign::Area(1.0))).collect();
    legend.push(Key::new("other: preparing, reading counters", theme::PAPER, Sign::Area(1.0)));
    let about = "The time of all cells of a variant, added up: what was timed, making and mounting filesystems, waiting \
                 until the machine was idle, and the rest. Sums are exact and have no interval.";
    vec![Chart { panels: vec![panel], legend, ..Chart::new("spent", "Where the time went", about) }]
}

fn bar(row: usize, parts: &BTreeMap<&str, f64>) -> Vec<Mark> {
    let of = |part: &str| parts.get(part).copied().unwrap_or(0.0);
    let known = PARTS.map(|(name, _, colour)| (of(name), colour));
    let sum: f64 = known.iter().map(|(length, _)| length).sum();
    let other = [((of(TOTAL) - sum).max(0.0), theme::PAPER)];
    let (mut marks, end) = stacked(row, known.into_iter().chain(other));
    let timed = 100.0 * of("timed") / of(TOTAL);
    let text = format!("{}, {}% timed", with_unit(of(TOTAL), Unit::Seconds), three(timed));
    marks.push(Mark::words((end, Axis::slot(row)), (6, 0), text, theme::SOFT, Anchor::Start));
    marks
}
