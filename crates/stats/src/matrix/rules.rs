//! The rules that measurements of healthy storage obey: rules for a single variant, and rules that compare variants.

use super::cells::{CellPosition, Contrast, OffsetOrder, Side};
use super::finding::Rule;
use super::screening::Screening;
use crate::average::median;
use std::collections::{BTreeMap, BTreeSet};

// The tolerances of the rules. All are ratios, unless their comment gives another unit.

/// If a cell exceeds the bare device by more than this factor, something else served it, such as a cache.
const ABOVE_DEVICE_FACTOR: f64 = 1.05;
/// If a cell has less than this share of the bare device's throughput, the filesystem is its limit.
const BELOW_DEVICE_SHARE: f64 = 0.70;
/// Sequential throughput below this share of random throughput breaks a rule.
const SEQUENTIAL_SHARE: f64 = 0.95;
/// Larger blocks break a rule if their bandwidth is below this share of the bandwidth of smaller blocks, or if their operations
/// per second exceed the operations per second of smaller blocks by more than a factor of 1/[`MONOTONE_SHARE`].
const MONOTONE_SHARE: f64 = 0.95;
/// Throughput below this share of the throughput at the next smaller thread count breaks a rule.
const SCALING_SHARE: f64 = 0.95;
/// More threads gain nothing if throughput stays below this times that of the smallest thread count, over a range of threads
/// of at least [`THREADS_RANGE`].
const GAIN_FACTOR: f64 = 1.25;
/// The range of threads over which a rule expects a gain: the largest count divided by the smallest.
const THREADS_RANGE: f64 = 4.0;
/// The device is not the limit of a cell if another cell has more than this times its throughput.
const HEADROOM_FACTOR: f64 = 1.25;
/// A cell is far behind if it has less than this share of the throughput of every other variant.
const BEHIND_SHARE: f64 = 0.5;
/// Cliff: if blocks are smaller by a factor q, the throughput relative to every other variant falls to less than this
/// divided by q. For example, a limit on operations per second halves the relative throughput when the block size is halved
/// and bandwidth limits the other variants. That is no cliff; a cliff falls to less than 0.4 of the ratio at the larger blocks.
const CLIFF_FACTOR: f64 = 0.8;
/// The smallest residual of the median polish that is flagged, in standard deviations (1.4826·MAD).
const RESIDUAL_SDS: f64 = 3.5;
/// A residual is flagged only if the cell is also below this share of the value interpolated between its neighbours, along both
/// axes.
const PIT_SHARE: f64 = 0.8;

/// Applies the rules for single variants (and the bare device).
pub fn apply_within_variants(screening: &mut Screening) {
    flag_against_device(screening);
    flag_slow_sequential(screening);
    flag_block_size_breaks(screening);
    flag_scaling_collapses(screening);
}

/// Applies the rules that compare variants. They come second, because a cell that broke a rule for single variants must not
/// serve as a reference.
pub fn apply_between_variants(screening: &mut Screening) {
    flag_serialised_rows(screening);
    flag_against_peers(screening);
    flag_polish_residuals(screening);
}

/// Flags cells above the bare device, which a cache served, and cells far below it, where the filesystem is the limit.
fn flag_against_device(screening: &mut Screening) {
    for cell in screening.cells() {
        if let Some(device_cell) = screening.matrix.bare_device_cell(cell) {
            for (rule, side, limit) in [
                (Rule::AboveDevice, Side::Above, ABOVE_DEVICE_FACTOR),
                (Rule::BelowDevice, Side::Below, BELOW_DEVICE_SHARE),
            ] {
                screening.flag_cell(
                    rule,
                    cell,
                    Some(device_cell),
                    vec![Contrast::iops_ratio(cell, device_cell, side, limit)],
                );
            }
        } else if let Some(bandwidth) = screening.device_bandwidth {
            // A stated bandwidth is the best case of the device, so a cell below it breaks no rule.
            let offset = (screening.matrix.sizes[cell.size] as f64 / bandwidth).ln();
            let limit = ABOVE_DEVICE_FACTOR.ln();
            let test = Contrast { terms: vec![(cell, 1.0)], offset, limit, side: Side::Above };
            screening.flag_cell(Rule::AboveDevice, cell, None, vec![test]);
        }
    }
}

