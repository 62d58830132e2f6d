//! The sign test's interval of a median.

use crate::comparison::median;

/// The median and its 95% interval [d_(k+1), d_(n−k)], k the largest number with P(B ≤ k) ≤ 0.025 for
/// B ~ Binomial(n, ½) (Conover 1999, section 3.2). It needs no symmetry. Under six values no interval of
/// this kind reaches 95%, and the extremes are given. None without values.
pub fn interval(d: &[f64]) -> Option<(f64, (f64, f64))> {
    let mut sorted = d.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let k = critical(d.len());
    Some((median(d)?, (sorted[k], sorted[sorted.len() - 1 - k])))
}

/// The largest k with P(B ≤ k) ≤ 0.025, 0 where there is none.
fn critical(n: usize) -> usize {
    let mut log = -(n as f64) * std::f64::consts::LN_2;
    let mut sum = log.exp();
    let mut k = 0;
    // P(B = k + 1) = P(B = k)·(n − k)/(k + 1); on logarithms, for 2⁻ⁿ is nothing beyond n = 1,074.
    while k + 1 < n {
        log += ((n - k) as f64 / (k + 1) as f64).ln();
        sum += log.exp();
        if sum > 0.025 {
            break;
        }
        k += 1;
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_as_scipy_has_them() {
        // scipy.stats.binom.ppf(0.025, n, 0.5) − 1 where that is not below 0.
        for (n, k) in
            [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (20, 5), (100, 39), (400, 179), (2000, 955)]
        {
            assert_eq!(critical(n), k, "{n}");
        }
    }

    #[test]
    fn ten_values() {
        let d: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(interval(&d), Some((5.5, (2.0, 9.0))));
        assert_eq!(interval(&[3.0]), Some((3.0, (3.0, 3.0))));
        assert_eq!(interval(&[]), None);
    }
}
