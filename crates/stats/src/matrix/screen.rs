//! Collects the comparisons that the rules make, and the cells that they flag.

use super::cells::Contrast;
use super::cells::{At, Matrix, Mode};
use super::finding::{Flag, Rule, regions};
use std::collections::BTreeSet;

/// From this share of the device's bandwidth on, the device limits a cell, and rules do not apply to it.
const CEILING: f64 = 0.9;
/// With few rounds, a flagged cell without flagged neighbours may be a single bad measurement. The flag is kept only if the
/// ratio of the cell to the value that the rule compares it with is below this or above 1/[`ALONE`].
const ALONE: f64 = 0.8;

/// The search of one matrix: its comparisons and flags so far.
pub struct Screen<'a> {
    /// The matrix.
    pub matrix: &'a Matrix,
    /// The largest bandwidth of the device according to another source, in bytes per second.
    pub device: Option<f64>,
    /// For each mode, the largest bandwidth of the bare device in its direction, in bytes per second.
    measured: Vec<Option<f64>>,
    /// The cells that break a rule; one for each rule and cell.
    pub flags: Vec<Flag>,
    /// The e-values of all comparisons.
    pub e_values: Vec<f64>,
    /// Borders along the block-size axis: between the cell and the next larger block size.
    pub breaks: BTreeSet<At>,
}

impl<'a> Screen<'a> {
    /// A search without comparisons yet.
    pub fn new(matrix: &'a Matrix, device: Option<f64>) -> Screen<'a> {
        let measured = matrix.modes.iter().map(|mode| measured(matrix, mode)).collect();
        Screen { matrix, device, measured, flags: Vec::new(), e_values: Vec::new(), breaks: BTreeSet::new() }
    }

    /// The indices of the variants that rules apply to: all but the bare device.
    pub fn subjects(&self) -> Vec<usize> {
        (0..self.matrix.variants.len()).filter(|variant| !self.matrix.variants[*variant].raw).collect()
    }

    /// Every combination of a subject and a mode.
    pub fn tables(&self) -> Vec<(usize, usize)> {
        let modes = |variant| (0..self.matrix.modes.len()).map(move |mode| (variant, mode));
        self.subjects().into_iter().flat_map(modes).collect()
    }

    /// Every cell of the subjects that has a value.
    pub fn places(&self) -> Vec<At> {
        self.matrix.places().filter(|at| !self.matrix.variants[at.variant].raw).collect()
    }

    /// The rows of all subjects: the cells with one mode and block size, by ascending threads.
    pub fn rows(&self) -> Vec<Vec<At>> {
        let rows = |(variant, mode)| {
            (0..self.matrix.sizes.len()).map(move |size| self.matrix.along_threads(variant, mode, size))
        };
        self.tables().into_iter().flat_map(rows).collect()
    }

    /// The columns of a variant and mode: the cells with one thread count, by ascending block size.
    pub fn columns(&self, variant: usize, mode: usize) -> Vec<Vec<At>> {
        (0..self.matrix.threads.len()).map(|threads| self.matrix.along_size(variant, mode, threads)).collect()
    }

    /// Whether the device limits a cell: its bandwidth is near the largest bandwidth of the device. False if that is unknown.
    pub fn at_ceiling(&self, at: At) -> bool {
        let ceiling = self.device.or(self.measured[at.mode]);
        ceiling.is_some_and(|most| self.matrix.bandwidth(at).is_some_and(|moved| moved >= CEILING * most))
    }

    /// Returns a contrast within one variant, and if the bare device has the same cells, also the contrast relative to it. The
    /// second subtracts the effect of the device.
    pub fn beside_device(&self, contrast: Contrast) -> Vec<Contrast> {
        let raw = |(at, weight): &(At, f64)| Some((self.matrix.raw(*at)?, -weight));
        let Some(twins) = contrast.terms.iter().map(raw).collect::<Option<Vec<_>>>() else {
            return vec![contrast];
        };
        let terms = contrast.terms.iter().copied().chain(twins).collect();
        vec![contrast.clone(), Contrast { terms, offset: 0.0, ..contrast }]
    }

    /// Makes one comparison: flags the cell if every test is beyond its limit.
    pub fn flag_cell(&mut self, rule: Rule, at: At, against: Option<At>, tests: Vec<Contrast>) {
        self.note(rule, at, against, tests, true);
    }

    /// Flags a series of cells up to the first that obeys the rule or has no tests. Only the first cell counts as a comparison.
    pub fn flag_series<'c>(
        &mut self,
        rule: Rule,
        cells: impl IntoIterator<Item = &'c At>,
        against: At,
        tests: impl Fn(&Screen, At) -> Vec<Contrast>,
    ) {
        for (number, at) in cells.into_iter().enumerate() {
            let tests = tests(self, *at);
            if tests.is_empty() || !self.note(rule, *at, Some(against), tests, number == 0) {
                return;
            }
        }
    }

