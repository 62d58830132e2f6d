//! Hodges–Lehmann estimates of one sample of paired differences, and of the shift between two independent samples.
//!
//! Hodges and Lehmann (1963), "Estimates of location based on rank tests". A sample d_1 … d_n has M = n(n+1)/2 Walsh averages,
//! (d_i + d_j)/2 for i ≤ j. Their median estimates the centre of d. With w_(k) for the k-th smallest average, the interval
//! [w_(c+1), w_(M−c)] is the set of centres that the signed-rank test with critical value c does not reject (Tukey 1949).
//!
//! The shift between two samples x_1 … x_m and y_1 … y_n is the median of all mn differences y_j − x_i. Its interval inverts
//! the Mann–Whitney test (Moses; Hollander and Wolfe, section 4.3): with δ_(k) for the k-th smallest difference it is [δ_(c+1),
//! δ_(mn−c)], where c is the largest number with P(U ≤ c) ≤ α/2.
//!
//! `kth_smallest` selects among averages and differences without listing them.

use crate::average::sorted;

/// The Walsh averages of a sample, without a list of them.
#[derive(Debug, Clone)]
pub struct WalshAverages {
    /// Half of each value, sorted. The sum of two halves is an average, and cannot overflow.
    halves: Vec<f64>,
}

impl WalshAverages {
    /// The Walsh averages of these values. None without values, or if one is not finite.
    pub fn new(mut values: Vec<f64>) -> Option<WalshAverages> {
        if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        values.iter_mut().for_each(|value| *value /= 2.0);
        values.sort_unstable_by(f64::total_cmp);
        Some(WalshAverages { halves: values })
    }

    /// The number of values in the sample.
    pub fn sample_size(&self) -> usize {
        self.halves.len()
    }

    /// The Hodges–Lehmann estimate: the median of the averages.
    pub fn estimate(&self) -> f64 {
        median(self, self.selection_cutoff())
    }

    /// The interval [w_(c+1), w_(M−c)] for the critical value c; see the module.
    ///
    /// # Panics
    /// If 2c + 1 > M: the interval would be empty.
    pub fn interval(&self, c: usize) -> (f64, f64) {
        let count = self.len();
        assert!(2 * c < count, "critical value {c} leaves nothing of {count} averages");
        (kth_smallest(self, c + 1, self.selection_cutoff()), kth_smallest(self, count - c, self.selection_cutoff()))
    }

    /// Whether the whole interval for the critical value c is above θ. Counts averages, which is cheaper than computing the
    /// ends.
    pub(crate) fn lies_above(&self, c: usize, theta: f64) -> bool {
        self.count_up_to(theta) <= c
    }

    /// Whether the whole interval for the critical value c is below θ.
    pub(crate) fn lies_below(&self, c: usize, theta: f64) -> bool {
        self.count_up_to(theta.next_down()) >= self.len() - c
    }

    /// Whether the interval for the critical value c excludes θ.
    pub(crate) fn excludes(&self, c: usize, theta: f64) -> bool {
        self.lies_above(c, theta) || self.lies_below(c, theta)
    }

    /// The smallest and the largest value of the sample.
    pub fn extremes(&self) -> (f64, f64) {
        self.range()
    }

    /// The number of candidates at which [`kth_smallest`] stops counting and lists the candidates. Listing n averages costs
    /// about as much as one count.
    fn selection_cutoff(&self) -> usize {
        self.halves.len()
    }
}

impl Multiset for WalshAverages {
    fn counts_up_to<const N: usize>(&self, limits: [f64; N]) -> [usize; N] {
        let d = &self.halves;
        // For each limit, the pairs within d[first..=last] are still undecided. If d[first] + d[last] is within the limit, all
        // pairs of d[first] are within it, and are counted. Otherwise no pair of d[last] is, and d[last] is dropped. The code
        // avoids a branch, because the CPU would mispredict it half of the time.
        let (mut first, mut last, mut counts) = ([0; N], [d.len() - 1; N], [0; N]);
        for _ in 0..d.len() {
            for i in 0..N {
                let within = d[first[i]] + d[last[i]] <= limits[i];
                counts[i] += if within { last[i] + 1 - first[i] } else { 0 };
                first[i] += usize::from(within);
                last[i] = last[i].wrapping_sub(usize::from(!within));
            }
        }
        counts
    }

    fn values_between(&self, low: f64, high: f64) -> Vec<f64> {
        let d = &self.halves;
        let mut in_range = Vec::new();
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
            in_range.extend(d[start.max(i)..end].iter().map(|larger| value + larger));
        }
        in_range
    }

    fn len(&self) -> usize {
        self.halves.len() * (self.halves.len() + 1) / 2
    }

    fn range(&self) -> (f64, f64) {
        (2.0 * self.halves[0], 2.0 * self.halves[self.halves.len() - 1])
    }
}