/// Flags cells of sequential requests that are slower than random ones: a lock or the allocator is contended.
fn flag_slow_sequential(screening: &mut Screening) {
    let modes = &screening.matrix.modes;
    let direction = |mode: usize, order| modes[mode].kind.filter(|kind| kind.0 == order).map(|kind| kind.1);
    let have_same_direction = |(seq, rnd): &(usize, usize)| {
        let sequential = direction(*seq, OffsetOrder::Sequential);
        sequential.is_some() && sequential == direction(*rnd, OffsetOrder::Random)
    };
    let pairs = (0..modes.len()).flat_map(|seq| (0..modes.len()).map(move |rnd| (seq, rnd)));
    let pairs: Vec<(usize, usize)> = pairs.filter(have_same_direction).collect();
    let subjects = screening.cells();
    for (sequential, random) in pairs {
        for &cell in subjects.iter().filter(|cell| cell.mode == sequential) {
            let random = CellPosition { mode: random, ..cell };
            if screening.is_at_ceiling(cell) {
                continue;
            }
            let tests =
                screening.with_device_contrast(Contrast::iops_ratio(cell, random, Side::Below, SEQUENTIAL_SHARE));
            screening.flag_cell(Rule::SequentialBelowRandom, cell, Some(random), tests);
        }
    }
}

/// More threads should not lose throughput. Flags a drop from one thread count to the next, and all further counts up to the
/// one that reaches the earlier throughput again.
fn flag_scaling_collapses(screening: &mut Screening) {
    for cells in screening.rows() {
        for i in 1..cells.len() {
            let previous = cells[i - 1];
            if !screening.is_at_ceiling(cells[i]) {
                screening.flag_series(Rule::ScalingCollapse, &cells[i..], previous, |screening, cell| {
                    screening.with_device_contrast(Contrast::iops_ratio(cell, previous, Side::Below, SCALING_SHARE))
                });
            }
        }
    }
}

/// Flags breaks between block sizes: with larger blocks, operations per second should not rise and bandwidth should not fall.
fn flag_block_size_breaks(screening: &mut Screening) {
    for (variant, mode) in screening.subject_modes() {
        let columns = screening.columns(variant, mode);
        for column in &columns {
            flag_rising_iops(screening, column);
        }
        flag_falling_bandwidth(screening, &columns);
    }
}

/// Flags cells whose operations per second are lower than with the next larger block size, and the cells with still smaller
/// blocks as long as they are lower too.
fn flag_rising_iops(screening: &mut Screening, column: &[CellPosition]) {
    for i in 1..column.len() {
        let larger = column[i];
        // Divide the value of the smaller block by the value of the larger, never the reverse, so that the ratios of all flags can
        // be compared.
        screening.flag_series(Rule::IopsRise, column[..i].iter().rev(), larger, |screening, cell| {
            screening.with_device_contrast(Contrast::iops_ratio(cell, larger, Side::Below, MONOTONE_SHARE))
        });
    }
}