    /// Evaluates the tests, and flags the cell if all are beyond their limits; returns whether they are. If `counts`, records an
    /// e-value for the comparison: the smallest e-value of the tests, which is an e-value against "some test is within its
    /// limit". If a cell has two flags of one rule, only the larger is kept.
    fn note(&mut self, rule: Rule, at: At, against: Option<At>, tests: Vec<Contrast>, counts: bool) -> bool {
        let outcomes = tests.iter().map(|test| test.outcome(self.matrix)).collect::<Option<Vec<_>>>();
        let Some(outcomes) = outcomes else { return false };
        if counts {
            self.e_values.push(outcomes.iter().map(|outcome| outcome.e).fold(f64::INFINITY, f64::min));
        }
        if !outcomes.iter().all(|outcome| outcome.beyond) {
            return false;
        }
        let flag =
            Flag { rule, at, against, ratio: outcomes[0].ratio, tests, trial: self.e_values.len() - 1 };
        match self.flags.iter_mut().find(|other| other.rule == rule && other.at == at) {
            Some(other) if other.size() < flag.size() => *other = flag,
            Some(_) => {}
            None => self.flags.push(flag),
        }
        true
    }

    /// Removes flags without a flagged neighbour unless they are far off or have enough rounds. Then computes the borders that
    /// the remaining flags make.
    pub fn drop_isolated_flags(&mut self) {
        let is_kept = |region: &Vec<Flag>| {
            region.len() > 1 || region.iter().any(|flag| !flag.ratio.provisional || flag.size() > -ALONE.ln())
        };
        let flags = std::mem::take(&mut self.flags);
        self.flags = regions(flags, &BTreeSet::new()).into_iter().filter(is_kept).flatten().collect();
        self.breaks = self.flags.iter().filter_map(border).collect();
    }

    /// Cells that other variants must not be compared with, because they are too high for the device or much too low for their
    /// own variant.
    pub fn suspects(&self) -> BTreeSet<At> {
        let low = |flag: &&Flag| flag.rule.bounds() && flag.size() > -ALONE.ln();
        self.flags.iter().filter(low).map(|flag| flag.at).chain(self.too_high()).collect()
    }

    /// Cells that are higher than the device can explain.
    pub fn too_high(&self) -> BTreeSet<At> {
        let high = |flag: &&Flag| {
            matches!(flag.rule, Rule::AboveDevice | Rule::BandwidthFalls) && flag.ratio.value > 1.0
        };
        self.flags.iter().filter(high).map(|flag| flag.at).collect()
    }
}

/// The largest bandwidth of the bare device in the direction of a mode, in bytes per second.
fn measured(matrix: &Matrix, mode: &Mode) -> Option<f64> {
    let alike = |other: &Mode| {
        other.name == mode.name || (mode.kind.is_some() && other.direction() == mode.direction())
    };
    let same = |at: &At| matrix.variants[at.variant].raw && alike(&matrix.modes[at.mode]);
    matrix.places().filter(same).filter_map(|at| matrix.bandwidth(at)).max_by(f64::total_cmp)
}

/// The border of a break along the block-size axis. All cells of a break are compared with the first cell beyond the border.
fn border(flag: &Flag) -> Option<At> {
    let against = flag.against.filter(|_| matches!(flag.rule, Rule::IopsRise | Rule::BandwidthFalls))?;
    let size = if against.size > flag.at.size { against.size - 1 } else { against.size };
    Some(At { size, ..flag.at })
}
