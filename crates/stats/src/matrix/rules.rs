//! The rules that measurements of healthy storage obey: rules for a single variant, and rules that compare variants.

use super::cells::{At, Contrast, Order, Side};
use super::finding::Rule;
use super::screen::Screen;
use crate::average::median;
use std::collections::{BTreeMap, BTreeSet};

// The tolerances of the rules. All are ratios, unless their comment gives another unit.

/// If a cell exceeds the bare device by more than this factor, something else served it, such as a cache.
const ABOVE_DEVICE: f64 = 1.05;
/// If a cell has less than this share of the bare device's throughput, the filesystem is its limit.
const BELOW_DEVICE: f64 = 0.70;
/// Sequential throughput below this share of random throughput breaks a rule.
const SEQUENTIAL: f64 = 0.95;
/// Larger blocks break a rule if their bandwidth is below this share of that of smaller blocks. They also break one if their
/// operations per second are above 1/[`MONOTONE`] times those of smaller blocks.
const MONOTONE: f64 = 0.95;
/// Throughput below this share of the throughput at the next smaller thread count breaks a rule.
const SCALING: f64 = 0.95;
/// More threads gain nothing if throughput stays below this times that of the smallest thread count, over a range of threads
/// of at least [`RANGE`].
const GAIN: f64 = 1.25;
/// The range of threads over which a rule expects a gain: the largest count divided by the smallest.
const RANGE: f64 = 4.0;
/// The device is not the limit of a cell if another cell has more than this times its throughput.
const HEADROOM: f64 = 1.25;
/// A cell is far behind if it has less than this share of the throughput of every other variant.
const BEHIND: f64 = 0.5;
/// Cliff: if blocks are smaller by a factor q, the throughput relative to every other variant falls to less than this
/// divided by q. For example, a limit on operations per second halves the relative throughput when the block size is halved
/// and bandwidth limits the other variants. That is no cliff; a cliff falls to less than 0.4 of the ratio at the larger blocks.
const CLIFF: f64 = 0.8;
/// The smallest residual of the median polish that is flagged, in standard deviations (1.4826·MAD).
const RESIDUAL: f64 = 3.5;
/// A residual is flagged only if the cell is also below this share of the value interpolated between its neighbours, along both
/// axes.
const PIT: f64 = 0.8;

/// Applies the rules for single variants (and the bare device).
pub fn within(screen: &mut Screen) {
    roofline(screen);
    sequential(screen);
    apply_monotone(screen);
    scaling(screen);
}

/// Applies the rules that compare variants. They come second, because a cell that broke a rule for single variants must not
/// serve as a reference.
pub fn between(screen: &mut Screen) {
    apply_serialised(screen);
    apply_peers(screen);
    apply_polish(screen);
}

/// Compares each cell with the bare device. Above it, a cache served the requests; far below it, the filesystem is the limit.
fn roofline(screen: &mut Screen) {
    for at in screen.places() {
        if let Some(raw) = screen.matrix.raw(at) {
            for (rule, side, limit) in [
                (Rule::AboveDevice, Side::Above, ABOVE_DEVICE),
                (Rule::BelowDevice, Side::Below, BELOW_DEVICE),
            ] {
                screen.flag_cell(rule, at, Some(raw), vec![Contrast::ratio(at, raw, side, limit)]);
            }
        } else if let Some(most) = screen.device {
            // A stated bandwidth is the best case of the device, so a cell below it breaks no rule.
            let offset = (screen.matrix.sizes[at.size] as f64 / most).ln();
            let limit = ABOVE_DEVICE.ln();
            let test = Contrast { terms: vec![(at, 1.0)], offset, limit, side: Side::Above };
            screen.flag_cell(Rule::AboveDevice, at, None, vec![test]);
        }
    }
}

/// Sequential requests should not be slower than random ones; if they are, a lock or the allocator is contended.
fn sequential(screen: &mut Screen) {
    let modes = &screen.matrix.modes;
    let direction = |mode: usize, order| modes[mode].kind.filter(|kind| kind.0 == order).map(|kind| kind.1);
    let alike = |(seq, rnd): &(usize, usize)| {
        let sequential = direction(*seq, Order::Sequential);
        sequential.is_some() && sequential == direction(*rnd, Order::Random)
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
            screen.flag_cell(Rule::SequentialBelowRandom, at, Some(random), tests);
        }
    }
}