/// Flags cells where bandwidth falls from one block size to the next larger one. Either the cells with larger blocks are too
/// low, or those with smaller blocks are too high (served by a cache).
///
/// One decision is made for each block size, over all thread counts where bandwidth falls to it: the side whose cells are
/// further, in total, from the bare device is flagged; without the bare device, the side whose cells are further from the
/// nearest other variant; without both, the low side.
fn flag_falling_bandwidth(screening: &mut Screening, columns: &[Vec<CellPosition>]) {
    for size in 0..screening.matrix.sizes.len() {
        // Each column that has this block size after a smaller one, and the index of the cell with this block size.
        let steps: Vec<(&[CellPosition], usize)> = columns
            .iter()
            .filter_map(|column| {
                let i = column.iter().skip(1).position(|cell| cell.size == size)? + 1;
                (!screening.is_at_ceiling(column[i])).then_some((column.as_slice(), i))
            })
            .collect();
        let is_fall = |(column, i): &&(&[CellPosition], usize)| {
            let outcome = bandwidth_below(screening, column[*i], column[*i - 1]).evaluate(screening.matrix);
            outcome.is_some_and(|outcome| outcome.breaks_rule)
        };
        // The summed distance of the cells with this block size (steps_back 0) or with the next smaller one (1).
        let total_distance = |steps_back: usize| -> f64 {
            let falls = steps.iter().filter(is_fall);
            falls.filter_map(|(column, i)| distance_from_reference(screening, column[*i - steps_back])).sum()
        };
        let flags_high_side = total_distance(1) > total_distance(0);
        for (column, i) in steps {
            let (before, after) = (column[i - 1], column[i]);
            if flags_high_side {
                screening.flag_series(Rule::BandwidthFalls, column[..i].iter().rev(), after, |screening, cell| {
                    let test =
                        Contrast::bandwidth_ratio(screening.matrix, cell, after, Side::Above, 1.0 / MONOTONE_SHARE);
                    screening.with_device_contrast(test)
                });
            } else {
                screening.flag_series(Rule::BandwidthFalls, &column[i..], before, |screening, cell| {
                    screening.with_device_contrast(bandwidth_below(screening, cell, before))
                });
            }
        }
    }
}

/// The contrast for the rule that a cell's bandwidth is not below the bandwidth of the cell before it.
fn bandwidth_below(screening: &Screening, cell: CellPosition, before: CellPosition) -> Contrast {
    Contrast::bandwidth_ratio(screening.matrix, cell, before, Side::Below, MONOTONE_SHARE)
}

/// The distance |ln ratio| of a cell from the bare device, or if that was not measured, from the nearest other variant.
fn distance_from_reference(screening: &Screening, cell: CellPosition) -> Option<f64> {
    let log_iops = screening.matrix.centre_iops(cell)?.ln();
    let distance_from = |other: CellPosition| Some((log_iops - screening.matrix.centre_iops(other)?.ln()).abs());
    if let Some(device_cell) = screening.matrix.bare_device_cell(cell) {
        return distance_from(device_cell);
    }
    let others = screening.subjects().into_iter().filter(|variant| *variant != cell.variant);
    others.filter_map(|variant| distance_from(CellPosition { variant, ..cell })).min_by(f64::total_cmp)
}

/// Flags rows in which more threads gain nothing although the device can do more.
fn flag_serialised_rows(screening: &mut Screening) {
    let too_high = screening.too_high_cells();
    for cells in screening.rows() {
        flag_serialised_row(screening, &cells, &too_high);
    }
}

/// Flags a row in which more threads gain nothing, if a witness proves that the device can do more.
fn flag_serialised_row(screening: &mut Screening, cells: &[CellPosition], too_high: &BTreeSet<CellPosition>) {
    let [first, later @ ..] = cells else { return };
    let Some(last) = later.last() else { return };
    let count = |cell: &CellPosition| f64::from(screening.matrix.threads[cell.threads]);
    if count(last) < THREADS_RANGE * count(first) || cells.iter().any(|cell| screening.is_at_ceiling(*cell)) {
        return;
    }
    let (Some(best), Some(witness)) = (best_cell(screening, later), find_witness(screening, *first, too_high)) else {
        return;
    };
    // The row is serialised if no larger thread count gains throughput, and the witness exceeds the best cell of the row. Every
    // flag of the row makes these tests.
    let mut common = vec![Contrast::iops_ratio(witness, best, Side::Above, HEADROOM_FACTOR)];
    common.extend(later.iter().map(|cell| Contrast::iops_ratio(*cell, *first, Side::Below, GAIN_FACTOR)));
    for &cell in later {
        // The first test determines the size of the flag: the distance from the witness.
        let mut tests = vec![Contrast::iops_ratio(cell, witness, Side::Below, 1.0 / HEADROOM_FACTOR)];
        tests.extend(common.iter().cloned());
        screening.flag_cell(Rule::Serialised, cell, Some(witness), tests);
    }
}

