//! Findings: regions of flags with one cause.

use super::cells::Contrast;
use super::cells::{At, Matrix};
use super::limits::ALPHA;
use crate::evalue::e_bh;
use crate::ratio::Ratio;
use crate::table::FIRST_LOOK;
use fsarena_core::matrix::MatrixCell;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What one rule flagged in one region.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The rule.
    pub rule: Rule,
    /// The cells, by block size and threads.
    pub flags: Vec<Flag>,
}

/// How well a finding is founded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Single values against a tolerance: nothing is known of their spread.
    #[serde(rename = "single-values")]
    Table,
    /// Fewer than eight rounds: no interval is exact.
    Provisional,
    /// Intervals of the run that suggested it; fresh rounds have not been asked.
    Unconfirmed,
    /// Fresh rounds say the same.
    Confirmed,
    /// Fresh rounds do not say the same.
    NotConfirmed,
}

/// One anomaly: cells of one variant and mode that have one cause as far as the matrix can tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The variant, by index.
    pub variant: usize,
    /// The mode, by index.
    pub mode: usize,
    /// What the rules say of it; the one that describes it best comes first.
    pub parts: Vec<Part>,
    /// How well it is founded.
    pub standing: Standing,
    /// Whether e-BH over all comparisons of the run selected its first part's worst cell.
    pub selected: bool,
}

fn by_size(a: &&Flag, b: &&Flag) -> Ordering {
    a.size().total_cmp(&b.size())
}

impl Part {
    /// The cell that is furthest off.
    pub fn worst(&self) -> &Flag {
        // Of equals the last is taken by max_by; the first reads better.
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

    /// Size × extent: the sum of |ln ratio| over the cells.
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

    /// Size × extent: for each cell the largest |ln ratio| of any part, summed.
    pub fn weight(&self) -> f64 {
        let mut most: BTreeMap<At, f64> = BTreeMap::new();
        for flag in self.parts.iter().flat_map(|part| &part.flags) {
            let size = most.entry(flag.at).or_default();
            *size = size.max(flag.size());
        }
        most.values().sum()
    }
}

/// Groups flags into findings, largest first. `chosen` are the trials that e-BH selected.
pub fn findings(flags: Vec<Flag>, borders: &BTreeSet<At>, chosen: &[usize]) -> Vec<Finding> {
    // A break runs along its own borders; a level that is off on both sides of one has two causes.
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

fn finding(mut parts: Vec<Part>, chosen: &[usize]) -> Finding {
    let all: BTreeSet<At> = parts.iter().flat_map(Part::cells).collect();
    // A break that bounds the whole region says best what it is.
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

/// Parts that describe the same cells, together. The heaviest come first, and a part joins only one group, of
/// its own kind where it can: a single cell must not tie together what is apart.
fn merged(mut parts: Vec<Part>) -> Vec<Vec<Part>> {
    // Last the breaks that only bear out another rule's: they join what that one has joined.
    let bears_out = |part: &Part| part.rule.breaks() && !part.rule.bounds();
    parts.sort_by(|a, b| bears_out(a).cmp(&bears_out(b)).then(b.weight().total_cmp(&a.weight())));
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

/// Whether two regions of one variant and mode describe one thing.
///
/// Two rules of a kind do where half of the smaller region lies in the larger. A break and a level do where
/// two thirds of their cells are the same, or where one is a detail: inside the other, and under a third
/// of its size.
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

/// The cells to run again on fresh rounds: for every part of every finding its worst cell, and all that
/// cell is held against.
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

/// Holds the findings against fresh rounds of the cells of [`rerun`]: a finding was chosen because it stood out, so the
/// rounds that suggested it cannot be the ones that prove it. `fresh` names variants, modes and axes as
/// `matrix` does, and may lack everything else.
///
/// A finding is confirmed where for its first part's worst cell every test's interval breaks the rule
/// again, and e-BH over all findings tried selects it; it is refuted where an interval does not. It keeps
/// its standing where the fresh rounds are under eight, lack a cell, or are too few for e-BH.
pub fn confirm(findings: &mut [Finding], matrix: &Matrix, fresh: &Matrix) {
    let again = |(i, finding)| again(finding, matrix, fresh).map(|(beyond, e)| (i, beyond, e));
    let tried: Vec<(usize, bool, f64)> = findings.iter().enumerate().filter_map(again).collect();
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

fn again(finding: &Finding, matrix: &Matrix, fresh: &Matrix) -> Option<(bool, f64)> {
    let mut all = (true, f64::INFINITY);
    for test in &finding.first().worst().tests {
        let outcome = test.moved(matrix, fresh)?.outcome(fresh)?;
        if outcome.ratio.rounds < FIRST_LOOK {
            return None;
        }
        all = (all.0 && outcome.beyond, all.1.min(outcome.e));
    }
    Some(all)
}

/// A rule that a sound matrix keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Not above the bare device.
    AboveDevice,
    /// Not far below the bare device.
    BelowDevice,
    /// Sequential no slower than random.
    SequentialBelowRandom,
    /// Bandwidth does not fall as blocks grow.
    BandwidthFalls,
    /// Operations a second do not rise as blocks grow.
    IopsRise,
    /// More threads do not lose throughput.
    ScalingCollapse,
    /// More threads gain, as long as the device has more to give.
    Serialised,
    /// No variant far behind all others in the same mode.
    FarBehind,
    /// No variant falls behind from one block size to the next.
    Cliff,
    /// No cell far below what its row and its column explain (median polish).
    Interaction,
}

impl Rule {
    /// Whether the rule sees a break between neighbouring cells, and not a level that is off.
    pub fn breaks(self) -> bool {
        matches!(self, Rule::BandwidthFalls | Rule::IopsRise | Rule::ScalingCollapse | Rule::Cliff)
    }

    /// Whether the rule sees on its own cells alone where a region ends.
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
    /// The cell to compare with; None if the yardstick is a stated ceiling or a fit.
    pub against: Option<At>,
    /// The cell's throughput over the other's: bandwidth where block sizes differ under a rule about
    /// bandwidth, operations a second otherwise.
    pub ratio: Ratio,
    /// All that must hold for the flag, for fresh rounds to try again.
    pub tests: Vec<Contrast>,
    /// Which of the screen's comparisons raised it.
    pub trial: usize,
}

impl Flag {
    /// How far off the cell is: |ln ratio|.
    pub fn size(&self) -> f64 {
        self.ratio.value.ln().abs()
    }
}

/// Parts flags into regions, each of one rule, variant and mode, in that order: cells that are neighbours along one axis belong together,
/// unless a border runs between them (between a cell of `borders` and the next larger block size).
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
    fn levels_over_the_same_cells_are_one() {
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
    fn neighbours_join_and_corners_do_not() {
        let found =
            regions(vec![flag(0, 0), flag(1, 1), flag(1, 0), flag(3, 3), flag(2, 2)], &BTreeSet::new());
        assert_eq!(places(found), [vec![(0, 0), (1, 0), (1, 1)], vec![(2, 2)], vec![(3, 3)]]);
    }

    #[test]
    fn a_border_parts_neighbours_at_its_thread_count_only() {
        let border = At { variant: 0, mode: 0, size: 0, threads: 0 };
        let column = vec![flag(0, 0), flag(1, 0)];
        assert_eq!(regions(column.clone(), &[border].into()).len(), 2);
        let around = [column, vec![flag(0, 1), flag(1, 1)]].concat();
        assert_eq!(regions(around, &[border].into()).len(), 1);
    }
}
