//! More threads should not lose throughput.

use crate::matrix::contrast::{Contrast, Side};
use crate::{matrix::cells::At, matrix::limits::SCALING, matrix::rule::Rule, matrix::screen::Screen};

pub fn apply(screen: &mut Screen) {
    for (variant, mode) in screen.tables() {
        for size in 0..screen.matrix.sizes.len() {
            row(screen, &screen.matrix.along_threads(variant, mode, size));
        }
    }
}

/// A drop from one thread count to the next; further counts belong to it until the loss is made good.
fn row(screen: &mut Screen, cells: &[At]) {
    for i in 1..cells.len() {
        let peak = cells[i - 1];
        let tests =
            |screen: &Screen, at| screen.beside_device(Contrast::ratio(at, peak, Side::Below, SCALING));
        if screen.at_ceiling(cells[i]) {
            continue;
        }
        let first = tests(screen, cells[i]);
        if screen.attempt(Rule::ScalingCollapse, cells[i], Some(peak), first) {
            for &at in &cells[i + 1..] {
                let further = tests(screen, at);
                if !screen.extend(Rule::ScalingCollapse, at, peak, further) {
                    break;
                }
            }
        }
    }
}
