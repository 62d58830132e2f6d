//! The matrix: operations per second by variant, mode, block size, threads and round.

use crate::evalue::e_value;
use crate::hodges_lehmann::WalshAverages;
use crate::ratio::Ratio;
use fsarena_core::exit::{ExitCode, HasExitCode};
use std::collections::{BTreeMap, BTreeSet};

/// One row of input: a cell with its values by round.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixRow {
    /// The name of the variant, or of the bare device.
    pub variant: String,
    /// Whether it is the bare device, which only serves as a reference.
    pub is_bare_device: bool,
    /// The mode: `seqrd`, `rndwr` (see [`Mode`]).
    pub mode: String,
    /// Bytes per request.
    pub block_size: u64,
    /// The number of threads.
    pub threads: u32,
    /// Operations per second, by round; None in a round that lacks the cell. A published table has one value.
    pub iops: Vec<Option<f64>>,
    /// Whether the load generator limited the result, so that the storage can do more.
    pub client_bound: bool,
}

/// A variant of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixVariant {
    /// Its name.
    pub name: String,
    /// Whether it is the bare device.
    pub is_bare_device: bool,
}

/// The order of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetOrder {
    /// Each request follows the previous one.
    Sequential,
    /// Requests are at random offsets.
    Random,
}

/// The direction of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataDirection {
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// Both ways.
    Mixed,
}

/// A mode by its name: `seq` or `rnd`, then `rd` (read), `wr` (write), `rewr` (write over existing data) or `rw`
/// (both), as in sysbench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mode {
    /// The name.
    pub name: String,
    /// Its order and direction; None if the name is not one of sysbench's.
    pub kind: Option<(OffsetOrder, DataDirection)>,
}

/// The prefixes and the suffixes of the names of modes.
const ORDERS: [(&str, OffsetOrder); 2] = [("seq", OffsetOrder::Sequential), ("rnd", OffsetOrder::Random)];
const DIRECTIONS: [(&str, DataDirection); 4] = [
    ("rd", DataDirection::Read),
    ("wr", DataDirection::Write),
    ("rewr", DataDirection::Write),
    ("rw", DataDirection::Mixed),
];

impl Mode {
    /// The mode of this name.
    pub fn named(name: &str) -> Mode {
        let kind = ORDERS.iter().find_map(|(prefix, order)| {
            let suffix = name.strip_prefix(prefix)?;
            DIRECTIONS.iter().find(|(name, _)| *name == suffix).map(|(_, direction)| (*order, *direction))
        });
        Mode { name: name.to_string(), kind }
    }

    /// Whether the mode reads or writes; None if the name is not one of sysbench's.
    pub fn direction(&self) -> Option<DataDirection> {
        self.kind.map(|(_, direction)| direction)
    }
}

/// The position of a cell in the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellPosition {
    /// Index into [`Matrix::variants`].
    pub variant: usize,
    /// Index into [`Matrix::modes`].
    pub mode: usize,
    /// Index into [`Matrix::sizes`].
    pub size: usize,
    /// Index into [`Matrix::threads`].
    pub threads: usize,
}

/// The matrix. Any cell may be missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix {
    /// The variants, in the order of the input.
    pub variants: Vec<MatrixVariant>,
    /// The modes, in the order of the input.
    pub modes: Vec<Mode>,
    /// Block sizes in bytes, ascending.
    pub sizes: Vec<u64>,
    /// Thread counts, ascending.
    pub threads: Vec<u32>,
    /// Operations per second by round; NaN in a round without the cell.
    cells: BTreeMap<CellPosition, Vec<f64>>,
    /// The centre of the values of each cell that has any.
    centres: BTreeMap<CellPosition, f64>,
    /// The cells whose result the load generator limited, so that it is only a lower bound.
    pub client_bound: BTreeSet<CellPosition>,
}

/// The error for rows that do not make a matrix: a repeated cell, or a block size or thread count of zero.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct MatrixError(String);

impl HasExitCode for MatrixError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

