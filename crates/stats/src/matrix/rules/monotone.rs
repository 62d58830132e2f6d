//! Along the block-size axis bandwidth should not fall and operations a second should not rise: a larger
//! request does no less work than a smaller one, and costs no less.

use crate::matrix::contrast::{Contrast, Side};
use crate::{matrix::cells::At, matrix::limits::MONOTONE, matrix::rule::Rule, matrix::screen::Screen};

pub fn apply(screen: &mut Screen) {
    for (variant, mode) in screen.tables() {
        let columns: Vec<Vec<At>> = (0..screen.matrix.threads.len())
            .map(|threads| screen.matrix.along_size(variant, mode, threads))
            .collect();
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
        let tests = |screen: &Screen, at| {
            // Written as the smaller block's share of the larger one's, so that flags of one rule compare.
            screen.beside_device(Contrast::ratio(at, above, Side::Below, MONOTONE))
        };
        let first = tests(screen, column[i - 1]);
        if screen.attempt(Rule::IopsRise, column[i - 1], Some(above), first) {
            for &at in column[..i - 1].iter().rev() {
                let further = tests(screen, at);
                if !screen.extend(Rule::IopsRise, at, above, further) {
                    break;
                }
            }
        }
    }
}

/// A fall has two sides, and either may be the odd one: too low after it, or too high before it (answered
/// by a cache). The side that is further from anything else in the same cells is flagged; without others,
/// the low one.
fn bandwidth_falls(screen: &mut Screen, columns: &[Vec<At>]) {
    for size in 0..screen.matrix.sizes.len() {
        let falls: Vec<(&[At], usize)> = columns
            .iter()
            .filter_map(|column| {
                let i = column.iter().skip(1).position(|at| at.size == size)? + 1;
                (!screen.at_ceiling(column[i])).then_some((column.as_slice(), i))
            })
            .collect();
        let odd = |offset: usize| {
            let falls = falls.iter().filter(|(column, i)| falls_at(screen, column[*i], column[*i - 1]));
            falls.filter_map(|(column, i)| distance(screen, column[*i - offset])).sum::<f64>()
        };
        let high = odd(1) > odd(0);
        for (column, i) in falls {
            if high { flag_high(screen, column, i) } else { flag_low(screen, column, i) }
        }
    }
}

fn falls_at(screen: &Screen, after: At, before: At) -> bool {
    Contrast::bandwidth(screen.matrix, after, before, Side::Below, MONOTONE)
        .outcome(screen.matrix)
        .is_some_and(|outcome| outcome.beyond)
}

fn flag_low(screen: &mut Screen, column: &[At], i: usize) {
    let before = column[i - 1];
    let tests = |screen: &Screen, at| {
        screen.beside_device(Contrast::bandwidth(screen.matrix, at, before, Side::Below, MONOTONE))
    };
    let first = tests(screen, column[i]);
    if screen.attempt(Rule::BandwidthFalls, column[i], Some(before), first) {
        for &at in &column[i + 1..] {
            let further = tests(screen, at);
            if !screen.extend(Rule::BandwidthFalls, at, before, further) {
                break;
            }
        }
    }
}

fn flag_high(screen: &mut Screen, column: &[At], i: usize) {
    let after = column[i];
    let tests = |screen: &Screen, at| {
        screen.beside_device(Contrast::bandwidth(screen.matrix, at, after, Side::Above, 1.0 / MONOTONE))
    };
    let first = tests(screen, column[i - 1]);
    if screen.attempt(Rule::BandwidthFalls, column[i - 1], Some(after), first) {
        for &at in column[..i - 1].iter().rev() {
            let further = tests(screen, at);
            if !screen.extend(Rule::BandwidthFalls, at, after, further) {
                break;
            }
        }
    }
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
