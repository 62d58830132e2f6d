//! Where the time of a run went: what was timed, and what it took to get there.

use crate::drawing::{Anchor, Axis, Chart, Colour, Key, Mark, Panel, Sign, theme};
use crate::number::with_unit;
use crate::seen::{Seen, stacked};
use fsarena_core::{event::SpentOn, sample::Unit};

/// The parts in their order: what it was spent on, in words, and colour. Greys, and the idle wait as grey as in the chart of the
/// run over time: colours mean filesystems, or who used the CPU.
const PARTS: [(SpentOn, &str, Colour); 3] = [
    (SpentOn::Timed, "timed", theme::INK),
    (SpentOn::Lifecycle, "mkfs, mount, unmount", theme::SOFT),
    (SpentOn::Idle, "waiting until idle", theme::SHADE),
];

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let spent = |variant: usize, part: SpentOn| {
        let cells = seen.record().cells.iter().filter(|cell| cell.variant == variant);
        cells.map(|cell| cell.spent_on(part)).sum::<u64>() as f64 / 1e9
    };
    let variants = seen.variants(|variant| spent(variant, SpentOn::Total) > 0.0);
    if variants.is_empty() {
        return vec![];
    }
    let most = variants.iter().map(|variant| spent(*variant, SpentOn::Total)).fold(0.0, f64::max);
    let x = Axis::from_zero("time of all cells", most * 1.2, Unit::Seconds);
    let bars = variants.iter().enumerate().map(|(row, variant)| bar(row, |part| spent(*variant, part)));
    let names = variants.iter().map(|variant| seen.name(*variant));
    let panel = Panel::rows("", x, names, (60, 30), bars.flatten().collect());
    let mut legend: Vec<Key> =
        (PARTS.iter()).map(|(_, words, colour)| Key::new(*words, *colour, Sign::Area(1.0))).collect();
    legend.push(Key::new("other: preparing, reading counters", theme::PAPER, Sign::Area(1.0)));
    let about = "The time of all cells of a variant, added up: what was timed, making and mounting filesystems, waiting \
                 until the machine was idle, and the rest. Sums are exact and have no interval.";
    vec![Chart { panels: vec![panel], legend, ..Chart::new("spent", "Where the time went", about) }]
}

/// The bar of a variant that spent `of` each part, in seconds.
fn bar(row: usize, of: impl Fn(SpentOn) -> f64) -> Vec<Mark> {
    let known = PARTS.map(|(name, _, colour)| (of(name), colour));
    let sum: f64 = known.iter().map(|(length, _)| length).sum();
    let other = [((of(SpentOn::Total) - sum).max(0.0), theme::PAPER)];
    let (mut marks, end) = stacked(row, known.into_iter().chain(other));
    let timed = with_unit(100.0 * of(SpentOn::Timed) / of(SpentOn::Total), Unit::Percent);
    let text = format!("{}, {timed} timed", with_unit(of(SpentOn::Total), Unit::Seconds));
    marks.push(Mark::words((end, Axis::slot(row)), (6, 0), text, theme::SOFT, Anchor::Start));
    marks
}