/// More threads should not lose throughput. Flags a drop from one thread count to the next, and all further counts up to the
/// one that reaches the earlier throughput again.
fn scaling(screen: &mut Screen) {
    for cells in screen.rows() {
        for i in 1..cells.len() {
            let previous = cells[i - 1];
            if !screen.at_ceiling(cells[i]) {
                screen.flag_series(Rule::ScalingCollapse, &cells[i..], previous, |screen, at| {
                    screen.beside_device(Contrast::ratio(at, previous, Side::Below, SCALING))
                });
            }
        }
    }
}

/// With larger blocks, operations per second should not rise and bandwidth should not fall.
fn apply_monotone(screen: &mut Screen) {
    for (variant, mode) in screen.tables() {
        let columns = screen.columns(variant, mode);
        for column in &columns {
            iops_rise(screen, column);
        }
        bandwidth_falls(screen, &columns);
    }
}

/// Flags cells whose operations per second are lower than with the next larger block size, and the cells with still smaller
/// blocks as long as they are lower too.
fn iops_rise(screen: &mut Screen, column: &[At]) {
    for i in 1..column.len() {
        let larger = column[i];
        // Divide the value of the smaller block by that of the larger, never the reverse, so that the ratios of all flags can be
        // compared.
        screen.flag_series(Rule::IopsRise, column[..i].iter().rev(), larger, |screen, at| {
            screen.beside_device(Contrast::ratio(at, larger, Side::Below, MONOTONE))
        });
    }
}

/// Flags cells where bandwidth falls from one block size to the next larger one. Either the cells with larger blocks are too low,
/// or those with smaller blocks are too high (served by a cache).
///
/// One decision is made for each block size, over all thread counts where bandwidth falls to it: the side is flagged whose cells
/// are further, in total, from the bare device, or without it from the nearest other variant. Without both, the low side is
/// flagged.
fn bandwidth_falls(screen: &mut Screen, columns: &[Vec<At>]) {
    for size in 0..screen.matrix.sizes.len() {
        let found: Vec<(&[At], usize)> = columns
            .iter()
            .filter_map(|column| {
                let i = column.iter().skip(1).position(|at| at.size == size)? + 1;
                (!screen.at_ceiling(column[i])).then_some((column.as_slice(), i))
            })
            .collect();
        let is_fall = |(column, i): &&(&[At], usize)| {
            let outcome = bandwidth_below(screen, column[*i], column[*i - 1]).outcome(screen.matrix);
            outcome.is_some_and(|outcome| outcome.beyond)
        };
        // The summed distance of the cells with this block size (steps_back 0) or with the next smaller one (1).
        let total_distance = |steps_back: usize| -> f64 {
            let falls = found.iter().filter(is_fall);
            falls.filter_map(|(column, i)| distance(screen, column[*i - steps_back])).sum()
        };
        let high = total_distance(1) > total_distance(0);
        for (column, i) in found {
            let (before, after) = (column[i - 1], column[i]);
            if high {
                screen.flag_series(Rule::BandwidthFalls, column[..i].iter().rev(), after, |screen, at| {
                    let test = Contrast::bandwidth(screen.matrix, at, after, Side::Above, 1.0 / MONOTONE);
                    screen.beside_device(test)
                });
            } else {
                screen.flag_series(Rule::BandwidthFalls, &column[i..], before, |screen, at| {
                    screen.beside_device(bandwidth_below(screen, at, before))
                });
            }
        }
    }
}

/// The contrast that a cell's bandwidth is below that of the cell before it.
fn bandwidth_below(screen: &Screen, at: At, before: At) -> Contrast {
    Contrast::bandwidth(screen.matrix, at, before, Side::Below, MONOTONE)
}

/// The distance |ln ratio| of a cell from the bare device, or if that was not measured, from the nearest other variant.
fn distance(screen: &Screen, at: At) -> Option<f64> {
    let own = screen.matrix.iops(at)?.ln();
    let far = |other: At| Some((own - screen.matrix.iops(other)?.ln()).abs());
    if let Some(raw) = screen.matrix.raw(at) {
        return far(raw);
    }
    let others = screen.subjects().into_iter().filter(|variant| *variant != at.variant);
    others.filter_map(|variant| far(At { variant, ..at })).min_by(f64::total_cmp)
}