/// The cell with the most operations per second.
fn best_cell(screening: &Screening, cells: &[CellPosition]) -> Option<CellPosition> {
    let known = cells.iter().filter_map(|cell| Some((*cell, screening.matrix.centre_iops(*cell)?)));
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cell, _)| cell)
}

/// The cell that proves that the device can do more with this block size: the best cell of a row of the same kind of request
/// (read or write) whose throughput grows with threads or reaches the device's ceiling. Candidates are first the bare device,
/// then the variant itself in another mode, then the other variants. Random requests prove what sequential ones could reach,
/// but not the reverse, because a disk with one head is faster at sequential requests.
fn find_witness(
    screening: &Screening,
    subject: CellPosition,
    too_high: &BTreeSet<CellPosition>,
) -> Option<CellPosition> {
    let kind = screening.matrix.modes[subject.mode].kind;
    let is_comparable = |mode: usize| {
        let other_kind = screening.matrix.modes[mode].kind;
        mode == subject.mode
            || matches!((kind, other_kind), (Some((order, direction)), Some((other_order, other_direction)))
                if direction == other_direction && (order == OffsetOrder::Sequential || other_order == OffsetOrder::Random))
    };
    let best_cells = |variant: usize| {
        let modes = (0..screening.matrix.modes.len()).filter(|mode| is_comparable(*mode));
        let rows = modes.filter(|mode| (variant, *mode) != (subject.variant, subject.mode));
        rows.filter_map(|mode| {
            best_of_sound_row(screening, &screening.matrix.along_threads(variant, mode, subject.size), too_high)
        })
        .collect::<Vec<_>>()
    };
    let best_of_subject =
        best_cell(screening, &screening.matrix.along_threads(subject.variant, subject.mode, subject.size))?;
    let needed = screening.matrix.centre_iops(best_of_subject).map(|iops| HEADROOM_FACTOR * iops);
    let is_ahead = |cell: &CellPosition| screening.matrix.centre_iops(*cell) > needed;
    let variants = &screening.matrix.variants;
    let rank = |variant: &usize| (!variants[*variant].is_bare_device, *variant != subject.variant);
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_by_key(rank);
    order
        .chunk_by(|a, b| rank(a) == rank(b))
        .filter_map(|tier| {
            best_cell(screening, &tier.iter().flat_map(|variant| best_cells(*variant)).collect::<Vec<_>>())
        })
        .find(is_ahead)
}

/// The best cell of a row. None if a cell of the row is too high for the device, or if the row neither gains from threads nor
/// reaches the device's ceiling.
fn best_of_sound_row(
    screening: &Screening,
    cells: &[CellPosition],
    too_high: &BTreeSet<CellPosition>,
) -> Option<CellPosition> {
    if cells.iter().any(|cell| too_high.contains(cell)) {
        return None;
    }
    let best = best_cell(screening, cells)?;
    let gains = Contrast::iops_ratio(best, cells[0], Side::Above, GAIN_FACTOR).evaluate(screening.matrix)?.breaks_rule;
    (gains || screening.is_at_ceiling(best)).then_some(best)
}

/// Flags cells that are far behind the other variants, and cliffs between block sizes.
fn flag_against_peers(screening: &mut Screening) {
    let suspects = screening.suspect_cells();
    for cell in screening.cells() {
        flag_far_behind(screening, cell, &suspects);
    }
    for (variant, mode) in screening.subject_modes() {
        for column in screening.columns(variant, mode) {
            for i in 1..column.len() {
                flag_cliff(screening, &column, i, &suspects);
            }
        }
    }
}

