//! Many claims at once: the e-BH procedure, and the level of the intervals of what it selects.

/// The indices of the hypotheses that e-BH rejects, strongest evidence first.
///
/// The largest j with e_(j) ≥ m/(α·j), e_(j) being the j-th largest of m (Wang and Ramdas 2022, "False
/// discovery rate control with e-values"). Of what is rejected at most the share α is expected to be
/// false, whatever the dependence between the claims. Each e-value must be the one at its claim's
/// stopping time, never the largest that was seen on the way.
pub fn e_bh(e: &[f64], alpha: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..e.len()).filter(|i| !e[*i].is_nan()).collect();
    order.sort_by(|a, b| e[*b].total_cmp(&e[*a]));
    let enough = |j: usize| e[order[j - 1]] * alpha * j as f64 >= e.len() as f64;
    let rejected = (1..=order.len()).rev().find(|j| enough(*j)).unwrap_or(0);
    order.truncate(rejected);
    order
}

/// The level of the intervals of `selected` of `m` claims so that the expected share of selected
/// intervals that miss is at most α: 1 − α·j/m (Benjamini and Yekutieli 2005; with e-values for any
/// dependence, Xu, Wang and Ramdas 2024). 1 where nothing was selected.
pub fn fcr_level(selected: usize, m: usize, alpha: f64) -> f64 {
    if m == 0 { 1.0 } else { 1.0 - alpha * selected as f64 / m as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_j_counts_even_where_a_smaller_one_fails() {
        // m = 4, α = .05: j = 1 needs 80, j = 2 needs 40, j = 3 needs 26.7, j = 4 needs 20.
        assert_eq!(e_bh(&[30.0, 1.0, 70.0, 27.0], 0.05), [2, 0, 3]);
        assert!(e_bh(&[30.0, 1.0, 70.0, 26.0], 0.05).is_empty());
        assert_eq!(e_bh(&[20.0; 4], 0.05), [0, 1, 2, 3]);
        assert_eq!(e_bh(&[f64::INFINITY, f64::NAN, 0.0], 0.05), [0]);
        assert!(e_bh(&[], 0.05).is_empty());
    }

    #[test]
    fn levels_by_hand() {
        assert_eq!(fcr_level(2, 10, 0.05), 0.99);
        assert_eq!(fcr_level(10, 10, 0.05), 0.95);
        assert_eq!(fcr_level(0, 0, 0.05), 1.0);
    }
}
