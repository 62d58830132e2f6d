//! Analysis of paired differences at one look: the estimate and its repeated confidence intervals.

use crate::average::{median, sorted};
use crate::critical_values::{self, LOOKS, Look};
use crate::hodges_lehmann::WalshAverages;
use crate::mean_ratio::{SharedCosts, WithheldReason};
use statrs::distribution::{Binomial, DiscreteCDF};

/// The centre θ of paired log ratios, as known after some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Centre {
    /// The Hodges–Lehmann estimate.
    pub estimate: f64,
    /// The 95% interval, which stays valid if it is computed at every look of [`crate::critical_values`].
    pub interval_95: (f64, f64),
    /// The 90% interval, for tests of equivalence: each of the two one-sided tests then has level 5%.
    pub interval_90: (f64, f64),
    /// The median of d, and its 95% interval by the sign test, which is valid for a single look only.
    pub median: (f64, (f64, f64)),
    /// The number of differences.
    pub rounds: usize,
    /// Whether there are too few rounds for an exact interval, or an interval by mean cost is withheld. Then all intervals are
    /// the extremes of the rounds.
    pub provisional: bool,
    /// Why an interval by mean cost is withheld.
    pub withheld: Option<WithheldReason>,
}

impl Centre {
    /// Analyses paired log ratios. None without values, or if one is not finite.
    pub fn from_log_ratios(d: &[f64]) -> Option<Centre> {
        let walsh = WalshAverages::new(d.to_vec())?;
        let extremes = walsh.extremes();
        let look = critical_values::last_look_by(d.len());
        let interval = |c: Option<usize>| c.map_or(extremes, |c| walsh.interval(c));
        Some(Centre {
            estimate: walsh.estimate(),
            interval_95: interval(look.map(|look| look.c05)),
            interval_90: interval(look.map(|look| look.c10)),
            median: median_by_signs(d)?,
            rounds: d.len(),
            provisional: look.is_none(),
            withheld: None,
        })
    }

    /// Analyses ln(ΣB/ΣA), the logarithm of the ratio of mean costs.
    pub fn from_mean_costs(costs: &SharedCosts) -> Centre {
        let logs = |(low, high): (f64, f64)| (low.ln(), high.ln());
        // At level 0.05/2 for each end an interval has 95%, at 0.05/1 it has 90%.
        let both = costs.bounds(2).and_then(|interval_95| Ok((interval_95, costs.bounds(1)?)));
        let (interval_95, interval_90) = both.unwrap_or_else(|_| (costs.extremes(), costs.extremes()));
        let estimate = costs.ratio().ln();
        Centre {
            estimate,
            interval_95: logs(interval_95),
            interval_90: logs(interval_90),
            // Unbounded, because the sign test is about the typical round, not about the mean.
            median: (estimate, (f64::NEG_INFINITY, f64::INFINITY)),
            rounds: costs.rounds(),
            provisional: both.is_err(),
            withheld: both.err(),
        }
    }

    /// The analysis of the same rounds with the two variants exchanged.
    pub(crate) fn exchanged(&self) -> Centre {
        let negated = |(low, high): (f64, f64)| (-high, -low);
        let (median, sign_interval) = self.median;
        Centre {
            estimate: -self.estimate,
            interval_95: negated(self.interval_95),
            interval_90: negated(self.interval_90),
            median: (-median, negated(sign_interval)),
            ..*self
        }
    }

    /// Whether the differences are not symmetric: the interval of the median excludes the Hodges–Lehmann estimate, or the
    /// interval of that estimate excludes the median. For symmetric d both estimate the same centre.
    pub fn is_asymmetric(&self) -> bool {
        let (median, sign_interval) = self.median;
        !self.provisional && (!contains(sign_interval, self.estimate) || !contains(self.interval_95, median))
    }
}

/// The number of rounds at the first look for which `decides` is true. None if it is true at no look.
pub(crate) fn rounds_at_first_look_where(d: &[f64], decides: impl Fn(&WalshAverages, &Look) -> bool) -> Option<usize> {
    let decides_at =
        |look: &&Look| WalshAverages::new(d[..look.rounds].to_vec()).is_some_and(|walsh| decides(&walsh, look));
    LOOKS.iter().take_while(|look| look.rounds <= d.len()).find(decides_at).map(|look| look.rounds)
}

/// The number of rounds of the first look that finds a difference, because its 95% interval excludes 0. None if no look does.
pub fn rounds_to_find_difference(d: &[f64]) -> Option<usize> {
    rounds_at_first_look_where(d, |walsh, look| walsh.excludes(look.c05, 0.0))
}

/// Whether the 95% interval of these averages excludes 0, with enough rounds for a verdict.
pub(crate) fn excludes_zero(averages: &WalshAverages) -> bool {
    critical_values::last_look_by(averages.sample_size()).is_some_and(|look| averages.excludes(look.c05, 0.0))
}

/// Whether an interval contains a value.
fn contains((low, high): (f64, f64), value: f64) -> bool {
    low <= value && value <= high
}

