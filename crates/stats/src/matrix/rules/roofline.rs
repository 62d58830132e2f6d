//! Against the bare device: above it something else answered (a cache); far below it the filesystem is
//! the limit.

use crate::matrix::contrast::{Contrast, Side};
use crate::matrix::limits::{ABOVE_DEVICE, BELOW_DEVICE};
use crate::{matrix::cells::At, matrix::rule::Rule, matrix::screen::Screen};

pub fn apply(screen: &mut Screen) {
    let places: Vec<At> =
        screen.matrix.places().filter(|at| !screen.matrix.variants[at.variant].raw).collect();
    for at in places {
        if let Some(raw) = screen.matrix.raw(at) {
            for (rule, side, limit) in [
                (Rule::AboveDevice, Side::Above, ABOVE_DEVICE),
                (Rule::BelowDevice, Side::Below, BELOW_DEVICE),
            ] {
                screen.attempt(rule, at, Some(raw), vec![Contrast::ratio(at, raw, side, limit)]);
            }
        } else if let Some(most) = screen.stated() {
            // A stated ceiling is what the device moves at best: nothing follows from being below it.
            let offset = (screen.matrix.sizes[at.size] as f64 / most).ln();
            let limit = ABOVE_DEVICE.ln();
            let test = Contrast { terms: vec![(at, 1.0)], offset, limit, side: Side::Above };
            screen.attempt(Rule::AboveDevice, at, None, vec![test]);
        }
    }
}