/// More threads should gain throughput as long as the device can do more.
fn apply_serialised(screen: &mut Screen) {
    let too_high = screen.too_high();
    for cells in screen.rows() {
        serialised_row(screen, &cells, &too_high);
    }
}

fn serialised_row(screen: &mut Screen, cells: &[At], too_high: &BTreeSet<At>) {
    let [first, later @ ..] = cells else { return };
    let Some(last) = later.last() else { return };
    let count = |at: &At| f64::from(screen.matrix.threads[at.threads]);
    if count(last) < RANGE * count(first) || cells.iter().any(|at| screen.at_ceiling(*at)) {
        return;
    }
    let (Some(best), Some(witness)) = (best(screen, later), witness(screen, *first, too_high)) else {
        return;
    };
    // The row is serialised if no larger thread count gains throughput and the witness exceeds even the best of them.
    let mut common = vec![Contrast::ratio(witness, best, Side::Above, HEADROOM)];
    common.extend(later.iter().map(|at| Contrast::ratio(*at, *first, Side::Below, GAIN)));
    for &at in later {
        // The first test determines the size of the flag: the distance from the witness.
        let mut tests = vec![Contrast::ratio(at, witness, Side::Below, 1.0 / HEADROOM)];
        tests.extend(common.iter().cloned());
        screen.flag_cell(Rule::Serialised, at, Some(witness), tests);
    }
}