/// The other variants that have values in all these cells and are not suspect, by ascending value in the first cell.
fn peers(screening: &Screening, cells: &[CellPosition], suspects: &BTreeSet<CellPosition>) -> Vec<usize> {
    let is_sound = |cell: CellPosition| !suspects.contains(&cell) && screening.matrix.centre_iops(cell).is_some();
    let is_peer = |variant: &usize| {
        *variant != cells[0].variant && cells.iter().all(|cell| is_sound(CellPosition { variant: *variant, ..*cell }))
    };
    let mut variants: Vec<usize> = screening.subjects().into_iter().filter(is_peer).collect();
    let first = |variant: &usize| {
        screening.matrix.centre_iops(CellPosition { variant: *variant, ..cells[0] }).unwrap_or(f64::INFINITY)
    };
    variants.sort_by(|a, b| first(a).total_cmp(&first(b)));
    variants
}

/// Flags a cell that is far behind every peer. The flag names the peer with the nearest value.
fn flag_far_behind(screening: &mut Screening, cell: CellPosition, suspects: &BTreeSet<CellPosition>) {
    let peers = peers(screening, &[cell], suspects);
    let test = |variant: &usize| {
        Contrast::iops_ratio(cell, CellPosition { variant: *variant, ..cell }, Side::Below, BEHIND_SHARE)
    };
    if let Some(nearest) = peers.first() {
        let tests = peers.iter().map(test).collect();
        screening.flag_cell(Rule::FarBehind, cell, Some(CellPosition { variant: *nearest, ..cell }), tests);
    }
}

/// Flags a cliff: from column[i] to the next smaller block size, the variant's throughput relative to every peer drops to less
/// than [`CLIFF_FACTOR`] times the ratio of the block sizes, which a limit on operations per second alone would cause. Also
/// flags still smaller block sizes as long as they stay below the same limit. A cell without peers is not flagged.
fn flag_cliff(screening: &mut Screening, column: &[CellPosition], i: usize, suspects: &BTreeSet<CellPosition>) {
    let edge = column[i];
    let size = |cell: CellPosition| screening.matrix.sizes[cell.size] as f64;
    let limit = (CLIFF_FACTOR * size(column[i - 1]) / size(edge)).ln();
    screening.flag_series(Rule::Cliff, column[..i].iter().rev(), edge, |screening, cell| {
        let contrast_with = |variant: usize| {
            let (theirs, theirs_at_edge) = (CellPosition { variant, ..cell }, CellPosition { variant, ..edge });
            let terms = vec![(cell, 1.0), (edge, -1.0), (theirs, -1.0), (theirs_at_edge, 1.0)];
            Contrast { terms, offset: 0.0, limit, side: Side::Below }
        };
        peers(screening, &[cell, edge], suspects).into_iter().map(contrast_with).collect()
    });
}

/// The fewest cells of a table for which residuals are tested.
const MIN_CELLS: usize = 12;
/// The largest number of sweeps of the median polish.
const MAX_SWEEPS: usize = 20;
/// Converts a median absolute deviation to a standard deviation, for normal data.
const MAD_TO_SD: f64 = 1.4826;

/// A block size and a thread count, by index.
type SizeAndThreads = (usize, usize);

/// Flags cells that are far below the level that their row and column explain (Tukey's median polish).
fn flag_polish_residuals(screening: &mut Screening) {
    let already_flagged: BTreeSet<CellPosition> = screening.flags.iter().map(|flag| flag.cell).collect();
    for (variant, mode) in screening.subject_modes() {
        let is_tested = |cell: &CellPosition| {
            (cell.variant, cell.mode) == (variant, mode)
                && !already_flagged.contains(cell)
                && !screening.is_at_ceiling(*cell)
        };
        let log = |cell: CellPosition| Some(((cell.size, cell.threads), screening.matrix.centre_iops(cell)?.ln()));
        let residuals = median_polish(&screening.matrix.cells().filter(is_tested).filter_map(log).collect());
        let absolute: Vec<f64> = residuals.values().map(|r| r.abs()).collect();
        let Some(mad) = median(&absolute).filter(|_| residuals.len() >= MIN_CELLS) else { continue };
        for ((size, threads), residual) in &residuals {
            let cell = CellPosition { variant, mode, size: *size, threads: *threads };
            let Some(tests) = contrasts_with_neighbours(screening, cell) else { continue };
            if *residual < -RESIDUAL_SDS * MAD_TO_SD * mad {
                screening.flag_cell(Rule::Interaction, cell, None, tests);
            } else {
                // Record the comparison, without evidence against the rule, because e-BH depends on the number of comparisons.
                screening.e_values.push(0.0);
            }
        }
    }
}