impl Matrix {
    /// Makes a matrix from rows. A value that is zero, negative or not finite counts as missing, because it has no logarithm.
    ///
    /// # Errors
    /// Two rows are about the same cell, or a block size or thread count is zero.
    pub fn new(rows: &[MatrixRow]) -> Result<Matrix, MatrixError> {
        let sizes: BTreeSet<u64> = rows.iter().map(|row| row.block_size).collect();
        let threads: BTreeSet<u32> = rows.iter().map(|row| row.threads).collect();
        let (sizes, threads) = (sizes.into_iter().collect(), threads.into_iter().collect());
        let mut matrix = Matrix { sizes, threads, ..Matrix::default() };
        for row in rows {
            if row.block_size == 0 || row.threads == 0 {
                let (variant, mode) = (&row.variant, &row.mode);
                return Err(MatrixError(format!("{variant} {mode}: a cell needs a block size and threads above zero")));
            }
            if matrix.variants.iter().all(|variant| variant.name != row.variant) {
                matrix.variants.push(MatrixVariant { name: row.variant.clone(), is_bare_device: row.is_bare_device });
            }
            if matrix.modes.iter().all(|mode| mode.name != row.mode) {
                matrix.modes.push(Mode::named(&row.mode));
            }
        }
        for row in rows {
            let cell = matrix.find(&row.variant, &row.mode, row.block_size, row.threads).expect("its axes are there");
            let value_or_nan = |value: Option<f64>| value.filter(|v| v.is_finite() && *v > 0.0).unwrap_or(f64::NAN);
            let values: Vec<f64> = row.iops.iter().copied().map(value_or_nan).collect();
            if let Some(centre) = centre(&values) {
                matrix.centres.insert(cell, centre);
            }
            if row.client_bound {
                matrix.client_bound.insert(cell);
            }
            if matrix.cells.insert(cell, values).is_some() {
                let MatrixRow { variant, mode, block_size, threads, .. } = row;
                return Err(MatrixError(format!(
                    "{variant} {mode} with {block_size}-byte blocks and {threads} threads is given twice"
                )));
            }
        }
        Ok(matrix)
    }

    /// Finds the position of a cell by names and numbers. None if one of them does not occur in the matrix.
    pub fn find(&self, variant: &str, mode: &str, block_size: u64, threads: u32) -> Option<CellPosition> {
        Some(CellPosition {
            variant: self.variants.iter().position(|known| known.name == variant)?,
            mode: self.modes.iter().position(|known| known.name == mode)?,
            size: self.sizes.binary_search(&block_size).ok()?,
            threads: self.threads.binary_search(&threads).ok()?,
        })
    }

    /// The operations per second of a cell by round; empty for a missing cell.
    pub fn values(&self, cell: CellPosition) -> &[f64] {
        self.cells.get(&cell).map_or(&[], Vec::as_slice)
    }

    /// Every cell that has a value.
    pub fn cells(&self) -> impl Iterator<Item = CellPosition> + '_ {
        self.centres.keys().copied()
    }

    /// The largest number of values of a cell.
    pub fn rounds(&self) -> usize {
        self.cells.values().map(|values| values.iter().filter(|v| !v.is_nan()).count()).max().unwrap_or(0)
    }

    /// The centre of a cell's operations per second: the value itself if there is one, else exp of the Hodges–Lehmann estimate
    /// of the logarithms.
    pub fn centre_iops(&self, cell: CellPosition) -> Option<f64> {
        self.centres.get(&cell).copied()
    }

    /// The centre of a cell's throughput, in bytes per second.
    pub fn bandwidth(&self, cell: CellPosition) -> Option<f64> {
        self.centre_iops(cell).map(|iops| iops * self.sizes[cell.size] as f64)
    }

    /// The cell of the bare device with the same mode, block size and threads. None if it was not measured.
    pub fn bare_device_cell(&self, cell: CellPosition) -> Option<CellPosition> {
        let variant = self.variants.iter().position(|variant| variant.is_bare_device)?;
        let device_cell = CellPosition { variant, ..cell };
        (variant != cell.variant && self.centre_iops(device_cell).is_some()).then_some(device_cell)
    }

    /// The cells of a variant and mode with a value at one thread count, by ascending block size.
    pub fn along_size(&self, variant: usize, mode: usize, threads: usize) -> Vec<CellPosition> {
        let cells = (0..self.sizes.len()).map(|size| CellPosition { variant, mode, size, threads });
        cells.filter(|cell| self.centre_iops(*cell).is_some()).collect()
    }

    /// The cells of a variant and mode with a value at one block size, by ascending threads.
    pub fn along_threads(&self, variant: usize, mode: usize, size: usize) -> Vec<CellPosition> {
        let cells = (0..self.threads.len()).map(|threads| CellPosition { variant, mode, size, threads });
        cells.filter(|cell| self.centre_iops(*cell).is_some()).collect()
    }
}