/// The sample size from which the normal approximation of U is used, as in R's wilcox.test.
const NORMAL_APPROXIMATION_FROM: usize = 50;
/// The 97.5% quantile of the normal distribution.
const NORMAL_QUANTILE_975: f64 = 1.959_963_984_540_054;

/// The shift between two independent samples: how far the values of the second lie above the values of the first.
pub(crate) struct Shift {
    /// The median of all differences y − x.
    pub estimate: f64,
    /// Lower end of the 95% interval; the smallest difference if the samples are too small for one.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The size of the smaller sample.
    pub smaller_size: usize,
}

/// Estimates the shift from the sample `x` to the sample `y`, both of finite numbers in any order. None if one is empty.
pub(crate) fn independent_shift(x: Vec<f64>, y: Vec<f64>) -> Option<Shift> {
    let differences = Differences { x: sorted(x), y: sorted(y) };
    let (m, n) = (differences.x.len(), differences.y.len());
    if m == 0 || n == 0 {
        return None;
    }
    let cutoff = 4 * (m + n);
    let c = critical_value(m, n).unwrap_or(0);
    Some(Shift {
        estimate: median(&differences, cutoff),
        low: kth_smallest(&differences, c + 1, cutoff),
        high: kth_smallest(&differences, m * n - c, cutoff),
        smaller_size: m.min(n),
    })
}

/// The largest c with P(U ≤ c) ≤ 0.025. None if even P(U = 0) is larger.
fn critical_value(m: usize, n: usize) -> Option<usize> {
    if m.max(n) >= NORMAL_APPROXIMATION_FROM {
        let (m, n) = (m as f64, n as f64);
        let c = m * n / 2.0 - NORMAL_QUANTILE_975 * (m * n * (m + n + 1.0) / 12.0).sqrt() - 0.5;
        return (c >= 0.0).then_some(c as usize);
    }
    let mut sum = 0.0;
    let is_within_level = |p: &&f64| {
        sum += **p;
        sum <= 0.025
    };
    mann_whitney(m, n).iter().take_while(is_within_level).count().checked_sub(1)
}

/// P(U = u) for u = 0 … mn, by the recursion of Mann and Whitney (1947):
/// p(m, n, u) = m/(m+n)·p(m−1, n, u−n) + n/(m+n)·p(m, n−1, u).
pub(crate) fn mann_whitney(m: usize, n: usize) -> Vec<f64> {
    // After iteration i, distributions[j] is the distribution for (i, j).
    let mut distributions: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let (first, second) = (&distributions[j], &next[j - 1]);
            let weight = i as f64 / (i + j) as f64;
            let p = (0..=i * j).map(|u| {
                let from_first = u.checked_sub(j).and_then(|u| first.get(u)).map_or(0.0, |p| weight * p);
                from_first + second.get(u).map_or(0.0, |p| (1.0 - weight) * p)
            });
            next.push(p.collect());
        }
        distributions = next;
    }
    distributions.swap_remove(n)
}

