//! Walsh averages of paired differences: the Hodges–Lehmann estimate and its interval.
//!
//! Hodges and Lehmann (1963), "Estimates of location based on rank tests". The Walsh averages of d are
//! (d_i + d_j)/2 for i ≤ j, M = n(n+1)/2 of them. Their median estimates the centre of d; the interval
//! [w_(c+1), w_(M−c)] of the sorted averages is the set of centres that the signed-rank test with
//! critical value c does not reject.

use crate::select::{self, Multiset};

/// The Walsh averages of a sample, never listed in full.
#[derive(Debug, Clone)]
pub struct Walsh {
    /// Half of each value, sorted: the sum of two is an average, and no two finite values overflow.
    halves: Vec<f64>,
}

impl Walsh {
    /// The averages of these values. None without values, or if one is not finite.
    pub fn new(mut values: Vec<f64>) -> Option<Walsh> {
        if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        values.iter_mut().for_each(|value| *value /= 2.0);
        values.sort_unstable_by(f64::total_cmp);
        Some(Walsh { halves: values })
    }

    /// How many values the averages are of.
    pub fn values(&self) -> usize {
        self.halves.len()
    }

    /// The Hodges–Lehmann estimate: the median of the averages.
    pub fn estimate(&self) -> f64 {
        select::median(self, self.few())
    }

    /// [w_(c+1), w_(M−c)].
    ///
    /// # Panics
    /// Where 2c + 1 > M: no interval is left.
    pub fn interval(&self, c: usize) -> (f64, f64) {
        let all = self.len();
        assert!(2 * c < all, "critical value {c} leaves nothing of {all} averages");
        (select::kth(self, c + 1, self.few()), select::kth(self, all - c, self.few()))
    }

    /// Whether the interval lies wholly above θ. Counting is cheaper than finding the ends.
    pub(crate) fn lies_above(&self, c: usize, theta: f64) -> bool {
        self.count(theta) <= c
    }

    /// Whether it lies wholly below θ.
    pub(crate) fn lies_below(&self, c: usize, theta: f64) -> bool {
        self.count(theta.next_down()) >= self.len() - c
    }

    /// Whether it leaves out θ.
    pub(crate) fn excludes(&self, c: usize, theta: f64) -> bool {
        self.lies_above(c, theta) || self.lies_below(c, theta)
    }

    /// The smallest and the largest value of the sample.
    pub fn extremes(&self) -> (f64, f64) {
        self.range()
    }

    /// Listing an average for each value is as cheap as one more count.
    fn few(&self) -> usize {
        self.halves.len()
    }
}

impl Multiset for Walsh {
    fn counts<const N: usize>(&self, limits: [f64; N]) -> [usize; N] {
        let d = &self.halves;
        // The averages of d[first..=last] are yet to be looked at. Where the smallest with the largest is within the limit,
        // so is it with all; else the largest is with none. No branch, which would be mispredicted every other time.
        let (mut first, mut last, mut counts) = ([0; N], [d.len() - 1; N], [0; N]);
        for _ in 0..d.len() {
            for at in 0..N {
                let within = d[first[at]] + d[last[at]] <= limits[at];
                counts[at] += if within { last[at] + 1 - first[at] } else { 0 };
                first[at] += usize::from(within);
                last[at] = last[at].wrapping_sub(usize::from(!within));
            }
        }
        counts
    }

    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let d = &self.halves;
        let mut found = Vec::new();
        let (mut start, mut end) = (d.len(), d.len());
        for (i, value) in d.iter().enumerate() {
            while end > 0 && value + d[end - 1] > high {
                end -= 1;
            }
            if end <= i {
                break;
            }
            while start > 0 && value + d[start - 1] > low {
                start -= 1;
            }
            found.extend(d[start.max(i)..end].iter().map(|other| value + other));
        }
        found
    }

    fn len(&self) -> usize {
        self.halves.len() * (self.halves.len() + 1) / 2
    }

    fn range(&self) -> (f64, f64) {
        (2.0 * self.halves[0], 2.0 * self.halves[self.halves.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The averages, listed and sorted.
    fn listed(d: &[f64]) -> Vec<f64> {
        let mut all: Vec<f64> =
            (0..d.len()).flat_map(|i| (i..d.len()).map(move |j| d[i] / 2.0 + d[j] / 2.0)).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    fn middle(sorted: &[f64]) -> f64 {
        let half = sorted.len() / 2;
        if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
    }

    #[test]
    fn three_values_by_hand() {
        // Averages of 1, 2, 6: 1, 1.5, 2, 3.5, 4, 6; their median is 2.75.
        let walsh = Walsh::new(vec![6.0, 1.0, 2.0]).unwrap();
        assert_eq!(walsh.estimate(), 2.75);
        assert_eq!(walsh.interval(0), (1.0, 6.0));
        assert_eq!(walsh.interval(2), (2.0, 3.5));
    }

    #[test]
    fn agrees_with_hollander_and_wolfe() {
        // Hollander and Wolfe (1973), examples 3.3 and 3.4, the Hamilton depression scale (signs turned):
        // all 45 averages listed and sorted in numpy have the median 0.46 and [w₆, w₄₀] = [0.010, 0.786].
        // c = 5 is the largest with 2·P(V ≤ c) ≤ 0.05, by counting subsets of {1, …, 9}: 0.0391, then 0.0547.
        let d = vec![0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];
        let walsh = Walsh::new(d).unwrap();
        assert!((walsh.estimate() - 0.46).abs() < 1e-12, "{}", walsh.estimate());
        let (low, high) = walsh.interval(5);
        assert!((low - 0.010).abs() < 1e-12 && (high - 0.786).abs() < 1e-12, "{low} {high}");
    }

    #[test]
    fn selection_equals_sorting() {
        let mut state = 1u64;
        for n in [1, 2, 3, 8, 50, 123] {
            let d: Vec<f64> = (0..n)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Few distinct values, some huge: ties and a skewed range.
                    let value = ((state >> 40) % 37) as f64 - 18.0;
                    if value == 5.0 { 1e9 } else { value / 7.0 }
                })
                .collect();
            let (walsh, all) = (Walsh::new(d.clone()).unwrap(), listed(&d));
            assert_eq!(walsh.len(), all.len());
            let step = (all.len() / 50).max(1);
            for k in (1..=all.len()).step_by(step) {
                assert_eq!(select::kth(&walsh, k, 4), all[k - 1], "n {n}, k {k}");
            }
            assert_eq!(select::median(&walsh, 4), middle(&all), "n {n}");
        }
    }

    #[test]
    fn the_middle_may_lie_in_a_gap() {
        // Averages come in three groups with wide gaps; of the six of 0, 8 and 9 the middle two are 4.5 and 8.
        for d in [vec![1.0, 1.0, 2.0, 100.0, 100.0, 101.0], vec![0.0, 0.0, 9.0, 9.0], vec![0.0, 8.0, 9.0]] {
            assert_eq!(select::median(&Walsh::new(d.clone()).unwrap(), 1), middle(&listed(&d)), "{d:?}");
        }
    }

    #[test]
    fn equal_values_and_nothing() {
        assert_eq!(Walsh::new(vec![0.3; 400]).unwrap().interval(33_790), (0.3, 0.3));
        assert!(Walsh::new(vec![]).is_none());
        assert!(Walsh::new(vec![1.0, f64::NAN]).is_none());
    }
}