/// The centre of the values of a cell, as [`Matrix::centre_iops`] describes it. None without values.
fn centre(values: &[f64]) -> Option<f64> {
    let known: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    match known.as_slice() {
        [value] => Some(*value),
        values => Some(WalshAverages::new(values.iter().map(|v| v.ln()).collect())?.estimate().exp()),
    }
}

/// The side of a limit on which a value breaks the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Values below it.
    Below,
    /// Values above it.
    Above,
}

/// A comparison of cells: Σ weight·ln(operations per second) + offset, and the limit that a rule sets for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrast {
    /// The cells with their weights; (b, 1), (a, −1) is ln(b/a).
    pub terms: Vec<(CellPosition, f64)>,
    /// A constant to add. The logarithm of the quotient of block sizes converts operations to bytes.
    pub offset: f64,
    /// The limit, as a logarithm.
    pub limit: f64,
    /// The side of the limit that breaks the rule.
    pub side: Side,
}

/// The value of a contrast in the rounds of a matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContrastOutcome {
    /// exp of the contrast, with its interval.
    pub ratio: Ratio,
    /// Whether the whole interval breaks the rule. With fewer rounds than [`FIRST_LOOK_ROUNDS`] the interval is the
    /// range of the rounds, so then every round must break the rule.
    ///
    /// [`FIRST_LOOK_ROUNDS`]: crate::critical_values::FIRST_LOOK_ROUNDS
    pub breaks_rule: bool,
    /// The e-value against "the contrast is at its limit". It is 0 if the estimate keeps the rule, because [`e_value`] is
    /// two-sided and would also count evidence in favour of the rule.
    pub e_value: f64,
}

impl Contrast {
    /// Compares the operations per second of two cells: ln(b/a). `limit` is a ratio.
    pub fn iops_ratio(b: CellPosition, a: CellPosition, side: Side, limit: f64) -> Contrast {
        Contrast { terms: vec![(b, 1.0), (a, -1.0)], offset: 0.0, limit: limit.ln(), side }
    }

    /// Compares the bytes per second of two cells: ln(b/a). `limit` is a ratio.
    pub fn bandwidth_ratio(matrix: &Matrix, b: CellPosition, a: CellPosition, side: Side, limit: f64) -> Contrast {
        let offset = (matrix.sizes[b.size] as f64 / matrix.sizes[a.size] as f64).ln();
        Contrast { offset, ..Contrast::iops_ratio(b, a, side, limit) }
    }

    /// Its value in each round that has all its cells, in the order of the rounds.
    pub fn values_by_round(&self, matrix: &Matrix) -> Vec<f64> {
        let rounds = self.terms.iter().map(|(cell, _)| matrix.values(*cell).len()).min().unwrap_or(0);
        let term = |round: usize| move |(cell, weight): &(CellPosition, f64)| weight * matrix.values(*cell)[round].ln();
        let value = |round| self.terms.iter().map(term(round)).sum::<f64>() + self.offset;
        (0..rounds).map(value).filter(|value| value.is_finite()).collect()
    }

    /// Whether a client-bound cell could break the rule by a low figure. The load generator can make a figure too low
    /// but not too high, so the generator and not the storage may then be the reason.
    fn may_be_client_bound(&self, matrix: &Matrix) -> bool {
        let breaks_by_being_low = |weight: f64| (weight > 0.0) == (self.side == Side::Below);
        self.terms.iter().any(|(cell, weight)| breaks_by_being_low(*weight) && matrix.client_bound.contains(cell))
    }