/// The median and the 95% interval that inverts the sign test: [d_(k+1), d_(n−k)] of the n sorted values, where k is the
/// largest number with P(B ≤ k) ≤ 0.025 for B ~ Binomial(n, ½) (Conover 1999, section 3.2). It does not require symmetry. With
/// fewer than six values no interval has 95%, so it is the range of the values. None without values.
fn median_by_signs(d: &[f64]) -> Option<(f64, (f64, f64))> {
    let sorted = sorted(d.iter().copied());
    let k = critical_sign_count(d.len());
    Some((median(d)?, (sorted[k], sorted[sorted.len() - 1 - k])))
}

/// The largest k with P(B ≤ k) ≤ 0.025; 0 if no k satisfies that.
fn critical_sign_count(n: usize) -> usize {
    let heads = Binomial::new(0.5, n as u64).expect("a half is a probability");
    // `inverse_cdf` returns the smallest k with P(B ≤ k) ≥ 0.025. Equality cannot occur, because these probabilities are
    // multiples of 2⁻ⁿ, so k − 1 is the answer.
    heads.inverse_cdf(0.025).saturating_sub(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_ten_rounds_match_values_computed_by_hand() {
        // n = 10: c(.05) = 1, c(.10) = 3. Walsh averages of 1…10: 1, 1.5, 2, 2, 2.5, …
        let d: Vec<f64> = (1..=10).map(f64::from).collect();
        let centre = Centre::from_log_ratios(&d).unwrap();
        assert_eq!((centre.estimate, centre.interval_95, centre.interval_90), (5.5, (1.5, 9.5), (2.0, 9.0)));
        assert!(!centre.provisional && !centre.is_asymmetric());
    }

    #[test]
    fn the_ratio_of_means_counts_stalls_that_the_centre_does_not() {
        // B is 1% faster, and stalls by 60% in 3 of 24 rounds.
        let b: Vec<f64> = (0..24).map(|round| if round % 8 == 7 { 1.6 } else { 0.99 }).collect();
        let costs = SharedCosts::new(&[1.0; 24], &b).unwrap();
        let centre = Centre::from_mean_costs(&costs);
        assert!((centre.estimate - (21.0 * 0.99 + 4.8f64).ln() + 24f64.ln()).abs() < 1e-12);
        assert!(
            !centre.provisional
                && centre.interval_95.0 < centre.interval_90.0
                && centre.interval_90.1 < centre.interval_95.1
        );
        assert_eq!(centre.exchanged().exchanged(), centre);
        assert_eq!(centre.exchanged().interval_95.0, -centre.interval_95.1);
        let few = Centre::from_mean_costs(&SharedCosts::new(&[1.0; 9], &b[..9]).unwrap());
        assert_eq!((few.withheld, few.interval_95), (Some(WithheldReason::FewRounds), (0.99f64.ln(), 1.6f64.ln())));
    }

    #[test]
    fn counting_averages_agrees_with_the_interval() {
        let d: Vec<f64> = (0..30).map(|i| f64::from(i * i % 31) / 4.0).collect();
        let walsh = WalshAverages::new(d).unwrap();
        for c in [0, 10, 99, 200] {
            let (low, high) = walsh.interval(c);
            for theta in (-8..80).map(|i| f64::from(i) / 8.0) {
                assert_eq!(walsh.lies_above(c, theta), low > theta, "{c} {theta}");
                assert_eq!(walsh.lies_below(c, theta), high < theta, "{c} {theta}");
            }
        }
    }

    #[test]
    fn seven_rounds_are_provisional() {
        let centre = Centre::from_log_ratios(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert!(centre.provisional && centre.interval_95 == (1.0, 7.0) && centre.interval_90 == (1.0, 7.0));
        assert_eq!(Centre::from_log_ratios(&[]), None);
        assert_eq!(Centre::from_log_ratios(&[f64::NAN]), None);
    }

    #[test]
    fn a_skewed_sample_is_asymmetric() {
        // Two thirds of the rounds are 0, and one third is spread far above: the median is 0, but the Hodges–Lehmann estimate
        // is not.
        let d: Vec<f64> = (0..60).map(|i| if i % 3 == 0 { 1.0 + f64::from(i) } else { 0.0 }).collect();
        assert!(Centre::from_log_ratios(&d).unwrap().is_asymmetric());
    }

    #[test]
    fn critical_sign_counts_agree_with_scipy() {
        // scipy.stats.binom.ppf(0.025, n, 0.5) − 1 where that is not below 0.
        for (n, k) in [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (20, 5), (100, 39), (400, 179), (2000, 955)] {
            assert_eq!(critical_sign_count(n), k, "{n}");
        }
    }

    #[test]
    fn the_median_of_ten_values_has_the_interval_of_the_sign_test() {
        let d: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(median_by_signs(&d), Some((5.5, (2.0, 9.0))));
        assert_eq!(median_by_signs(&[3.0]), Some((3.0, (3.0, 3.0))));
        assert_eq!(median_by_signs(&[]), None);
    }
}
