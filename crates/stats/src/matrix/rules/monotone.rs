//! Along the block-size axis bandwidth should not fall and operations a second should not rise: a larger
//! request does no less work than a smaller one, and costs no less.

use crate::matrix::contrast::{Contrast, Side};
use crate::{matrix::cells::At, matrix::limits::MONOTONE, matrix::rule::Rule, matrix::screen::Screen};

pub fn apply(screen: &mut Screen) {
    for (variant, mode) in screen.tables() {
        let columns = screen.columns(variant, mode);
        for column in &columns {
            iops_rise(screen, column);
        }
        bandwidth_falls(screen, &columns);
    }
}

/// The cells below a rise are the odd ones: smaller blocks than theirs are held against the cell above it
/// too, as far as they stay under it.
fn iops_rise(screen: &mut Screen, column: &[At]) {
    for i in 1..column.len() {
        let above = column[i];
        // Written as the smaller block's share of the larger one's, so that flags of one rule compare.
        screen.run(Rule::IopsRise, column[..i].iter().rev(), above, |screen, at| {
            screen.beside_device(Contrast::ratio(at, above, Side::Below, MONOTONE))
        });
    }
}

/// A fall has two sides, and either may be the odd one: too low after it, or too high before it (answered
/// by a cache). The side that is further from anything else in the same cells is flagged; without others,
/// the low one.
fn bandwidth_falls(screen: &mut Screen, columns: &[Vec<At>]) {
    for size in 0..screen.matrix.sizes.len() {
        let found: Vec<(&[At], usize)> = columns
            .iter()
            .filter_map(|column| {
                let i = column.iter().skip(1).position(|at| at.size == size)? + 1;
                (!screen.at_ceiling(column[i])).then_some((column.as_slice(), i))
            })
            .collect();
        let odd = |offset: usize| {
            let breaks =
                |contrast: Contrast| contrast.outcome(screen.matrix).is_some_and(|outcome| outcome.beyond);
            let falls = found.iter().filter(|(column, i)| breaks(falls(screen, column[*i], column[*i - 1])));
            falls.filter_map(|(column, i)| distance(screen, column[*i - offset])).sum::<f64>()
        };
        let high = odd(1) > odd(0);
        for (column, i) in found {
            let (before, after) = (column[i - 1], column[i]);
            if high {
                screen.run(Rule::BandwidthFalls, column[..i].iter().rev(), after, |screen, at| {
                    let test = Contrast::bandwidth(screen.matrix, at, after, Side::Above, 1.0 / MONOTONE);
                    screen.beside_device(test)
                });
            } else {
                screen.run(Rule::BandwidthFalls, &column[i..], before, |screen, at| {
                    screen.beside_device(falls(screen, at, before))
                });
            }
        }
    }
}

/// A cell's bandwidth, which should not be below that of the cell before it.
fn falls(screen: &Screen, at: At, before: At) -> Contrast {
    Contrast::bandwidth(screen.matrix, at, before, Side::Below, MONOTONE)
}

/// How far a cell is from the nearest other in the same place: from the bare device where that was
/// measured, else from the nearest variant. A logarithm.
fn distance(screen: &Screen, at: At) -> Option<f64> {
    let own = screen.matrix.iops(at)?.ln();
    let far = |other: At| Some((own - screen.matrix.iops(other)?.ln()).abs());
    if let Some(raw) = screen.matrix.raw(at) {
        return far(raw);
    }
    let others = screen.subjects().into_iter().filter(|variant| *variant != at.variant);
    others.filter_map(|variant| far(At { variant, ..at })).min_by(f64::total_cmp)
}
