//! Groups flagged cells into findings: regions with one cause.

use super::cells::Contrast;
use super::cells::{At, Matrix};
use crate::evalue::e_bh;
use crate::ratio::Ratio;
use crate::table::FIRST_LOOK;
use fsarena_core::matrix::MatrixCell;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The expected share of false findings among those that e-BH selects is at most this.
pub const ALPHA: f64 = 0.05;

/// A region of cells that one rule flagged.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The rule.
    pub rule: Rule,
    /// The cells, by block size and threads.
    pub flags: Vec<Flag>,
}

/// How reliable a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Based on single values, whose spread is unknown.
    #[serde(rename = "single-values")]
    Table,
    /// Based on fewer than eight rounds, for which no exact interval exists.
    Provisional,
    /// Based on intervals of the run itself; no new rounds have been measured.
    Unconfirmed,
    /// New rounds show the same.
    Confirmed,
    /// New rounds do not show it.
    NotConfirmed,
}

/// One anomaly: cells of one variant and mode that probably have the same cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The variant, by index.
    pub variant: usize,
    /// The mode, by index.
    pub mode: usize,
    /// The regions of the rules that flagged it; the one that describes it best comes first.
    pub parts: Vec<Part>,
    /// How reliable it is.
    pub standing: Standing,
    /// Whether e-BH over all comparisons of the run selected the worst cell of its first part.
    pub selected: bool,
}

fn by_size(a: &&Flag, b: &&Flag) -> Ordering {
    a.size().total_cmp(&b.size())
}

impl Part {
    /// The cell that is furthest off.
    pub fn worst(&self) -> &Flag {
        // Of equal flags, max_by returns the last; reversed, it returns the first.
        self.flags.iter().rev().max_by(by_size).expect("a part has a cell")
    }

    /// The cell that is least off.
    pub fn least(&self) -> &Flag {
        self.flags.iter().min_by(by_size).expect("a part has a cell")
    }

    /// The cells.
    pub fn cells(&self) -> BTreeSet<At> {
        self.flags.iter().map(|flag| flag.at).collect()
    }

    /// Its size × extent: the sum of |ln ratio| over the cells.
    pub fn weight(&self) -> f64 {
        self.flags.iter().map(Flag::size).sum()
    }
}

impl Finding {
    /// The part that describes it best.
    pub fn first(&self) -> &Part {
        &self.parts[0]
    }

    /// Every cell that any part flags.
    pub fn cells(&self) -> BTreeSet<At> {
        self.parts.iter().flat_map(Part::cells).collect()
    }

    /// Its size × extent: the sum over the cells of the largest |ln ratio| in any part.
    pub fn weight(&self) -> f64 {
        let mut most: BTreeMap<At, f64> = BTreeMap::new();
        for flag in self.parts.iter().flat_map(|part| &part.flags) {
            let size = most.entry(flag.at).or_default();
            *size = size.max(flag.size());
        }
        most.values().sum()
    }
}

/// Groups flags into findings, largest first. `chosen` has the indices of the comparisons that e-BH selected.
pub fn findings(flags: Vec<Flag>, borders: &BTreeSet<At>, chosen: &[usize]) -> Vec<Finding> {
    // A region of a break may cross borders. A region of a level may not: on both sides of a border it has different causes.
    let (breaks, levels) = flags.into_iter().partition(|flag| flag.rule.breaks());
    let mut regions = [regions(breaks, &BTreeSet::new()), regions(levels, borders)].concat();
    regions.sort_by_key(|flags| (flags[0].rule, flags[0].at));
    let mut tables: BTreeMap<(usize, usize), Vec<Part>> = BTreeMap::new();
    for flags in regions {
        let Flag { rule, at, .. } = flags[0];
        tables.entry((at.variant, at.mode)).or_default().push(Part { rule, flags });
    }
    let groups = tables.into_values().flat_map(merged);
    let mut findings: Vec<Finding> = groups.map(|parts| finding(parts, chosen)).collect();
    findings.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    findings
}

