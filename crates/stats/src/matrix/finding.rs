//! Groups flagged cells into findings: regions with one cause.

use super::cells::{CellPosition, Contrast, Matrix};
use crate::critical_values::FIRST_LOOK_ROUNDS;
use crate::evalue::e_bh;
use crate::ratio::Ratio;
use fsarena_core::rerun::BlockThreadsCell;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The expected share of false findings among those that e-BH selects is at most this.
pub const ALPHA: f64 = 0.05;

/// A region of cells that one rule flagged.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingPart {
    /// The rule.
    pub rule: Rule,
    /// One flag for each cell of the region, by block size and threads.
    pub flags: Vec<Flag>,
}

/// How reliable a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reliability {
    /// Based on single values, whose spread is unknown.
    SingleValues,
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
    pub parts: Vec<FindingPart>,
    /// How reliable it is.
    pub reliability: Reliability,
    /// Whether e-BH over all comparisons of the run selected the comparison of the worst cell of its first part.
    pub selected: bool,
}

/// Orders two flags by how far off their cells are.
fn compare_deviations(a: &&Flag, b: &&Flag) -> Ordering {
    a.deviation().total_cmp(&b.deviation())
}

impl FindingPart {
    /// The flag of the cell that is furthest off.
    pub fn worst_flag(&self) -> &Flag {
        // Of equal flags, max_by returns the last; reversed, it returns the first.
        self.flags.iter().rev().max_by(compare_deviations).expect("a part has a cell")
    }

    /// The flag of the cell that is least off.
    pub fn mildest_flag(&self) -> &Flag {
        self.flags.iter().min_by(compare_deviations).expect("a part has a cell")
    }

    /// The cells.
    pub fn cells(&self) -> BTreeSet<CellPosition> {
        self.flags.iter().map(|flag| flag.cell).collect()
    }

    /// Its size × extent: the sum of |ln ratio| over the cells.
    pub fn weight(&self) -> f64 {
        self.flags.iter().map(Flag::deviation).sum()
    }
}

impl Finding {
    /// The part that describes it best.
    pub fn main_part(&self) -> &FindingPart {
        &self.parts[0]
    }

    /// Every cell that any part flags.
    pub fn cells(&self) -> BTreeSet<CellPosition> {
        self.parts.iter().flat_map(FindingPart::cells).collect()
    }

    /// Its size × extent: the sum over the cells of the largest |ln ratio| in any part.
    pub fn weight(&self) -> f64 {
        let mut largest: BTreeMap<CellPosition, f64> = BTreeMap::new();
        for flag in self.parts.iter().flat_map(|part| &part.flags) {
            let deviation = largest.entry(flag.cell).or_default();
            *deviation = deviation.max(flag.deviation());
        }
        largest.values().sum()
    }
}

/// Groups flags into findings, largest first. `selected_comparisons` has the indices of the comparisons that e-BH selected.
pub fn group_into_findings(
    flags: Vec<Flag>,
    borders: &BTreeSet<CellPosition>,
    selected_comparisons: &[usize],
) -> Vec<Finding> {
    // A region of a break may cross borders. A region of a level may not: on both sides of a border it has different causes.
    let (breaks, levels) = flags.into_iter().partition(|flag| flag.rule.finds_breaks());
    let mut regions = [group_into_regions(breaks, &BTreeSet::new()), group_into_regions(levels, borders)].concat();
    regions.sort_by_key(|flags| (flags[0].rule, flags[0].cell));
    // By variant and mode.
    let mut parts: BTreeMap<(usize, usize), Vec<FindingPart>> = BTreeMap::new();
    for flags in regions {
        let Flag { rule, cell, .. } = flags[0];
        parts.entry((cell.variant, cell.mode)).or_default().push(FindingPart { rule, flags });
    }
    let groups = parts.into_values().flat_map(group_by_cause);
    let mut findings: Vec<Finding> = groups.map(|parts| make_finding(parts, selected_comparisons)).collect();
    findings.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    findings
}

