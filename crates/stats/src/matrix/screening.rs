//! Collects the comparisons that the rules make, and the cells that they flag.

use super::cells::{CellPosition, Contrast, Matrix, Mode};
use super::finding::{Flag, Rule, group_into_regions};
use std::collections::BTreeSet;

/// From this share of the device's bandwidth on, the device limits a cell, and rules do not apply to it.
const CEILING_SHARE: f64 = 0.9;
/// With few rounds, a flagged cell without flagged neighbours may be a single bad measurement. The flag is kept only if the
/// ratio of the cell to the value that the rule compares it with is below this or above 1/[`ISOLATED_LIMIT`].
const ISOLATED_LIMIT: f64 = 0.8;

/// The search of one matrix: its comparisons and flags so far.
pub struct Screening<'a> {
    /// The matrix.
    pub matrix: &'a Matrix,
    /// The largest bandwidth of the device according to another source, in bytes per second.
    pub device_bandwidth: Option<f64>,
    /// For each mode, the largest bandwidth of the bare device in its direction, in bytes per second.
    measured_bandwidths: Vec<Option<f64>>,
    /// The cells that break a rule; one for each rule and cell.
    pub flags: Vec<Flag>,
    /// The e-values of all comparisons.
    pub e_values: Vec<f64>,
    /// Borders along the block-size axis: between the cell and the next larger block size.
    pub borders: BTreeSet<CellPosition>,
}

impl<'a> Screening<'a> {
    /// A search without comparisons yet.
    pub fn new(matrix: &'a Matrix, device_bandwidth: Option<f64>) -> Screening<'a> {
        let measured_bandwidths = matrix.modes.iter().map(|mode| measured_bandwidth(matrix, mode)).collect();
        Screening {
            matrix,
            device_bandwidth,
            measured_bandwidths,
            flags: Vec::new(),
            e_values: Vec::new(),
            borders: BTreeSet::new(),
        }
    }

    /// The indices of the variants that rules apply to: all but the bare device.
    pub fn subjects(&self) -> Vec<usize> {
        (0..self.matrix.variants.len()).filter(|variant| !self.matrix.variants[*variant].is_bare_device).collect()
    }

    /// Every combination of a subject (a variant that is not the bare device) and a mode, by index.
    pub fn subject_modes(&self) -> Vec<(usize, usize)> {
        let modes = |variant| (0..self.matrix.modes.len()).map(move |mode| (variant, mode));
        self.subjects().into_iter().flat_map(modes).collect()
    }

    /// Every cell of the subjects that has a value.
    pub fn cells(&self) -> Vec<CellPosition> {
        self.matrix.cells().filter(|cell| !self.matrix.variants[cell.variant].is_bare_device).collect()
    }

    /// The rows of all subjects: the cells with one mode and block size, by ascending threads.
    pub fn rows(&self) -> Vec<Vec<CellPosition>> {
        let rows = |(variant, mode)| {
            (0..self.matrix.sizes.len()).map(move |size| self.matrix.along_threads(variant, mode, size))
        };
        self.subject_modes().into_iter().flat_map(rows).collect()
    }

    /// The columns of a variant and mode: the cells with one thread count, by ascending block size.
    pub fn columns(&self, variant: usize, mode: usize) -> Vec<Vec<CellPosition>> {
        (0..self.matrix.threads.len()).map(|threads| self.matrix.along_size(variant, mode, threads)).collect()
    }

    /// Whether the device limits a cell: its bandwidth is near the largest bandwidth of the device. False if that is unknown.
    pub fn is_at_ceiling(&self, cell: CellPosition) -> bool {
        let ceiling = self.device_bandwidth.or(self.measured_bandwidths[cell.mode]);
        ceiling.is_some_and(|ceiling| {
            self.matrix.bandwidth(cell).is_some_and(|bandwidth| bandwidth >= CEILING_SHARE * ceiling)
        })
    }

    /// Returns a contrast within one variant, and if the bare device has the same cells, also the contrast relative to it. The
    /// second subtracts the effect of the device.
    pub fn with_device_contrast(&self, contrast: Contrast) -> Vec<Contrast> {
        let device_term = |(cell, weight): &(CellPosition, f64)| Some((self.matrix.bare_device_cell(*cell)?, -weight));
        let Some(device_terms) = contrast.terms.iter().map(device_term).collect::<Option<Vec<_>>>() else {
            return vec![contrast];
        };
        let terms = contrast.terms.iter().copied().chain(device_terms).collect();
        vec![contrast.clone(), Contrast { terms, offset: 0.0, ..contrast }]
    }

    /// Makes one comparison of a cell with `reference`: flags the cell if every test is beyond its limit.
    pub fn flag_cell(&mut self, rule: Rule, cell: CellPosition, reference: Option<CellPosition>, tests: Vec<Contrast>) {
        self.test_cell(rule, cell, reference, tests, true);
    }

    /// Flags a series of cells up to the first that obeys the rule or has no tests. Only the first cell counts as a comparison.
    pub fn flag_series<'c>(
        &mut self,
        rule: Rule,
        cells: impl IntoIterator<Item = &'c CellPosition>,
        reference: CellPosition,
        tests: impl Fn(&Screening, CellPosition) -> Vec<Contrast>,
    ) {
        for (number, cell) in cells.into_iter().enumerate() {
            let tests = tests(self, *cell);
            if tests.is_empty() || !self.test_cell(rule, *cell, Some(reference), tests, number == 0) {
                return;
            }
        }
    }