    /// Evaluates the contrast in the rounds of a matrix. None if no round has all its cells. Also None if a client-bound cell
    /// could break the rule by a low figure, even if the rule is kept.
    pub fn evaluate(&self, matrix: &Matrix) -> Option<ContrastOutcome> {
        if self.may_be_client_bound(matrix) {
            return None;
        }
        let d = self.values_by_round(matrix);
        let e_value = e_value(&d, self.limit);
        let ratio = Ratio::from_log_ratios(d)?;
        let is_beyond_limit = |ratio: f64| match self.side {
            Side::Below => ratio.ln() < self.limit,
            Side::Above => ratio.ln() > self.limit,
        };
        let breaks_rule = is_beyond_limit(ratio.low) && is_beyond_limit(ratio.high);
        Some(ContrastOutcome { ratio, breaks_rule, e_value: if is_beyond_limit(ratio.value) { e_value } else { 0.0 } })
    }

    /// Returns this contrast of `source` for the matrix `target`, with cells of the same names and numbers. None if `target`
    /// lacks one.
    pub fn translate(&self, source: &Matrix, target: &Matrix) -> Option<Contrast> {
        let mut terms = vec![];
        for (cell, weight) in &self.terms {
            let (variant, mode) = (&source.variants[cell.variant].name, &source.modes[cell.mode].name);
            let block_size = source.sizes[cell.size];
            terms.push((target.find(variant, mode, block_size, source.threads[cell.threads])?, *weight));
        }
        Some(Contrast { terms, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(block_size: u64, threads: u32, iops: &[Option<f64>]) -> MatrixRow {
        MatrixRow {
            variant: "a".into(),
            is_bare_device: false,
            mode: "seqrd".into(),
            block_size,
            threads,
            iops: iops.to_vec(),
            client_bound: false,
        }
    }

    #[test]
    fn axes_are_sorted_and_missing_cells_have_no_value() {
        let matrix =
            Matrix::new(&[row(4096, 2, &[Some(10.0)]), row(512, 1, &[Some(40.0)]), row(512, 2, &[Some(0.0)])]).unwrap();
        assert_eq!((matrix.sizes.as_slice(), matrix.threads.as_slice()), ([512, 4096].as_slice(), [1, 2].as_slice()));
        let cell = matrix.find("a", "seqrd", 4096, 2).unwrap();
        assert_eq!((matrix.centre_iops(cell), matrix.bandwidth(cell)), (Some(10.0), Some(40_960.0)));
        assert_eq!(matrix.centre_iops(CellPosition { threads: 0, ..cell }), None, "never measured");
        assert_eq!(matrix.centre_iops(CellPosition { size: 0, ..cell }), None, "zero has no logarithm");
        assert_eq!(matrix.cells().count(), 2);
    }

    #[test]
    fn repeated_cells_and_zero_threads_are_errors() {
        let twice = Matrix::new(&[row(512, 1, &[Some(1.0)]), row(512, 1, &[Some(2.0)])]).unwrap_err();
        assert_eq!(twice.to_string(), "a seqrd with 512-byte blocks and 1 threads is given twice");
        assert!(Matrix::new(&[row(512, 0, &[Some(1.0)])]).is_err());
    }

    #[test]
    fn order_and_direction_are_parsed_from_the_name_of_a_mode() {
        assert_eq!(Mode::named("seqrewr").kind, Some((OffsetOrder::Sequential, DataDirection::Write)));
        assert_eq!(Mode::named("rndrw").kind, Some((OffsetOrder::Random, DataDirection::Mixed)));
        assert_eq!(Mode::named("mmap").kind, None);
        assert_eq!(Mode::named("é").kind, None);
    }

    /// A matrix with two cells that have these values by round, and their positions.
    fn matrix_of_two_cells(a: &[Option<f64>], b: &[Option<f64>]) -> (Matrix, CellPosition, CellPosition) {
        let row = |threads, iops: &[Option<f64>]| MatrixRow {
            variant: "x".into(),
            is_bare_device: false,
            mode: "seqrd".into(),
            block_size: 512,
            threads,
            iops: iops.to_vec(),
            client_bound: false,
        };
        let matrix = Matrix::new(&[row(1, a), row(2, b)]).unwrap();
        let cell = |threads| matrix.find("x", "seqrd", 512, threads).unwrap();
        let (a, b) = (cell(1), cell(2));
        (matrix, a, b)
    }

    #[test]
    fn a_single_value_is_compared_with_the_limit_directly() {
        let (matrix, a, b) = matrix_of_two_cells(&[Some(100.0)], &[Some(90.0)]);
        let outcome = Contrast::iops_ratio(b, a, Side::Below, 0.95).evaluate(&matrix).unwrap();
        assert!(outcome.breaks_rule && outcome.ratio.provisional);
        assert!((outcome.ratio.value - 0.9).abs() < 1e-12);
        assert!(!Contrast::iops_ratio(b, a, Side::Below, 0.89).evaluate(&matrix).unwrap().breaks_rule);
    }

    #[test]
    fn all_of_eight_rounds_must_break_the_rule_when_compared_within_rounds() {
        let a: Vec<Option<f64>> = (1..=8).map(|i| Some(100.0 * f64::from(i))).collect();
        let share = |share: f64| a.iter().map(|v| v.map(|v| v * share)).collect::<Vec<_>>();
        let (matrix, a0, b0) = matrix_of_two_cells(&a, &share(0.9));
        let outcome = Contrast::iops_ratio(b0, a0, Side::Below, 0.95).evaluate(&matrix).unwrap();
        assert!(outcome.breaks_rule && outcome.e_value > 20.0, "{outcome:?}");
        let mut worse = share(0.9);
        worse[3] = Some(399.0);
        let (matrix, a0, b0) = matrix_of_two_cells(&a, &worse);
        assert!(!Contrast::iops_ratio(b0, a0, Side::Below, 0.95).evaluate(&matrix).unwrap().breaks_rule);
        let (matrix, a0, b0) = matrix_of_two_cells(&a, &share(1.2));
        assert_eq!(Contrast::iops_ratio(b0, a0, Side::Below, 0.95).evaluate(&matrix).unwrap().e_value, 0.0);
    }

    #[test]
    fn a_contrast_has_no_outcome_if_the_low_cell_is_client_bound() {
        let row = |threads, iops: f64, client_bound| MatrixRow {
            variant: "x".into(),
            is_bare_device: false,
            mode: "seqrd".into(),
            block_size: 512,
            threads,
            iops: vec![Some(iops)],
            client_bound,
        };
        let breaks_rule = |slow_is_client_bound, fast_is_client_bound, side| {
            let matrix =
                Matrix::new(&[row(1, 100.0, fast_is_client_bound), row(2, 50.0, slow_is_client_bound)]).unwrap();
            let cell = |threads| matrix.find("x", "seqrd", 512, threads).unwrap();
            let contrast = match side {
                Side::Below => Contrast::iops_ratio(cell(2), cell(1), side, 0.95),
                Side::Above => Contrast::iops_ratio(cell(1), cell(2), side, 1.05),
            };
            contrast.evaluate(&matrix).map(|outcome| outcome.breaks_rule)
        };
        for side in [Side::Below, Side::Above] {
            assert_eq!(breaks_rule(false, false, side), Some(true));
            assert_eq!(breaks_rule(true, false, side), None, "the slow one may be faster");
            assert_eq!(breaks_rule(false, true, side), Some(true), "the fast one is faster still");
        }
    }

    #[test]
    fn a_round_that_lacks_one_of_the_cells_is_skipped() {
        let (matrix, a, b) = matrix_of_two_cells(&[Some(100.0), None, Some(1.0)], &[Some(50.0), Some(7.0), Some(1.0)]);
        let d = Contrast::iops_ratio(b, a, Side::Below, 0.95).values_by_round(&matrix);
        assert_eq!(d.len(), 2);
        assert!((d[0] - 0.5f64.ln()).abs() < 1e-12 && d[1] == 0.0);
    }
}
