//! The rules, what they flag, and the regions of flags that touch.

use super::{cells::At, contrast::Contrast};
use crate::ratio::Ratio;
use serde::Serialize;
use std::collections::BTreeSet;

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