/// All y_j − x_i of two sorted samples.
struct Differences {
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Multiset for Differences {
    fn counts_up_to<const N: usize>(&self, limits: [f64; N]) -> [usize; N] {
        limits.map(|limit| {
            // For a larger x, at least as many of the sorted y are within the limit, so `end` never moves back.
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

    fn values_between(&self, low: f64, high: f64) -> Vec<f64> {
        let (mut start, mut end) = (0, 0);
        let mut in_range = Vec::new();
        for x in &self.x {
            while end < self.y.len() && self.y[end] - x <= high {
                end += 1;
            }
            while start < self.y.len() && self.y[start] - x <= low {
                start += 1;
            }
            in_range.extend(self.y[start..end].iter().map(|y| y - x));
        }
        in_range
    }

    fn len(&self) -> usize {
        self.x.len() * self.y.len()
    }

    fn range(&self) -> (f64, f64) {
        (self.y[0] - self.x[self.x.len() - 1], self.y[self.y.len() - 1] - self.x[0])
    }
}

/// A multiset of numbers that is defined by a rule, such as all sums of two lists.
pub(crate) trait Multiset {
    /// For each limit, the number of values that are at most the limit. Several limits take hardly longer than one, because
    /// the count mostly waits for memory.
    fn counts_up_to<const N: usize>(&self, limits: [f64; N]) -> [usize; N];

    /// The number of values that are at most `limit`.
    fn count_up_to(&self, limit: f64) -> usize {
        self.counts_up_to([limit])[0]
    }

    /// The values above `low` and at most `high`.
    fn values_between(&self, low: f64, high: f64) -> Vec<f64>;

    /// The number of values.
    fn len(&self) -> usize;

    /// The smallest and the largest value.
    fn range(&self) -> (f64, f64);
}

/// The `k`-th smallest value, `k` from 1.
///
/// Narrows the range of values until at most `cutoff` candidates are left, then selects among these. This takes O(n log n) for
/// a multiset of n² values; sorting all would take O(n² log n).
///
/// # Panics
/// If `k` is not in 1..=len.
pub(crate) fn kth_smallest(values: &impl Multiset, k: usize, cutoff: usize) -> f64 {
    assert!((1..=values.len()).contains(&k), "rank {k} of {}", values.len());
    select_pair(values, k, k, cutoff).0
}

/// The median: the mean of the two middle values if their number is even.
pub(crate) fn median(values: &impl Multiset, cutoff: usize) -> f64 {
    let half = values.len() / 2;
    if values.len() % 2 == 1 {
        return kth_smallest(values, half + 1, cutoff);
    }
    let (lower, upper) = select_pair(values, half, half + 1, cutoff);
    (lower + upper) / 2.0
}

/// The `first`-th and the `last`-th smallest value. `last` is `first` or `first` + 1.
fn select_pair(values: &impl Multiset, first: usize, last: usize, cutoff: usize) -> (f64, f64) {
    let (smallest, largest) = values.range();
    let mut bracket = Bracket { low: smallest.next_down(), high: largest, below: 0, up_to: values.len() };
    while bracket.up_to - bracket.below > cutoff {
        let Some(cuts) = bracket.cuts(first, values.len()) else {
            return (bracket.high, bracket.high); // no number lies between the ends, so all candidates are equal
        };
        for (cut, count) in cuts.into_iter().zip(values.counts_up_to(cuts)) {
            if count >= last && cut < bracket.high {
                (bracket.high, bracket.up_to) = (cut, count);
            } else if count < first && cut > bracket.low {
                (bracket.low, bracket.below) = (cut, count);
            } else if (first..last).contains(&count) {
                return (kth_smallest(values, first, cutoff), kth_smallest(values, last, cutoff)); // the cut is between the two values
            }
        }
    }
    let mut candidates = values.values_between(bracket.low, bracket.high);
    let (_, lower, above) = candidates.select_nth_unstable_by(first - bracket.below - 1, f64::total_cmp);
    let upper = above.iter().copied().min_by(f64::total_cmp).filter(|_| last > first);
    (*lower, upper.unwrap_or(*lower))
}

/// The range of values that still contains the searched rank: above `low` and at most `high`.
struct Bracket {
    low: f64,
    high: f64,
    /// The number of values that are at most `low`.
    below: usize,
    /// The number of values that are at most `high`.
    up_to: usize,
}

impl Bracket {
    /// The distances of the near and the far cut on each side of the estimated position of the rank, as shares of the distance
    /// from that position to the end of the bracket. The near cuts usually enclose the rank closely; the far ones make progress
    /// for any distribution.
    const CUT_DISTANCES: [f64; 2] = [0.05, 0.3];
    /// If the rank is within this share of the bracket's ranks from an end, its position is interpolated from the log odds of
    /// the ranks, as in the tails of a bell-shaped distribution; otherwise from the ranks themselves.
    const TAIL_SHARE: f64 = 0.05;

    /// The next values to count, to find this rank among `count` values. None if no number lies strictly between the ends.
    fn cuts(&self, rank: usize, count: usize) -> Option<[f64; 4]> {
        // At the searched value the count steps from `rank` − 1 to `rank`; this is the middle of the step.
        let (below, up_to, rank) = (self.below as f64, self.up_to as f64, rank as f64 - 0.5);
        // The 0.5 keeps the log odds of the ranks 0 and `count` finite.
        let log_odds = |rank: f64| ((rank + 0.5) / (count as f64 - rank + 0.5)).ln();
        // Positions are shares of the way from the low end to the high end.
        let mut position = (rank - below) / (up_to - below);
        if position.min(1.0 - position) < Bracket::TAIL_SHARE {
            position = (log_odds(rank) - log_odds(below)) / (log_odds(up_to) - log_odds(below));
        }
        let [near, far] = Bracket::CUT_DISTANCES;
        let rest = 1.0 - position;
        let positions =
            [position * (1.0 - far), position * (1.0 - near), position + near * rest, position + far * rest];
        let cut = |position: f64| self.low + (self.high - self.low) * position;
        let is_inside = |cut: &f64| self.low < *cut && *cut < self.high;
        let middle = Some(cut(0.5)).filter(is_inside)?;
        // A cut that rounding puts on an end would not narrow the bracket.
        Some(positions.map(|position| Some(cut(position)).filter(is_inside).unwrap_or(middle)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::independent_ratio;

    /// All Walsh averages, sorted.
    fn sorted_averages(d: &[f64]) -> Vec<f64> {
        let mut all: Vec<f64> = (0..d.len()).flat_map(|i| (i..d.len()).map(move |j| d[i] / 2.0 + d[j] / 2.0)).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    fn median_of_sorted(sorted: &[f64]) -> f64 {
        let half = sorted.len() / 2;
        if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
    }

    #[test]
    fn estimate_and_intervals_of_three_values_computed_by_hand() {
        // Averages of 1, 2, 6: 1, 1.5, 2, 3.5, 4, 6; their median is 2.75.
        let walsh = WalshAverages::new(vec![6.0, 1.0, 2.0]).unwrap();
        assert_eq!(walsh.estimate(), 2.75);
        assert_eq!(walsh.interval(0), (1.0, 6.0));
        assert_eq!(walsh.interval(2), (2.0, 3.5));
    }

    #[test]
    fn estimate_and_interval_agree_with_hollander_and_wolfe() {
        // Hollander and Wolfe (1973), examples 3.3 and 3.4, the Hamilton depression scale (signs turned):
        // all 45 averages listed and sorted in numpy have the median 0.46 and [w₆, w₄₀] = [0.010, 0.786].
        // c = 5 is the largest with 2·P(V ≤ c) ≤ 0.05, by counting subsets of {1, …, 9}: 0.0391, then 0.0547.
        let d = vec![0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];
        let walsh = WalshAverages::new(d).unwrap();
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
            let (walsh, all) = (WalshAverages::new(d.clone()).unwrap(), sorted_averages(&d));
            assert_eq!(walsh.len(), all.len());
            let step = (all.len() / 50).max(1);
            for k in (1..=all.len()).step_by(step) {
                assert_eq!(kth_smallest(&walsh, k, 4), all[k - 1], "n {n}, k {k}");
            }
            assert_eq!(median(&walsh, 4), median_of_sorted(&all), "n {n}");
        }
    }

    #[test]
    fn the_median_is_right_if_the_middle_values_are_far_apart() {
        // Averages come in three groups with wide gaps; of the six of 0, 8 and 9 the middle two are 4.5 and 8.
        for d in [vec![1.0, 1.0, 2.0, 100.0, 100.0, 101.0], vec![0.0, 0.0, 9.0, 9.0], vec![0.0, 8.0, 9.0]] {
            assert_eq!(
                median(&WalshAverages::new(d.clone()).unwrap(), 1),
                median_of_sorted(&sorted_averages(&d)),
                "{d:?}"
            );
        }
    }

    #[test]
    fn equal_values_have_a_point_interval_and_invalid_samples_none() {
        assert_eq!(WalshAverages::new(vec![0.3; 400]).unwrap().interval(33_790), (0.3, 0.3));
        assert!(WalshAverages::new(vec![]).is_none());
        assert!(WalshAverages::new(vec![1.0, f64::NAN]).is_none());
    }

    #[test]
    fn the_distribution_of_u_matches_values_computed_by_hand() {
        // m = n = 2: six orders, U = 0, 1, 2, 2, 3, 4.
        let p = mann_whitney(2, 2);
        let expected = [1.0, 1.0, 2.0, 1.0, 1.0].map(|ways| ways / 6.0);
        assert!(p.iter().zip(expected).all(|(p, e)| (p - e).abs() < 1e-15), "{p:?}");
    }

    #[test]
    fn critical_values_match_printed_tables() {
        // Two-sided 5% critical values of U, as in every table of the Mann–Whitney test.
        for (m, n, c) in [(4, 4, 0), (5, 5, 2), (8, 8, 13), (10, 10, 23), (20, 20, 127), (5, 20, 20)] {
            assert_eq!(critical_value(m, n), Some(c), "{m} {n}");
        }
        assert_eq!(critical_value(3, 3), None);
    }

    #[test]
    fn the_normal_approximation_is_within_one_of_the_exact_value() {
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
        assert!(critical_value(50, 50).unwrap().abs_diff(exact) <= 1, "{:?} {exact}", critical_value(50, 50));
    }

    #[test]
    fn the_ratio_of_samples_that_differ_by_two_is_two() {
        let x: Vec<f64> = (1..=9).map(|i| 1.0 + f64::from(i) / 1000.0).collect();
        let y: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
        let ratio = independent_ratio(&x, &y).unwrap();
        assert!((ratio.value - 2.0).abs() < 1e-12 && ratio.is_significant(), "{ratio:?}");
    }

    #[test]
    fn few_values_are_provisional() {
        let few = independent_ratio(&[1.0, 1.1], &[2.0, 2.2]).unwrap();
        assert!(few.provisional && !few.is_significant());
        assert!((few.low - 2.0 / 1.1).abs() < 1e-12 && (few.high - 2.2).abs() < 1e-12);
        assert_eq!(independent_ratio(&[0.0, f64::NAN], &[1.0]), None);
    }
}
