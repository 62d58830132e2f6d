//! The shift between two independent samples.
//!
//! Hodges and Lehmann (1963): the median of all differences y_j − x_i. The interval inverts the
//! Mann–Whitney test (Moses; Hollander and Wolfe, section 4.3): with critical value c it is
//! [δ_(c+1), δ_(mn−c)] of the sorted differences, c the largest count with P(U ≤ c) ≤ α/2.

use crate::select::{self, Multiset};
use crate::{average::sorted, ratio::Ratio, table::FIRST_LOOK};

/// Values from which the normal approximation of U is close enough (R's wilcox.test, by its manual, has the same).
const LARGE: usize = 50;
/// The 97.5% quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The ratio y/x of two independent samples of positive values, with its 95% interval, computed on
/// logarithms. Values that are not positive and finite are left out. None where a sample is empty.
///
/// Provisional under 8 values a side; where even the extremes reach no 95%, those are the interval.
pub fn ratio(x: &[f64], y: &[f64]) -> Option<Ratio> {
    let logs = |values: &[f64]| sorted(values.iter().map(|v| v.ln()).filter(|v| v.is_finite()));
    let differences = Differences { x: logs(x), y: logs(y) };
    let (m, n) = (differences.x.len(), differences.y.len());
    if m == 0 || n == 0 {
        return None;
    }
    let few = 4 * (m + n);
    let c = critical(m, n).unwrap_or(0);
    Some(Ratio {
        value: select::median(&differences, few).exp(),
        low: select::kth(&differences, c + 1, few).exp(),
        high: select::kth(&differences, m * n - c, few).exp(),
        rounds: m.min(n),
        provisional: m.min(n) < FIRST_LOOK,
    })
}

/// The largest c with P(U ≤ c) ≤ 0.025. None where even U = 0 is likelier than that.
fn critical(m: usize, n: usize) -> Option<usize> {
    if m.max(n) >= LARGE {
        let (m, n) = (m as f64, n as f64);
        let c = m * n / 2.0 - Z * (m * n * (m + n + 1.0) / 12.0).sqrt() - 0.5;
        return (c >= 0.0).then_some(c as usize);
    }
    let mut sum = 0.0;
    let unlikely = |p: &&f64| {
        sum += **p;
        sum <= 0.025
    };
    mann_whitney(m, n).iter().take_while(unlikely).count().checked_sub(1)
}

/// P(U = u) for u = 0 … mn, by the recursion of Mann and Whitney (1947):
/// p(m, n, u) = m/(m+n)·p(m−1, n, u−n) + n/(m+n)·p(m, n−1, u).
pub(crate) fn mann_whitney(m: usize, n: usize) -> Vec<f64> {
    // row[j] holds the distribution for (i, j).
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let (first, second) = (&row[j], &next[j - 1]);
            let share = i as f64 / (i + j) as f64;
            let p = (0..=i * j).map(|u| {
                let one = u.checked_sub(j).and_then(|u| first.get(u)).map_or(0.0, |p| share * p);
                one + second.get(u).map_or(0.0, |p| (1.0 - share) * p)
            });
            next.push(p.collect());
        }
        row = next;
    }
    row.swap_remove(n)
}

/// All y_j − x_i of two sorted samples.
struct Differences {
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Multiset for Differences {
    fn counts<const N: usize>(&self, limits: [f64; N]) -> [usize; N] {
        limits.map(|limit| {
            // As x grows, more of the sorted y are within the limit.
            let mut end = 0;
            let within = |x: &f64| {
                while end < self.y.len() && self.y[end] - x <= limit {
                    end += 1;
                }
                end
            };
            self.x.iter().map(within).sum()
        })
    }

    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let (mut start, mut end) = (0, 0);
        let mut found = Vec::new();
        for x in &self.x {
            while end < self.y.len() && self.y[end] - x <= high {
                end += 1;
            }
            while start < self.y.len() && self.y[start] - x <= low {
                start += 1;
            }
            found.extend(self.y[start..end].iter().map(|y| y - x));
        }
        found
    }

    fn len(&self) -> usize {
        self.x.len() * self.y.len()
    }

    fn range(&self) -> (f64, f64) {
        (self.y[0] - self.x[self.x.len() - 1], self.y[self.y.len() - 1] - self.x[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_of_u_by_hand() {
        // m = n = 2: six orders, U = 0, 1, 2, 2, 3, 4.
        let p = mann_whitney(2, 2);
        let expected = [1.0, 1.0, 2.0, 1.0, 1.0].map(|ways| ways / 6.0);
        assert!(p.iter().zip(expected).all(|(p, e)| (p - e).abs() < 1e-15), "{p:?}");
    }

    #[test]
    fn critical_values_of_the_printed_tables() {
        // Two-sided 5% critical values of U, as in every table of the Mann–Whitney test.
        for (m, n, c) in [(4, 4, 0), (5, 5, 2), (8, 8, 13), (10, 10, 23), (20, 20, 127), (5, 20, 20)] {
            assert_eq!(critical(m, n), Some(c), "{m} {n}");
        }
        assert_eq!(critical(3, 3), None);
    }

    #[test]
    fn the_normal_approximation_joins_the_exact_values() {
        let exact = {
            let mut sum = 0.0;
            mann_whitney(50, 50)
                .iter()
                .take_while(|p| {
                    sum += **p;
                    sum <= 0.025
                })
                .count()
                - 1
        };
        assert!(critical(50, 50).unwrap().abs_diff(exact) <= 1, "{:?} {exact}", critical(50, 50));
    }

    #[test]
    fn a_factor_of_two() {
        let x: Vec<f64> = (1..=9).map(|i| 1.0 + f64::from(i) / 1000.0).collect();
        let y: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
        let ratio = ratio(&x, &y).unwrap();
        assert!((ratio.value - 2.0).abs() < 1e-12 && ratio.separated(), "{ratio:?}");
    }

    #[test]
    fn few_values_are_provisional() {
        let few = ratio(&[1.0, 1.1], &[2.0, 2.2]).unwrap();
        assert!(few.provisional && !few.separated());
        assert!((few.low - 2.0 / 1.1).abs() < 1e-12 && (few.high - 2.2).abs() < 1e-12);
        assert_eq!(ratio(&[0.0, f64::NAN], &[1.0]), None);
    }
}