/// Makes a finding from its parts.
fn finding(mut parts: Vec<Part>, chosen: &[usize]) -> Finding {
    let all: BTreeSet<At> = parts.iter().flat_map(Part::cells).collect();
    // A break that covers most of the region describes it best.
    let bounds = |part: &Part| part.rule.bounds() && 3 * part.flags.len() >= 2 * all.len();
    parts.sort_by(|a, b| bounds(b).cmp(&bounds(a)).then(b.weight().total_cmp(&a.weight())));
    let worst = parts[0].worst();
    let standing = match (worst.ratio.rounds, worst.ratio.provisional) {
        (1, _) => Standing::Table,
        (_, true) => Standing::Provisional,
        (_, false) => Standing::Unconfirmed,
    };
    let selected = chosen.contains(&worst.trial);
    Finding { variant: worst.at.variant, mode: worst.at.mode, standing, selected, parts }
}

/// Groups the parts that describe the same cells. The heaviest parts come first. A part joins only one group, if possible one
/// of its own kind, so that a single cell cannot connect separate groups.
fn merged(mut parts: Vec<Part>) -> Vec<Vec<Part>> {
    // Cliffs come last: they only support another break, and join its group.
    let only_supports = |part: &Part| part.rule.breaks() && !part.rule.bounds();
    parts.sort_by(|a, b| only_supports(a).cmp(&only_supports(b)).then(b.weight().total_cmp(&a.weight())));
    let mut groups: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        let mut alike = [true, false].into_iter().filter_map(|same_kind| {
            let joins = |other: &Part| {
                (part.rule.breaks() == other.rule.breaks()) == same_kind && one_cause(&part, other)
            };
            groups.iter().position(|group| group.iter().any(joins))
        });
        match alike.next() {
            Some(group) => groups[group].push(part),
            None => groups.push(vec![part]),
        }
    }
    groups
}

/// Whether two regions of one variant and mode probably have the same cause.
///
/// Two breaks, or two levels, do if at least half of the smaller region is in the larger. A break and a level do if two thirds
/// of their cells are the same, or if one is a detail of the other: inside it, and under a third of its size.
fn one_cause(a: &Part, b: &Part) -> bool {
    let (cells, others) = (a.cells(), b.cells());
    let common = cells.intersection(&others).count();
    if a.rule.breaks() == b.rule.breaks() {
        return a.rule != b.rule && 2 * common >= cells.len().min(others.len());
    }
    let all = cells.len() + others.len() - common;
    let detail = |part: &Part, whole: &Part| {
        common == part.flags.len() && 3.0 * part.worst().size() < whole.worst().size()
    };
    3 * common >= 2 * all || detail(a, b) || detail(b, a)
}

/// The cells to measure again in new rounds: for every part of every finding, its worst cell and all cells that this one is
/// compared with.
pub fn rerun(findings: &[Finding]) -> BTreeSet<At> {
    let worst = findings.iter().flat_map(|finding| &finding.parts).map(|part| part.worst());
    worst.flat_map(|flag| &flag.tests).flat_map(|test| &test.terms).map(|(at, _)| *at).collect()
}

/// The cells of [`rerun`] by their names and numbers.
pub fn cells_to_rerun(findings: &[Finding], matrix: &Matrix) -> Vec<MatrixCell> {
    let named = |at: At| MatrixCell {
        variant: matrix.variants[at.variant].name.clone(),
        mode: matrix.modes[at.mode].name.clone(),
        block_size: matrix.sizes[at.size],
        threads: matrix.threads[at.threads],
    };
    rerun(findings).into_iter().map(named).collect()
}

/// Checks the findings with new rounds of the cells of [`rerun`]. A finding was selected because it is extreme, so the rounds
/// that suggested it cannot also prove it. `fresh` uses the names of `matrix`, and may lack other cells.
///
/// A finding is confirmed if for the worst cell of its first part every test breaks the rule again, and e-BH over all repeated
/// findings selects it. It is not confirmed if an interval keeps the rule. Its standing does not change if there are fewer than
/// eight new rounds, a cell is missing, or the rounds are too few for e-BH.
pub fn confirm(findings: &mut [Finding], matrix: &Matrix, fresh: &Matrix) {
    let mut tried: Vec<(usize, bool, f64)> = vec![];
    for (i, finding) in findings.iter().enumerate() {
        if let Some((beyond, e)) = repeat(finding, matrix, fresh) {
            tried.push((i, beyond, e));
        }
    }
    let e: Vec<f64> = tried.iter().map(|(.., e)| *e).collect();
    let chosen = e_bh(&e, ALPHA);
    for (k, (i, beyond, _)) in tried.into_iter().enumerate() {
        match (beyond, chosen.contains(&k)) {
            (true, true) => findings[i].standing = Standing::Confirmed,
            (true, false) => {}
            (false, _) => findings[i].standing = Standing::NotConfirmed,
        }
    }
}

