//! The interaction of block size and threads: residuals of Tukey's median polish (1977,
//! "Exploratory Data Analysis", chapter 11) on ln throughput.
//!
//! It skips cells at the device's ceiling and cells that another rule has explained. A table that saturates is
//! not additive: every curve is concave, and its knee leaves a residual above or below. A residual therefore
//! counts only where the cell is a pit, below the values that its neighbours along both axes predict; saturation
//! does not cause pits.

use crate::matrix::contrast::{Contrast, Side};
use crate::matrix::limits::{PIT, RESIDUAL};
use crate::{average::median, matrix::cells::At, matrix::rule::Rule, matrix::screen::Screen};
use std::collections::{BTreeMap, BTreeSet};

/// Cells a table needs at least for a residual to mean something.
const TABLE: usize = 12;
const ROUNDS: usize = 20;
/// MAD to standard deviation, for a normal bulk.
const NORMAL: f64 = 1.4826;

type Place = (usize, usize);

pub fn apply(screen: &mut Screen) {
    let explained: BTreeSet<At> = screen.flags.iter().map(|flag| flag.at).collect();
    for (variant, mode) in screen.tables() {
        let own = |at: &At| {
            (at.variant, at.mode) == (variant, mode) && !explained.contains(at) && !screen.at_ceiling(*at)
        };
        let log = |at: At| Some(((at.size, at.threads), screen.matrix.iops(at)?.ln()));
        let residuals = polish(&screen.matrix.places().filter(own).filter_map(log).collect());
        let sizes: Vec<f64> = residuals.values().map(|r| r.abs()).collect();
        let Some(mad) = median(&sizes).filter(|_| residuals.len() >= TABLE) else { continue };
        for ((size, threads), residual) in &residuals {
            let at = At { variant, mode, size: *size, threads: *threads };
            let Some(tests) = pit(screen, at) else { continue };
            if *residual < -RESIDUAL * NORMAL * mad {
                screen.attempt(Rule::Interaction, at, None, tests);
            } else {
                screen.e.push(0.0); // a comparison that was made and kept the rule
            }
        }
    }
}

/// The cell against its neighbours along the thread axis, and along the block-size axis. None at an edge.
fn pit(screen: &Screen, at: At) -> Option<Vec<Contrast>> {
    let matrix = screen.matrix;
    let row = matrix.along_threads(at.variant, at.mode, at.size);
    let column = matrix.along_size(at.variant, at.mode, at.threads);
    Some(vec![
        between(at, &row, |at| f64::from(matrix.threads[at.threads]).ln())?,
        between(at, &column, |at| (matrix.sizes[at.size] as f64).ln())?,
    ])
}

/// ln of the cell over the value on the line between its two neighbours, on logarithmic axes.
fn between(at: At, line: &[At], axis: impl Fn(At) -> f64) -> Option<Contrast> {
    let i = line.iter().position(|other| *other == at)?;
    let (before, after) = (*line.get(i.checked_sub(1)?)?, *line.get(i + 1)?);
    let share = (axis(at) - axis(before)) / (axis(after) - axis(before));
    let terms = vec![(at, 1.0), (before, share - 1.0), (after, -share)];
    Some(Contrast { terms, offset: 0.0, limit: PIT.ln(), side: Side::Below })
}

/// The residuals after rows and columns have had their medians taken out, in turns, until nothing moves.
fn polish(values: &BTreeMap<Place, f64>) -> BTreeMap<Place, f64> {
    let mut residuals = values.clone();
    for _ in 0..ROUNDS {
        let moved = sweep(&mut residuals, |place| place.0) + sweep(&mut residuals, |place| place.1);
        if moved < 1e-9 {
            break;
        }
    }
    residuals
}

/// Takes the median of every line out of it; returns how much was taken.
fn sweep(residuals: &mut BTreeMap<Place, f64>, line: impl Fn(&Place) -> usize) -> f64 {
    let mut lines: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (place, value) in residuals.iter() {
        lines.entry(line(place)).or_default().push(*value);
    }
    let middles: BTreeMap<usize, f64> =
        lines.into_iter().filter_map(|(at, values)| Some((at, median(&values)?))).collect();
    for (place, value) in residuals.iter_mut() {
        *value -= middles[&line(place)];
    }
    middles.values().map(|middle| middle.abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_additive_table_has_no_residuals_and_one_odd_cell_keeps_its_own() {
        let mut table: BTreeMap<Place, f64> =
            (0..4).flat_map(|i| (0..5).map(move |j| ((i, j), i as f64 + 10.0 * j as f64))).collect();
        assert!(polish(&table).values().all(|r| r.abs() < 1e-9));
        *table.get_mut(&(1, 3)).unwrap() -= 2.0;
        let residuals = polish(&table);
        assert!((residuals[&(1, 3)] + 2.0).abs() < 1e-9);
        assert!(residuals.iter().filter(|(_, r)| r.abs() > 1e-9).count() == 1);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
