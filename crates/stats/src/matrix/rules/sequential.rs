//! Sequential requests should not be slower than random ones: where they are, a lock or the allocator is
//! hot.

use crate::matrix::cells::{At, Order};
use crate::matrix::contrast::{Contrast, Side};
use crate::{matrix::limits::SEQUENTIAL, matrix::rule::Rule, matrix::screen::Screen};

pub fn apply(screen: &mut Screen) {
    let modes = &screen.matrix.modes;
    let direction = |mode: usize, order| modes[mode].kind.filter(|kind| kind.0 == order).map(|kind| kind.1);
    let pairs: Vec<(usize, usize)> = (0..modes.len())
        .flat_map(|seq| (0..modes.len()).map(move |rnd| (seq, rnd)))
        .filter(|(seq, rnd)| {
            let wanted = direction(*seq, Order::Sequential);
            wanted.is_some() && wanted == direction(*rnd, Order::Random)
        })
        .collect();
    let subjects: Vec<At> =
        screen.matrix.places().filter(|at| !screen.matrix.variants[at.variant].raw).collect();
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
