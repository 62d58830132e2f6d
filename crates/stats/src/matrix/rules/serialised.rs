//! No gain from threads although the device has more to give: something lets one thread through at a time.

use crate::matrix::cells::{At, Order};
use crate::matrix::contrast::{Contrast, Side};
use crate::matrix::limits::{GAIN, HEADROOM, RANGE};
use crate::{matrix::rule::Rule, matrix::screen::Screen};
use std::collections::BTreeSet;

pub fn apply(screen: &mut Screen) {
    let too_high = screen.too_high();
    for cells in screen.rows() {
        row(screen, &cells, &too_high);
    }
}

fn row(screen: &mut Screen, cells: &[At], too_high: &BTreeSet<At>) {
    let [first, later @ ..] = cells else { return };
    let Some(last) = later.last() else { return };
    let count = |at: &At| f64::from(screen.matrix.threads[at.threads]);
    if count(last) < RANGE * count(first) || cells.iter().any(|at| screen.at_ceiling(*at)) {
        return;
    }
    let (Some(best), Some(witness)) = (best(screen, later), witness(screen, *first, too_high)) else {
        return;
    };
    // Every later thread count must stay without gain; the witness must be ahead even of the best of them.
    let mut common = vec![Contrast::ratio(witness, best, Side::Above, HEADROOM)];
    common.extend(later.iter().map(|at| Contrast::ratio(*at, *first, Side::Below, GAIN)));
    for &at in later {
        // The cell's own distance from the witness comes first: it is the size of the flag.
        let mut tests = vec![Contrast::ratio(at, witness, Side::Below, 1.0 / HEADROOM)];
        tests.extend(common.iter().cloned());
        screen.attempt(Rule::Serialised, at, Some(witness), tests);
    }
}

fn best(screen: &Screen, cells: &[At]) -> Option<At> {
    let known = cells.iter().filter_map(|at| Some((*at, screen.matrix.iops(*at)?)));
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// The cell that shows what the device can do with this block size: the most of a row of the same
/// direction that itself gains from threads or reaches the device's ceiling. The rule asks about the bare device
/// first, then the variant itself in another mode, then the other variants. What random requests reach, sequential
/// ones could; the reverse says nothing, for a disk with one head.
fn witness(screen: &Screen, subject: At, too_high: &BTreeSet<At>) -> Option<At> {
    let kind = screen.matrix.modes[subject.mode].kind;
    let usable = |mode: usize| {
        let other = screen.matrix.modes[mode].kind;
        mode == subject.mode
            || matches!((kind, other), (Some((order, direction)), Some((theirs, way)))
                if direction == way && (order == Order::Sequential || theirs == Order::Random))
    };
    let bests = |variant: usize| {
        let modes = (0..screen.matrix.modes.len()).filter(|mode| usable(*mode));
        let rows = modes.filter(|mode| (variant, *mode) != (subject.variant, subject.mode));
        rows.filter_map(|mode| {
            sound_best(screen, &screen.matrix.along_threads(variant, mode, subject.size), too_high)
        })
        .collect::<Vec<_>>()
    };
    let own = best(screen, &screen.matrix.along_threads(subject.variant, subject.mode, subject.size))?;
    let ahead = |at: &At| screen.matrix.iops(*at) > screen.matrix.iops(own).map(|most| HEADROOM * most);
    let variants = &screen.matrix.variants;
    let rank = |variant: &usize| (!variants[*variant].raw, *variant != subject.variant);
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_by_key(rank);
    order
        .chunk_by(|a, b| rank(a) == rank(b))
        .filter_map(|tier| best(screen, &tier.iter().flat_map(|variant| bests(*variant)).collect::<Vec<_>>()))
        .find(ahead)
}

/// The best cell of a row in which nothing is too high to be the device, where the row gains or the cell is at the ceiling.
fn sound_best(screen: &Screen, cells: &[At], too_high: &BTreeSet<At>) -> Option<At> {
    if cells.iter().any(|at| too_high.contains(at)) {
        return None;
    }
    let best = best(screen, cells)?;
    let gains = Contrast::ratio(best, cells[0], Side::Above, GAIN).outcome(screen.matrix)?.beyond;
    (gains || screen.at_ceiling(best)).then_some(best)
}