    /// Evaluates the tests, and flags the cell if all are beyond their limits; returns whether they are. If
    /// `counts_as_comparison`, records an e-value for the comparison: the smallest e-value of the tests, which is an e-value
    /// against "some test is within its limit". If a cell has two flags of one rule, only the larger is kept.
    fn test_cell(
        &mut self,
        rule: Rule,
        cell: CellPosition,
        reference: Option<CellPosition>,
        tests: Vec<Contrast>,
        counts_as_comparison: bool,
    ) -> bool {
        let outcomes = tests.iter().map(|test| test.evaluate(self.matrix)).collect::<Option<Vec<_>>>();
        let Some(outcomes) = outcomes else { return false };
        if counts_as_comparison {
            self.e_values.push(outcomes.iter().map(|outcome| outcome.e_value).fold(f64::INFINITY, f64::min));
        }
        if !outcomes.iter().all(|outcome| outcome.breaks_rule) {
            return false;
        }
        let flag = Flag { rule, cell, reference, ratio: outcomes[0].ratio, tests, comparison: self.e_values.len() - 1 };
        match self.flags.iter_mut().find(|earlier| earlier.rule == rule && earlier.cell == cell) {
            Some(earlier) if earlier.deviation() < flag.deviation() => *earlier = flag,
            Some(_) => {}
            None => self.flags.push(flag),
        }
        true
    }

    /// Removes each flag without a flagged neighbour, unless its cell is far off or has enough rounds. Then computes the
    /// borders that the remaining flags make.
    pub fn drop_isolated_flags(&mut self) {
        let stays = |region: &Vec<Flag>| {
            region.len() > 1
                || region.iter().any(|flag| !flag.ratio.provisional || flag.deviation() > -ISOLATED_LIMIT.ln())
        };
        let flags = std::mem::take(&mut self.flags);
        self.flags = group_into_regions(flags, &BTreeSet::new()).into_iter().filter(stays).flatten().collect();
        self.borders = self.flags.iter().filter_map(border).collect();
    }

    /// Cells that other variants must not be compared with, because they are too high for the device or much too low for their
    /// own variant.
    pub fn suspect_cells(&self) -> BTreeSet<CellPosition> {
        let is_low = |flag: &&Flag| flag.rule.bounds_region() && flag.deviation() > -ISOLATED_LIMIT.ln();
        self.flags.iter().filter(is_low).map(|flag| flag.cell).chain(self.too_high_cells()).collect()
    }

    /// Flagged cells that are higher than the device can explain.
    pub fn too_high_cells(&self) -> BTreeSet<CellPosition> {
        let is_high =
            |flag: &&Flag| matches!(flag.rule, Rule::AboveDevice | Rule::BandwidthFalls) && flag.ratio.value > 1.0;
        self.flags.iter().filter(is_high).map(|flag| flag.cell).collect()
    }
}

/// The largest bandwidth of the bare device in the direction of a mode, in bytes per second.
fn measured_bandwidth(matrix: &Matrix, mode: &Mode) -> Option<f64> {
    let has_same_direction =
        |other: &Mode| other.name == mode.name || (mode.kind.is_some() && other.direction() == mode.direction());
    let is_device_cell = |cell: &CellPosition| {
        matrix.variants[cell.variant].is_bare_device && has_same_direction(&matrix.modes[cell.mode])
    };
    matrix.cells().filter(is_device_cell).filter_map(|cell| matrix.bandwidth(cell)).max_by(f64::total_cmp)
}

/// The border of a break along the block-size axis. All cells of a break are compared with the first cell beyond the border.
fn border(flag: &Flag) -> Option<CellPosition> {
    let reference = flag.reference.filter(|_| matches!(flag.rule, Rule::IopsRise | Rule::BandwidthFalls))?;
    let size = if reference.size > flag.cell.size { reference.size - 1 } else { reference.size };
    Some(CellPosition { size, ..flag.cell })
}