fn best(screen: &Screen, cells: &[At]) -> Option<At> {
    let known = cells.iter().filter_map(|at| Some((*at, screen.matrix.iops(*at)?)));
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// The cell that proves that the device can do more with this block size: the best cell of a row of the same kind of request
/// (read or write) whose throughput grows with threads or reaches the device's ceiling. Candidates are first the bare device,
/// then the variant itself in another mode, then the other variants. Random requests prove what sequential ones could reach, but
/// not the reverse, because a disk with one head is faster at sequential requests.
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

/// The best cell of a row. None if a cell of the row is too high for the device, or if the row neither gains from threads nor
/// reaches the device's ceiling.
fn sound_best(screen: &Screen, cells: &[At], too_high: &BTreeSet<At>) -> Option<At> {
    if cells.iter().any(|at| too_high.contains(at)) {
        return None;
    }
    let best = best(screen, cells)?;
    let gains = Contrast::ratio(best, cells[0], Side::Above, GAIN).outcome(screen.matrix)?.beyond;
    (gains || screen.at_ceiling(best)).then_some(best)
}

fn apply_peers(screen: &mut Screen) {
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

/// The other variants that have values in all these cells and are not suspect, by ascending value in the first cell.
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

/// Flags a cell that is far behind every peer. The flag names the peer with the nearest value.
fn behind(screen: &mut Screen, at: At, suspects: &BTreeSet<At>) {
    let peers = peers(screen, &[at], suspects);
    let test = |variant: &usize| Contrast::ratio(at, At { variant: *variant, ..at }, Side::Below, BEHIND);
    if let Some(nearest) = peers.first() {
        let tests = peers.iter().map(test).collect();
        screen.flag_cell(Rule::FarBehind, at, Some(At { variant: *nearest, ..at }), tests);
    }
}

/// Flags a cliff: from column[i] to the next smaller block size, the variant's throughput relative to every peer drops to less
/// than [`CLIFF`] times the ratio of the block sizes, which a limit on operations per second alone would cause. Also flags still
/// smaller block sizes as long as they stay below the same limit. A cell without peers is not flagged.
fn cliff(screen: &mut Screen, column: &[At], i: usize, suspects: &BTreeSet<At>) {
    let edge = column[i];
    let size = |at: At| screen.matrix.sizes[at.size] as f64;
    let limit = (CLIFF * size(column[i - 1]) / size(edge)).ln();
    screen.flag_series(Rule::Cliff, column[..i].iter().rev(), edge, |screen, at| {
        let share = |variant: usize| {
            let (theirs, theirs_at_edge) = (At { variant, ..at }, At { variant, ..edge });
            let terms = vec![(at, 1.0), (edge, -1.0), (theirs, -1.0), (theirs_at_edge, 1.0)];
            Contrast { terms, offset: 0.0, limit, side: Side::Below }
        };
        peers(screen, &[at, edge], suspects).into_iter().map(share).collect()
    });
}

/// The fewest cells of a table for which residuals are tested.
const LEAST_CELLS: usize = 12;
/// The most sweeps of the median polish.
const SWEEPS: usize = 20;
/// Converts a median absolute deviation to a standard deviation, for normal data.
const MAD_TO_SD: f64 = 1.4826;

/// A block size and a thread count, by index.
type SizeAndThreads = (usize, usize);

/// Flags cells that are far below the level that their row and column explain (Tukey's median polish).
fn apply_polish(screen: &mut Screen) {
    let explained: BTreeSet<At> = screen.flags.iter().map(|flag| flag.at).collect();
    for (variant, mode) in screen.tables() {
        let own = |at: &At| {
            (at.variant, at.mode) == (variant, mode) && !explained.contains(at) && !screen.at_ceiling(*at)
        };
        let log = |at: At| Some(((at.size, at.threads), screen.matrix.iops(at)?.ln()));
        let residuals = polish(&screen.matrix.places().filter(own).filter_map(log).collect());
        let absolute: Vec<f64> = residuals.values().map(|r| r.abs()).collect();
        let Some(mad) = median(&absolute).filter(|_| residuals.len() >= LEAST_CELLS) else { continue };
        for ((size, threads), residual) in &residuals {
            let at = At { variant, mode, size: *size, threads: *threads };
            let Some(tests) = pit(screen, at) else { continue };
            if *residual < -RESIDUAL * MAD_TO_SD * mad {
                screen.flag_cell(Rule::Interaction, at, None, tests);
            } else {
                // A comparison without evidence against the rule: the number of comparisons counts in the selection of findings.
                screen.e_values.push(0.0);
            }
        }
    }
}

/// Compares a cell with its neighbours along the thread axis, and along the block-size axis. None at an edge of the matrix.
fn pit(screen: &Screen, at: At) -> Option<Vec<Contrast>> {
    let matrix = screen.matrix;
    let row = matrix.along_threads(at.variant, at.mode, at.size);
    let column = matrix.along_size(at.variant, at.mode, at.threads);
    Some(vec![
        contrast_with_line(at, &row, |at| f64::from(matrix.threads[at.threads]).ln())?,
        contrast_with_line(at, &column, |at| (matrix.sizes[at.size] as f64).ln())?,
    ])
}

/// The logarithm of the cell's value divided by the interpolated value between its two neighbours, on logarithmic axes.
fn contrast_with_line(at: At, line: &[At], axis: impl Fn(At) -> f64) -> Option<Contrast> {
    let i = line.iter().position(|other| *other == at)?;
    let (before, after) = (*line.get(i.checked_sub(1)?)?, *line.get(i + 1)?);
    let share = (axis(at) - axis(before)) / (axis(after) - axis(before));
    let terms = vec![(at, 1.0), (before, share - 1.0), (after, -share)];
    Some(Contrast { terms, offset: 0.0, limit: PIT.ln(), side: Side::Below })
}

/// Median polish: subtracts the medians of rows and of columns in turn until they no longer change; returns the residuals.
fn polish(values: &BTreeMap<SizeAndThreads, f64>) -> BTreeMap<SizeAndThreads, f64> {
    let mut residuals = values.clone();
    for _ in 0..SWEEPS {
        let moved = sweep(&mut residuals, |place| place.0) + sweep(&mut residuals, |place| place.1);
        if moved < 1e-9 {
            break;
        }
    }
    residuals
}

/// Subtracts from every value the median of its line; returns the sum of the absolute medians.
fn sweep(residuals: &mut BTreeMap<SizeAndThreads, f64>, line: impl Fn(&SizeAndThreads) -> usize) -> f64 {
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
    fn median_polish_leaves_only_the_residual_of_an_odd_cell() {
        let mut table: BTreeMap<SizeAndThreads, f64> =
            (0..4).flat_map(|i| (0..5).map(move |j| ((i, j), i as f64 + 10.0 * j as f64))).collect();
        assert!(polish(&table).values().all(|r| r.abs() < 1e-9));
        *table.get_mut(&(1, 3)).unwrap() -= 2.0;
        let residuals = polish(&table);
        assert!((residuals[&(1, 3)] + 2.0).abs() < 1e-9);
        assert!(residuals.iter().filter(|(_, r)| r.abs() > 1e-9).count() == 1);
    }
}
