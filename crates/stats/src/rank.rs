//! Agreement of two orders, and the ranks that each variant may have.

use fsarena_core::sample::Direction;

/// Kendall's τ-b of two lists of values, ties corrected: (C − D)/√((C + D + T_x)(C + D + T_y)).
/// Kendall (1945), "The treatment of ties in ranking problems". None where one list is all ties or has
/// fewer than two values.
pub fn kendall_tau_b(x: &[f64], y: &[f64]) -> Option<f64> {
    let (mut concordant, mut discordant, mut tied_x, mut tied_y) = (0.0, 0.0, 0.0, 0.0);
    for (i, j) in pairs(x.len().min(y.len())) {
        match (x[i] == x[j], y[i] == y[j]) {
            (true, true) => {}
            (true, false) => tied_x += 1.0,
            (false, true) => tied_y += 1.0,
            (false, false) if (x[i] < x[j]) == (y[i] < y[j]) => concordant += 1.0,
            (false, false) => discordant += 1.0,
        }
    }
    let below: f64 = (concordant + discordant + tied_x) * (concordant + discordant + tied_y);
    (below > 0.0).then(|| (concordant - discordant) / below.sqrt())
}

/// The pairs whose order differs between the two lists: (i, j) with x_i < x_j but y_i > y_j.
pub fn swapped(x: &[f64], y: &[f64]) -> Vec<(usize, usize)> {
    pairs(x.len().min(y.len()))
        .filter_map(|(i, j)| match (x[i].partial_cmp(&x[j])?, y[i].partial_cmp(&y[j])?) {
            (std::cmp::Ordering::Less, std::cmp::Ordering::Greater) => Some((i, j)),
            (std::cmp::Ordering::Greater, std::cmp::Ordering::Less) => Some((j, i)),
            _ => None,
        })
        .collect()
}

/// Every i < j < n.
pub(crate) fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

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

    #[test]
    fn agrees_with_scipy() {
        // scipy.stats.kendalltau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]).statistic
        let tau = kendall_tau_b(&[12.0, 2.0, 1.0, 12.0, 2.0], &[1.0, 4.0, 7.0, 1.0, 0.0]).unwrap();
        assert!((tau - -0.471_404_520_791_031_7).abs() < 1e-15, "{tau}");
    }

    #[test]
    fn same_and_opposite_orders() {
        assert_eq!(kendall_tau_b(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(1.0));
        assert_eq!(kendall_tau_b(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(kendall_tau_b(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(kendall_tau_b(&[1.0], &[1.0]), None);
    }

    #[test]
    fn swaps_name_the_former_better_first() {
        assert_eq!(swapped(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]), [(0, 1)]);
        assert_eq!(swapped(&[3.0, 2.0], &[1.0, 2.0]), [(1, 0)]);
        assert_eq!(swapped(&[1.0, 1.0], &[1.0, 2.0]), []);
    }

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
