//! Cells that touch.

use super::{cells::At, rule::Flag};
use std::collections::BTreeSet;

/// Parts flags of one variant and mode into regions: cells that are neighbours along one axis belong together,
/// unless a border runs between them (between a cell of `borders` and the next larger block size).
pub fn regions(flags: Vec<Flag>, borders: &BTreeSet<At>) -> Vec<Vec<Flag>> {
    let mut rest = flags;
    let mut regions = Vec::new();
    while let Some(seed) = rest.pop() {
        let mut region = vec![seed];
        let mut seen = 0;
        while seen < region.len() {
            let here = region[seen].at;
            let (near, far) = rest.into_iter().partition(|flag| touch(here, flag.at, borders));
            let near: Vec<Flag> = near;
            region.extend(near);
            rest = far;
            seen += 1;
        }
        region.sort_by_key(|flag| flag.at);
        regions.push(region);
    }
    regions.sort_by_key(|region| region[0].at);
    regions
}

fn touch(a: At, b: At, borders: &BTreeSet<At>) -> bool {
    if (a.variant, a.mode) != (b.variant, b.mode) {
        return false;
    }
    let (sizes, threads) = (a.size.abs_diff(b.size), a.threads.abs_diff(b.threads));
    sizes + threads == 1 && (sizes == 0 || !borders.contains(&At { size: a.size.min(b.size), ..a }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::rule::Rule;
    use crate::ratio::Ratio;

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