/// Compares a cell with its neighbours along the thread axis, and along the block-size axis. None at an edge of the matrix.
fn contrasts_with_neighbours(screening: &Screening, cell: CellPosition) -> Option<Vec<Contrast>> {
    let matrix = screening.matrix;
    let row = matrix.along_threads(cell.variant, cell.mode, cell.size);
    let column = matrix.along_size(cell.variant, cell.mode, cell.threads);
    Some(vec![
        contrast_with_interpolation(cell, &row, |cell| f64::from(matrix.threads[cell.threads]).ln())?,
        contrast_with_interpolation(cell, &column, |cell| (matrix.sizes[cell.size] as f64).ln())?,
    ])
}

/// The contrast of a cell with the value interpolated between its two neighbours on a line, on logarithmic axes. `axis` returns
/// the logarithm of a cell's coordinate. None at an end of the line.
fn contrast_with_interpolation(
    cell: CellPosition,
    line: &[CellPosition],
    axis: impl Fn(CellPosition) -> f64,
) -> Option<Contrast> {
    let i = line.iter().position(|other| *other == cell)?;
    let (before, after) = (*line.get(i.checked_sub(1)?)?, *line.get(i + 1)?);
    let weight = (axis(cell) - axis(before)) / (axis(after) - axis(before));
    let terms = vec![(cell, 1.0), (before, weight - 1.0), (after, -weight)];
    Some(Contrast { terms, offset: 0.0, limit: PIT_SHARE.ln(), side: Side::Below })
}

/// Median polish: subtracts the medians of rows and of columns in turn until they no longer change; returns the residuals.
fn median_polish(values: &BTreeMap<SizeAndThreads, f64>) -> BTreeMap<SizeAndThreads, f64> {
    let mut residuals = values.clone();
    for _ in 0..MAX_SWEEPS {
        let change =
            subtract_medians(&mut residuals, |place| place.0) + subtract_medians(&mut residuals, |place| place.1);
        if change < 1e-9 {
            break;
        }
    }
    residuals
}

/// Subtracts from every value the median of its line, a row or a column; returns the sum of the absolute medians. `line`
/// returns the number of the line of a place.
fn subtract_medians(residuals: &mut BTreeMap<SizeAndThreads, f64>, line: impl Fn(&SizeAndThreads) -> usize) -> f64 {
    let mut lines: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (place, value) in residuals.iter() {
        lines.entry(line(place)).or_default().push(*value);
    }
    let medians: BTreeMap<usize, f64> =
        lines.into_iter().filter_map(|(number, values)| Some((number, median(&values)?))).collect();
    for (place, value) in residuals.iter_mut() {
        *value -= medians[&line(place)];
    }
    medians.values().map(|median| median.abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_polish_leaves_only_the_residual_of_an_odd_cell() {
        let mut table: BTreeMap<SizeAndThreads, f64> =
            (0..4).flat_map(|i| (0..5).map(move |j| ((i, j), i as f64 + 10.0 * j as f64))).collect();
        assert!(median_polish(&table).values().all(|r| r.abs() < 1e-9));
        *table.get_mut(&(1, 3)).unwrap() -= 2.0;
        let residuals = median_polish(&table);
        assert!((residuals[&(1, 3)] + 2.0).abs() < 1e-9);
        assert!(residuals.iter().filter(|(_, r)| r.abs() > 1e-9).count() == 1);
    }
}