/// Makes a finding from its parts. `selected_comparisons` is as in [`group_into_findings`].
fn make_finding(mut parts: Vec<FindingPart>, selected_comparisons: &[usize]) -> Finding {
    let all: BTreeSet<CellPosition> = parts.iter().flat_map(FindingPart::cells).collect();
    // A break that covers most of the region describes it best.
    let describes_best = |part: &FindingPart| part.rule.bounds_region() && 3 * part.flags.len() >= 2 * all.len();
    parts.sort_by(|a, b| describes_best(b).cmp(&describes_best(a)).then(b.weight().total_cmp(&a.weight())));
    let worst = parts[0].worst_flag();
    let reliability = match (worst.ratio.rounds, worst.ratio.provisional) {
        (1, _) => Reliability::SingleValues,
        (_, true) => Reliability::Provisional,
        (_, false) => Reliability::Unconfirmed,
    };
    let selected = selected_comparisons.contains(&worst.comparison);
    Finding { variant: worst.cell.variant, mode: worst.cell.mode, reliability, selected, parts }
}

/// Groups the parts that describe the same cells. The heaviest parts come first. A part joins only one group, if possible one
/// of its own kind, so that a single cell cannot connect separate groups.
fn group_by_cause(mut parts: Vec<FindingPart>) -> Vec<Vec<FindingPart>> {
    // Cliffs come last: they only support another break, and join its group.
    let only_supports = |part: &FindingPart| part.rule.finds_breaks() && !part.rule.bounds_region();
    parts.sort_by(|a, b| only_supports(a).cmp(&only_supports(b)).then(b.weight().total_cmp(&a.weight())));
    let mut groups: Vec<Vec<FindingPart>> = Vec::new();
    for part in parts {
        let mut matching = [true, false].into_iter().filter_map(|same_kind| {
            let joins = |other: &FindingPart| {
                (part.rule.finds_breaks() == other.rule.finds_breaks()) == same_kind && have_one_cause(&part, other)
            };
            groups.iter().position(|group| group.iter().any(joins))
        });
        match matching.next() {
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
fn have_one_cause(a: &FindingPart, b: &FindingPart) -> bool {
    let (cells, others) = (a.cells(), b.cells());
    let common = cells.intersection(&others).count();
    if a.rule.finds_breaks() == b.rule.finds_breaks() {
        return a.rule != b.rule && 2 * common >= cells.len().min(others.len());
    }
    let in_either = cells.len() + others.len() - common;
    let is_detail = |part: &FindingPart, whole: &FindingPart| {
        common == part.flags.len() && 3.0 * part.worst_flag().deviation() < whole.worst_flag().deviation()
    };
    3 * common >= 2 * in_either || is_detail(a, b) || is_detail(b, a)
}

/// The cells to measure again in new rounds: for every part of every finding, its worst cell and all cells that this one is
/// compared with.
pub fn positions_to_rerun(findings: &[Finding]) -> BTreeSet<CellPosition> {
    let worst = findings.iter().flat_map(|finding| &finding.parts).map(|part| part.worst_flag());
    worst.flat_map(|flag| &flag.tests).flat_map(|test| &test.terms).map(|(cell, _)| *cell).collect()
}

/// The cells of [`positions_to_rerun`] by their names and numbers.
pub fn cells_to_rerun(findings: &[Finding], matrix: &Matrix) -> Vec<BlockThreadsCell> {
    let with_names = |cell: CellPosition| BlockThreadsCell {
        variant: matrix.variants[cell.variant].name.clone(),
        mode: matrix.modes[cell.mode].name.clone(),
        block_size: matrix.sizes[cell.size],
        threads: matrix.threads[cell.threads],
    };
    positions_to_rerun(findings).into_iter().map(with_names).collect()
}

/// Checks the findings with new rounds of the cells of [`positions_to_rerun`]. A finding was selected because it is extreme, so
/// the rounds that suggested it cannot also prove it. `fresh` uses the names of `matrix`, and may lack other cells.
///
/// A finding is confirmed if for the worst cell of its first part every test breaks the rule again, and e-BH over all repeated
/// findings selects it. It is not confirmed if an interval keeps the rule. Its reliability does not change if there are fewer
/// than eight new rounds, a cell is missing, or the rounds are too few for e-BH.
pub fn confirm(findings: &mut [Finding], matrix: &Matrix, fresh: &Matrix) {
    // For each finding that could be tested again: its index, whether all tests break the rule, and their smallest e-value.
    let mut repeated: Vec<(usize, bool, f64)> = vec![];
    for (index, finding) in findings.iter().enumerate() {
        if let Some((all_break_rule, e_value)) = repeat_tests(finding, matrix, fresh) {
            repeated.push((index, all_break_rule, e_value));
        }
    }
    let e_values: Vec<f64> = repeated.iter().map(|(.., e_value)| *e_value).collect();
    let selected = e_bh(&e_values, ALPHA);
    for (number, (index, all_break_rule, _)) in repeated.into_iter().enumerate() {
        if !all_break_rule {
            findings[index].reliability = Reliability::NotConfirmed;
        } else if selected.contains(&number) {
            findings[index].reliability = Reliability::Confirmed;
        }
    }
}

/// Repeats the tests of a finding's worst cell on new rounds: whether all break the rule, and their smallest e-value. None if
/// the new rounds do not suffice.
fn repeat_tests(finding: &Finding, matrix: &Matrix, fresh: &Matrix) -> Option<(bool, f64)> {
    let (mut all_break_rule, mut least_e_value) = (true, f64::INFINITY);
    for test in &finding.main_part().worst_flag().tests {
        let outcome = test.translate(matrix, fresh)?.evaluate(fresh)?;
        if outcome.ratio.rounds < FIRST_LOOK_ROUNDS {
            return None;
        }
        all_break_rule &= outcome.breaks_rule;
        least_e_value = least_e_value.min(outcome.e_value);
    }
    Some((all_break_rule, least_e_value))
}

/// A rule that a matrix of sound storage keeps. A variant is named after the violation; its comment is the rule.
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
    pub fn finds_breaks(self) -> bool {
        matches!(self, Rule::BandwidthFalls | Rule::IopsRise | Rule::ScalingCollapse | Rule::Cliff)
    }

    /// Whether the rule finds the end of a region from the cells of one variant alone.
    pub fn bounds_region(self) -> bool {
        self.finds_breaks() && self != Rule::Cliff
    }
}

/// One cell that breaks a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// The rule.
    pub rule: Rule,
    /// The cell.
    pub cell: CellPosition,
    /// The cell that it is compared with; None if it is compared with a stated bandwidth or a fit.
    pub reference: Option<CellPosition>,
    /// The cell's throughput divided by the other's: bandwidth under [`Rule::BandwidthFalls`], else operations per second.
    pub ratio: Ratio,
    /// The tests that the cell failed, which new rounds repeat.
    pub tests: Vec<Contrast>,
    /// The index of the comparison that raised the flag.
    pub comparison: usize,
}

impl Flag {
    /// How far off the cell is: |ln ratio|.
    pub fn deviation(&self) -> f64 {
        self.ratio.value.ln().abs()
    }
}

/// Groups flags into regions, each of one rule, variant and mode, and sorts these. Cells that are neighbours along one axis are
/// in one region, unless a border is between them: between a cell of `borders` and the next larger block size.
pub fn group_into_regions(flags: Vec<Flag>, borders: &BTreeSet<CellPosition>) -> Vec<Vec<Flag>> {
    let mut unassigned = flags;
    let mut regions = Vec::new();
    while let Some(seed) = unassigned.pop() {
        let mut region = vec![seed];
        // Flags of the region whose neighbours have been added.
        let mut processed = 0;
        while processed < region.len() {
            let (neighbours, others): (Vec<Flag>, _) =
                unassigned.into_iter().partition(|flag| are_neighbours(&region[processed], flag, borders));
            region.extend(neighbours);
            unassigned = others;
            processed += 1;
        }
        region.sort_by_key(|flag| flag.cell);
        regions.push(region);
    }
    regions.sort_by_key(|region| (region[0].rule, region[0].cell));
    regions
}

/// Whether two flags belong to one region: the same rule, variant and mode, in adjacent cells without a border between them.
fn are_neighbours(flag: &Flag, other: &Flag, borders: &BTreeSet<CellPosition>) -> bool {
    let (a, b) = (flag.cell, other.cell);
    if (flag.rule, a.variant, a.mode) != (other.rule, b.variant, b.mode) {
        return false;
    }
    let (sizes, threads) = (a.size.abs_diff(b.size), a.threads.abs_diff(b.threads));
    sizes + threads == 1 && (sizes == 0 || !borders.contains(&CellPosition { size: a.size.min(b.size), ..a }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::Ratio;

    fn part(rule: Rule, ratio: f64, places: &[(usize, usize)]) -> FindingPart {
        let flag = |(size, threads): &(usize, usize)| Flag {
            rule,
            cell: CellPosition { variant: 0, mode: 0, size: *size, threads: *threads },
            reference: None,
            ratio: Ratio { value: ratio, low: ratio, high: ratio, rounds: 1, provisional: true },
            tests: vec![],
            comparison: 0,
        };
        FindingPart { rule, flags: places.iter().map(flag).collect() }
    }

    #[test]
    fn two_levels_have_one_cause_if_they_share_half_of_the_smaller_region() {
        let row = [(0, 0), (0, 1), (0, 2), (0, 3)];
        let behind = part(Rule::FarBehind, 0.2, &row[1..]);
        assert!(have_one_cause(&behind, &part(Rule::Serialised, 0.3, &row)));
        assert!(!have_one_cause(&behind, &part(Rule::Serialised, 0.3, &[(0, 1), (1, 1), (1, 2)])));
    }

    #[test]
    fn a_break_joins_a_level_only_as_a_detail_or_over_the_same_cells() {
        let row = [(0, 0), (0, 1), (0, 2), (0, 3)];
        let level = part(Rule::Serialised, 0.3, &row);
        assert!(have_one_cause(&part(Rule::ScalingCollapse, 0.9, &row[2..]), &level), "a detail");
        assert!(!have_one_cause(&part(Rule::ScalingCollapse, 0.3, &row[2..]), &level), "large, and elsewhere too");
        assert!(have_one_cause(&part(Rule::ScalingCollapse, 0.3, &row[1..]), &level), "the same cells");
    }

    #[test]
    fn weight_counts_each_cell_once() {
        let (a, b) = (part(Rule::Serialised, 0.5, &[(0, 0)]), part(Rule::FarBehind, 0.25, &[(0, 0), (0, 1)]));
        let finding = make_finding(vec![a, b], &[]);
        assert_eq!(finding.main_part().rule, Rule::FarBehind);
        assert!((finding.weight() - 2.0 * 4f64.ln()).abs() < 1e-12);
        assert_eq!(finding.reliability, Reliability::SingleValues);
    }

    fn flag(size: usize, threads: usize) -> Flag {
        let ratio = Ratio { value: 0.5, low: 0.5, high: 0.5, rounds: 1, provisional: true };
        let cell = CellPosition { variant: 0, mode: 0, size, threads };
        Flag { rule: Rule::Cliff, cell, reference: None, ratio, tests: vec![], comparison: 0 }
    }

    fn places(regions: Vec<Vec<Flag>>) -> Vec<Vec<(usize, usize)>> {
        regions.iter().map(|r| r.iter().map(|f| (f.cell.size, f.cell.threads)).collect()).collect()
    }

    #[test]
    fn neighbours_form_a_region_and_diagonal_cells_do_not() {
        let found =
            group_into_regions(vec![flag(0, 0), flag(1, 1), flag(1, 0), flag(3, 3), flag(2, 2)], &BTreeSet::new());
        assert_eq!(places(found), [vec![(0, 0), (1, 0), (1, 1)], vec![(2, 2)], vec![(3, 3)]]);
    }

    #[test]
    fn a_border_separates_neighbours_only_at_its_thread_count() {
        let border = CellPosition { variant: 0, mode: 0, size: 0, threads: 0 };
        let column = vec![flag(0, 0), flag(1, 0)];
        assert_eq!(group_into_regions(column.clone(), &[border].into()).len(), 2);
        let around = [column, vec![flag(0, 1), flag(1, 1)]].concat();
        assert_eq!(group_into_regions(around, &[border].into()).len(), 1);
    }
}
