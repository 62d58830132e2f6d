//! Agreement of two orders.

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

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
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
}
