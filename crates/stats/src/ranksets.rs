//! The ranks that each variant may have.

use fsarena_core::sample::Direction;

/// The ranks, first and last, that simultaneous intervals leave to each variant: rank_i from 1 + #better
/// to k − #worse (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for ranks"). Together they hold with
/// the confidence of the intervals. `intervals[i][j]` bounds ln(j/i) as [`crate::simultaneous`] gives it.
///
/// None where neither way is better.
pub fn rank_sets(intervals: &[Vec<(f64, f64)>], direction: Direction) -> Option<Vec<(usize, usize)>> {
    let variants = intervals.len();
    let below = |i: usize, j: usize| intervals[i][j].1 < 0.0; // j certainly below i
    let better = |i: usize, j: usize| match direction {
        Direction::Lower => below(i, j),
        Direction::Higher | Direction::Neutral => intervals[i][j].0 > 0.0,
    };
    let count = |of: &dyn Fn(usize) -> bool| (0..variants).filter(|j| of(*j)).count();
    let set = |i: usize| {
        let (ahead, behind) = (count(&|j| j != i && better(i, j)), count(&|j| j != i && better(j, i)));
        (1 + ahead, variants - behind)
    };
    (direction != Direction::Neutral).then(|| (0..variants).map(set).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variants at these places on the logarithmic scale, every interval ±1 wide.
    fn at(places: &[f64]) -> Vec<Vec<(f64, f64)>> {
        places.iter().map(|i| places.iter().map(|j| (j - i - 1.0, j - i + 1.0)).collect()).collect()
    }

    #[test]
    fn sets_by_hand() {
        // 0 and 0.5 do not differ significantly, nor do 0.5 and 1.2; 5 is behind them all.
        let intervals = at(&[0.0, 0.5, 1.2, 5.0]);
        let lower = rank_sets(&intervals, Direction::Lower).unwrap();
        assert_eq!(lower, [(1, 2), (1, 3), (2, 3), (4, 4)]);
        let higher = rank_sets(&intervals, Direction::Higher).unwrap();
        assert_eq!(higher, [(3, 4), (2, 4), (2, 3), (1, 1)]);
        assert_eq!(rank_sets(&intervals, Direction::Neutral), None);
        assert_eq!(rank_sets(&[], Direction::Lower), Some(vec![]));
    }
}
