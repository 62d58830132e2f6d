//! Variants against each other in the same mode. A variant whose own cell breaks a rule cannot be the yardstick there.

use crate::matrix::contrast::{Contrast, Side};
use crate::matrix::limits::{BEHIND, CLIFF};
use crate::{matrix::cells::At, matrix::rule::Rule, matrix::screen::Screen};
use std::collections::BTreeSet;

pub fn apply(screen: &mut Screen) {
    let suspects = screen.suspects();
    for at in screen.places() {
        behind(screen, at, &suspects);
    }
    for (variant, mode) in screen.tables() {
        for column in screen.columns(variant, mode) {
            for i in 1..column.len() {
                cliff(screen, &column, i, &suspects);
            }
        }
    }
}

/// The other variants with sound values in all the given cells, the least of them first.
fn peers(screen: &Screen, cells: &[At], suspects: &BTreeSet<At>) -> Vec<usize> {
    let sound = |at: At| !suspects.contains(&at) && screen.matrix.iops(at).is_some();
    let usable = |variant: &usize| {
        *variant != cells[0].variant && cells.iter().all(|at| sound(At { variant: *variant, ..*at }))
    };
    let mut variants: Vec<usize> = screen.subjects().into_iter().filter(usable).collect();
    let first =
        |variant: &usize| screen.matrix.iops(At { variant: *variant, ..cells[0] }).unwrap_or(f64::INFINITY);
    variants.sort_by(|a, b| first(a).total_cmp(&first(b)));
    variants
}

/// Far behind every sound peer. Reported against the nearest of them.
fn behind(screen: &mut Screen, at: At, suspects: &BTreeSet<At>) {
    let peers = peers(screen, &[at], suspects);
    let test = |variant: &usize| Contrast::ratio(at, At { variant: *variant, ..at }, Side::Below, BEHIND);
    if let Some(nearest) = peers.first() {
        let tests = peers.iter().map(test).collect();
        screen.attempt(Rule::FarBehind, at, Some(At { variant: *nearest, ..at }), tests);
    }
}

/// From column[i] to the next smaller block size the variant loses more of its share of every sound peer's
/// throughput than the smaller blocks explain. Still smaller blocks belong to it as long as the share
/// stays below that.
fn cliff(screen: &mut Screen, column: &[At], i: usize, suspects: &BTreeSet<At>) {
    let edge = column[i];
    let size = |at: At| screen.matrix.sizes[at.size] as f64;
    let limit = (CLIFF * size(column[i - 1]) / size(edge)).ln();
    screen.run(Rule::Cliff, column[..i].iter().rev(), edge, |screen, at| {
        let share = |variant: usize| {
            let (theirs, theirs_at_edge) = (At { variant, ..at }, At { variant, ..edge });
            let terms = vec![(at, 1.0), (edge, -1.0), (theirs, -1.0), (theirs_at_edge, 1.0)];
            Contrast { terms, offset: 0.0, limit, side: Side::Below }
        };
        peers(screen, &[at, edge], suspects).into_iter().map(share).collect()
    });
}
