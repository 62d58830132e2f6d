//! The sheet on which the rules note what they tried and what they flagged.

use super::cells::Contrast;
use super::cells::{At, Matrix, Mode};
use super::finding::{Flag, Rule, regions};
use super::limits::{ALONE, CEILING};
use std::collections::BTreeSet;

/// What the rules noted so far.
pub struct Screen<'a> {
    /// The matrix under search.
    pub matrix: &'a Matrix,
    /// The stated throughput of the device, in bytes a second.
    pub device: Option<f64>,
    /// The most that the bare device moved in the direction of each mode, in bytes a second.
    measured: Vec<Option<f64>>,
    /// The cells that break a rule; one for each rule and cell.
    pub flags: Vec<Flag>,
    /// The e-values of all comparisons.
    pub e: Vec<f64>,
    /// Borders along the block-size axis: between the cell and the next larger block size.
    pub breaks: BTreeSet<At>,
}

impl<'a> Screen<'a> {
    /// An empty sheet.
    pub fn new(matrix: &'a Matrix, device: Option<f64>) -> Screen<'a> {
        let measured = matrix.modes.iter().map(|mode| measured(matrix, mode)).collect();
        Screen { matrix, device, measured, flags: Vec::new(), e: Vec::new(), breaks: BTreeSet::new() }
    }

    /// The variants that are subjects, by index.
    pub fn subjects(&self) -> Vec<usize> {
        (0..self.matrix.variants.len()).filter(|variant| !self.matrix.variants[*variant].raw).collect()
    }

    /// Every variant and mode of the subjects.
    pub fn tables(&self) -> Vec<(usize, usize)> {
        let modes = |variant| (0..self.matrix.modes.len()).map(move |mode| (variant, mode));
        self.subjects().into_iter().flat_map(modes).collect()
    }

    /// Every cell of the subjects that has a value.
    pub fn places(&self) -> Vec<At> {
        self.matrix.places().filter(|at| !self.matrix.variants[at.variant].raw).collect()
    }

    /// The cells of each of the subjects' rows: at one block size, by ascending threads.
    pub fn rows(&self) -> Vec<Vec<At>> {
        let rows = |(variant, mode)| {
            (0..self.matrix.sizes.len()).map(move |size| self.matrix.along_threads(variant, mode, size))
        };
        self.tables().into_iter().flat_map(rows).collect()
    }

    /// The cells of each column of a variant and mode: at one thread count, by ascending block size.
    pub fn columns(&self, variant: usize, mode: usize) -> Vec<Vec<At>> {
        (0..self.matrix.threads.len()).map(|threads| self.matrix.along_size(variant, mode, threads)).collect()
    }

    /// Whether the device itself is what limits a cell, as far as that is known.
    pub fn at_ceiling(&self, at: At) -> bool {
        let ceiling = self.device.or(self.measured[at.mode]);
        ceiling.is_some_and(|most| self.matrix.bandwidth(at).is_some_and(|moved| moved >= CEILING * most))
    }

    /// A contrast within one variant, and where the bare device was measured in the same cells, the same
    /// contrast relative to it: what the device does by itself is not the filesystem's doing.
    pub fn beside_device(&self, contrast: Contrast) -> Vec<Contrast> {
        let raw = |(at, weight): &(At, f64)| Some((self.matrix.raw(*at)?, -weight));
        let Some(twins) = contrast.terms.iter().map(raw).collect::<Option<Vec<_>>>() else {
            return vec![contrast];
        };
        let terms = contrast.terms.iter().copied().chain(twins).collect();
        vec![contrast.clone(), Contrast { terms, offset: 0.0, ..contrast }]
    }

    /// Tries one comparison: the cell is flagged where every test is beyond its limit.
    pub fn attempt(&mut self, rule: Rule, at: At, against: Option<At>, tests: Vec<Contrast>) {
        self.note(rule, at, against, tests, true);
    }

    /// Tries the first of some cells, and extends that comparison to the next ones as long as they break the rule as well.
    /// Ends at a cell without tests.
    pub fn run<'c>(
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

    /// Whether all tests are beyond their limits. The least of their e-values is an e-value for "not all of them are", and
    /// counts once for each comparison. Of two flags of one rule on one cell the larger stays.
    fn note(&mut self, rule: Rule, at: At, against: Option<At>, tests: Vec<Contrast>, counts: bool) -> bool {
        let outcomes = tests.iter().map(|test| test.outcome(self.matrix)).collect::<Option<Vec<_>>>();
        let Some(outcomes) = outcomes else { return false };
        if counts {
            self.e.push(outcomes.iter().map(|outcome| outcome.e).fold(f64::INFINITY, f64::min));
        }
        if !outcomes.iter().all(|outcome| outcome.beyond) {
            return false;
        }
        let flag = Flag { rule, at, against, ratio: outcomes[0].ratio, tests, trial: self.e.len() - 1 };
        match self.flags.iter_mut().find(|other| other.rule == rule && other.at == at) {
            Some(other) if other.size() < flag.size() => *other = flag,
            Some(_) => {}
            None => self.flags.push(flag),
        }
        true
    }

    /// Takes back flags that stand alone without the replicates to carry them, and draws the borders that
    /// the remaining ones make.
    pub fn keep_company(&mut self) {
        let counts = |region: &Vec<Flag>| {
            region.len() > 1 || region.iter().any(|flag| !flag.ratio.provisional || flag.size() > -ALONE.ln())
        };
        let flags = std::mem::take(&mut self.flags);
        self.flags = regions(flags, &BTreeSet::new()).into_iter().filter(counts).flatten().collect();
        self.breaks = self.flags.iter().filter_map(border).collect();
    }

    /// Cells that their own variant's other cells show to be no yardstick for anyone else: too high at all, or
    /// much too low.
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

/// The most that the bare device moved in this mode's direction.
fn measured(matrix: &Matrix, mode: &Mode) -> Option<f64> {
    let alike = |other: &Mode| {
        other.name == mode.name || (mode.kind.is_some() && other.direction() == mode.direction())
    };
    let same = |at: &At| matrix.variants[at.variant].raw && alike(&matrix.modes[at.mode]);
    matrix.places().filter(same).filter_map(|at| matrix.bandwidth(at)).max_by(f64::total_cmp)
}

/// The border that a break along the block-size axis draws: all cells of one break are held against the
/// first cell beyond it.
fn border(flag: &Flag) -> Option<At> {
    let against = flag.against.filter(|_| matches!(flag.rule, Rule::IopsRise | Rule::BandwidthFalls))?;
    let size = if against.size > flag.at.size { against.size - 1 } else { against.size };
    Some(At { size, ..flag.at })
}