/// Repeats the tests of a finding's worst cell on new rounds: whether all break the rule, and their smallest e-value. None if
/// the new rounds do not suffice.
fn repeat(finding: &Finding, matrix: &Matrix, fresh: &Matrix) -> Option<(bool, f64)> {
    let (mut all_beyond, mut least_e) = (true, f64::INFINITY);
    for test in &finding.first().worst().tests {
        let outcome = test.moved(matrix, fresh)?.outcome(fresh)?;
        if outcome.ratio.rounds < FIRST_LOOK {
            return None;
        }
        all_beyond &= outcome.beyond;
        least_e = least_e.min(outcome.e);
    }
    Some((all_beyond, least_e))
}

/// A rule that a matrix of sound storage keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Throughput is not above the bare device.
    AboveDevice,
    /// Throughput is not far below the bare device.
    BelowDevice,
    /// Sequential requests are not slower than random ones.
    SequentialBelowRandom,
    /// Bandwidth does not fall as blocks grow.
    BandwidthFalls,
    /// Operations per second do not rise as blocks grow.
    IopsRise,
    /// More threads do not lose throughput.
    ScalingCollapse,
    /// More threads gain throughput as long as the device can do more.
    Serialised,
    /// No variant is far behind all others in the same cell.
    FarBehind,
    /// No variant falls behind the others from one block size to the next.
    Cliff,
    /// No cell is far below the level that its row and its column explain (median polish).
    Interaction,
}

impl Rule {
    /// Whether the rule finds a break between neighbouring cells. Otherwise it finds cells whose level is off.
    pub fn breaks(self) -> bool {
        matches!(self, Rule::BandwidthFalls | Rule::IopsRise | Rule::ScalingCollapse | Rule::Cliff)
    }

    /// Whether the rule finds the end of a region from the cells of one variant alone.
    pub fn bounds(self) -> bool {
        self.breaks() && self != Rule::Cliff
    }
}

/// One cell that breaks a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// The rule.
    pub rule: Rule,
    /// The cell.
    pub at: At,
    /// The cell that it is compared with; None if it is compared with a stated bandwidth or a fit.
    pub against: Option<At>,
    /// The cell's throughput divided by the other's: bandwidth under [`Rule::BandwidthFalls`], else operations per second.
    pub ratio: Ratio,
    /// The tests that the cell failed, which new rounds repeat.
    pub tests: Vec<Contrast>,
    /// The index of the comparison that raised it.
    pub trial: usize,
}

impl Flag {
    /// How far off the cell is: |ln ratio|.
    pub fn size(&self) -> f64 {
        self.ratio.value.ln().abs()
    }
}

/// Groups flags into regions, each of one rule, variant and mode, and sorts these. Cells that are neighbours along one axis are
/// in one region, unless a border is between them: between a cell of `borders` and the next larger block size.
pub fn regions(flags: Vec<Flag>, borders: &BTreeSet<At>) -> Vec<Vec<Flag>> {
    let mut rest = flags;
    let mut regions = Vec::new();
    while let Some(seed) = rest.pop() {
        let mut region = vec![seed];
        let mut seen = 0;
        while seen < region.len() {
            let (near, far): (Vec<Flag>, _) =
                rest.into_iter().partition(|flag| touch(&region[seen], flag, borders));
            region.extend(near);
            rest = far;
            seen += 1;
        }
        region.sort_by_key(|flag| flag.at);
        regions.push(region);
    }
    regions.sort_by_key(|region| (region[0].rule, region[0].at));
    regions
}

