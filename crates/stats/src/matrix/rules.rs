//! The rules: those that look at one variant are here, those that compare variants have a file each.

mod monotone;
mod peers;
mod polish;
mod serialised;

use super::cells::{At, Order};
use super::contrast::{Contrast, Side};
use super::limits::{ABOVE_DEVICE, BELOW_DEVICE, SCALING, SEQUENTIAL};
use super::{rule::Rule, screen::Screen};

/// The rules that look at one variant (and the bare device).
pub fn within(screen: &mut Screen) {
    roofline(screen);
    sequential(screen);
    monotone::apply(screen);
    scaling(screen);
}

/// The rules that hold a variant against others. They come second: a cell that breaks a rule by itself is no
/// yardstick.
pub fn between(screen: &mut Screen) {
    serialised::apply(screen);
    peers::apply(screen);
    polish::apply(screen);
}

/// Against the bare device: above it something else answered (a cache); far below it the filesystem is
/// the limit.
fn roofline(screen: &mut Screen) {
    for at in screen.places() {
        if let Some(raw) = screen.matrix.raw(at) {
            for (rule, side, limit) in [
                (Rule::AboveDevice, Side::Above, ABOVE_DEVICE),
                (Rule::BelowDevice, Side::Below, BELOW_DEVICE),
            ] {
                screen.attempt(rule, at, Some(raw), vec![Contrast::ratio(at, raw, side, limit)]);
            }
        } else if let Some(most) = screen.device {
            // A stated ceiling is what the device moves at best: nothing follows from being below it.
            let offset = (screen.matrix.sizes[at.size] as f64 / most).ln();
            let limit = ABOVE_DEVICE.ln();
            let test = Contrast { terms: vec![(at, 1.0)], offset, limit, side: Side::Above };
            screen.attempt(Rule::AboveDevice, at, None, vec![test]);
        }
    }
}

/// Sequential requests should not be slower than random ones: where they are, a lock or the allocator is
/// hot.
fn sequential(screen: &mut Screen) {
    let modes = &screen.matrix.modes;
    let direction = |mode: usize, order| modes[mode].kind.filter(|kind| kind.0 == order).map(|kind| kind.1);
    let alike = |(seq, rnd): &(usize, usize)| {
        let wanted = direction(*seq, Order::Sequential);
        wanted.is_some() && wanted == direction(*rnd, Order::Random)
    };
    let pairs = (0..modes.len()).flat_map(|seq| (0..modes.len()).map(move |rnd| (seq, rnd)));
    let pairs: Vec<(usize, usize)> = pairs.filter(alike).collect();
    let subjects = screen.places();
    for (sequential, random) in pairs {
        for &at in subjects.iter().filter(|at| at.mode == sequential) {
            let random = At { mode: random, ..at };
            if screen.at_ceiling(at) {
                continue;
            }
            let tests = screen.beside_device(Contrast::ratio(at, random, Side::Below, SEQUENTIAL));
            screen.attempt(Rule::SequentialBelowRandom, at, Some(random), tests);
        }
    }
}

/// More threads should not lose throughput: a drop from one thread count to the next; further counts belong to it until the
/// loss is made good.
fn scaling(screen: &mut Screen) {
    for cells in screen.rows() {
        for i in 1..cells.len() {
            let peak = cells[i - 1];
            if !screen.at_ceiling(cells[i]) {
                screen.run(Rule::ScalingCollapse, &cells[i..], peak, |screen, at| {
                    screen.beside_device(Contrast::ratio(at, peak, Side::Below, SCALING))
                });
            }
        }
    }
}