fn touch(one: &Flag, other: &Flag, borders: &BTreeSet<At>) -> bool {
    let (a, b) = (one.at, other.at);
    if (one.rule, a.variant, a.mode) != (other.rule, b.variant, b.mode) {
        return false;
    }
    let (sizes, threads) = (a.size.abs_diff(b.size), a.threads.abs_diff(b.threads));
    sizes + threads == 1 && (sizes == 0 || !borders.contains(&At { size: a.size.min(b.size), ..a }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::Ratio;

    fn part(rule: Rule, ratio: f64, places: &[(usize, usize)]) -> Part {
        let flag = |(size, threads): &(usize, usize)| Flag {
            rule,
            at: At { variant: 0, mode: 0, size: *size, threads: *threads },
            against: None,
            ratio: Ratio { value: ratio, low: ratio, high: ratio, rounds: 1, provisional: true },
            tests: vec![],
            trial: 0,
        };
        Part { rule, flags: places.iter().map(flag).collect() }
    }

    #[test]
    fn two_levels_have_one_cause_if_they_share_half_of_the_smaller_region() {
        let row = [(0, 0), (0, 1), (0, 2), (0, 3)];
        let behind = part(Rule::FarBehind, 0.2, &row[1..]);
        assert!(one_cause(&behind, &part(Rule::Serialised, 0.3, &row)));
        assert!(!one_cause(&behind, &part(Rule::Serialised, 0.3, &[(0, 1), (1, 1), (1, 2)])));
    }

    #[test]
    fn a_break_joins_a_level_only_as_a_detail_or_over_the_same_cells() {
        let row = [(0, 0), (0, 1), (0, 2), (0, 3)];
        let level = part(Rule::Serialised, 0.3, &row);
        assert!(one_cause(&part(Rule::ScalingCollapse, 0.9, &row[2..]), &level), "a detail");
        assert!(!one_cause(&part(Rule::ScalingCollapse, 0.3, &row[2..]), &level), "large, and elsewhere too");
        assert!(one_cause(&part(Rule::ScalingCollapse, 0.3, &row[1..]), &level), "the same cells");
    }

    #[test]
    fn weight_counts_each_cell_once() {
        let (a, b) = (part(Rule::Serialised, 0.5, &[(0, 0)]), part(Rule::FarBehind, 0.25, &[(0, 0), (0, 1)]));
        let finding = finding(vec![a, b], &[]);
        assert_eq!(finding.first().rule, Rule::FarBehind);
        assert!((finding.weight() - 2.0 * 4f64.ln()).abs() < 1e-12);
        assert_eq!(finding.standing, Standing::Table);
    }

    fn flag(size: usize, threads: usize) -> Flag {
        let ratio = Ratio { value: 0.5, low: 0.5, high: 0.5, rounds: 1, provisional: true };
        let at = At { variant: 0, mode: 0, size, threads };
        Flag { rule: Rule::Cliff, at, against: None, ratio, tests: vec![], trial: 0 }
    }

    fn places(regions: Vec<Vec<Flag>>) -> Vec<Vec<(usize, usize)>> {
        regions.iter().map(|r| r.iter().map(|f| (f.at.size, f.at.threads)).collect()).collect()
    }

    #[test]
    fn neighbours_form_a_region_and_diagonal_cells_do_not() {
        let found =
            regions(vec![flag(0, 0), flag(1, 1), flag(1, 0), flag(3, 3), flag(2, 2)], &BTreeSet::new());
        assert_eq!(places(found), [vec![(0, 0), (1, 0), (1, 1)], vec![(2, 2)], vec![(3, 3)]]);
    }

    #[test]
    fn a_border_separates_neighbours_only_at_its_thread_count() {
        let border = At { variant: 0, mode: 0, size: 0, threads: 0 };
        let column = vec![flag(0, 0), flag(1, 0)];
        assert_eq!(regions(column.clone(), &[border].into()).len(), 2);
        let around = [column, vec![flag(0, 1), flag(1, 1)]].concat();
        assert_eq!(regions(around, &[border].into()).len(), 1);
    }
}
