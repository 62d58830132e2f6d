//! Paired differences within rounds, and ratios with their confidence intervals.

use crate::critical_values;
use crate::hodges_lehmann::{Shift, WalshAverages, independent_shift};
use serde::Serialize;

/// The within-round log ratios of two variants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogRatios {
    /// d_i = ln(b_i / a_i), one for each round that has both.
    pub d: Vec<f64>,
    /// The number of rounds that have both variants, but no log ratio because a value is zero, negative or infinite.
    pub excluded_rounds: usize,
}

/// Computes the log ratios of two variants within rounds; NaN marks a missing value.
///
/// Rounds in which either value is zero, negative or infinite are left out and counted. If many rounds are left out, a ratio
/// does not describe the difference of the variants.
pub fn log_ratios(a: &[f64], b: &[f64]) -> LogRatios {
    let mut ratios = LogRatios::default();
    for (a, b) in a.iter().zip(b).filter(|(a, b)| !a.is_nan() && !b.is_nan()) {
        let d = (b / a).ln();
        if *a > 0.0 && *b > 0.0 && d.is_finite() {
            ratios.d.push(d);
        } else {
            ratios.excluded_rounds += 1;
        }
    }
    ratios
}

/// A ratio with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// The number of pairs of values; of independent samples, the size of the smaller one.
    pub rounds: usize,
    /// Whether there are too few rounds for an exact interval. Then `low` and `high` are the extremes of the rounds.
    pub provisional: bool,
}

impl Ratio {
    /// Estimates the ratio from paired log ratios: Hodges–Lehmann, with the interval of [`crate::critical_values`]. None
    /// without a pair.
    pub fn from_log_ratios(d: Vec<f64>) -> Option<Ratio> {
        WalshAverages::new(d).map(|walsh| Ratio::from_averages(&walsh))
    }

    /// The typical value of some rounds with its interval. Despite the type it is no ratio: all fields are in the unit of the
    /// values. None for fewer than two finite values, or if a value is negative. Computed on logarithms, or on the values
    /// themselves if one of them is zero.
    pub fn typical_value(values: &[f64]) -> Option<Ratio> {
        let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        if known.len() < 2 || known.iter().any(|value| *value < 0.0) {
            return None;
        }
        if known.contains(&0.0) {
            return Some(Ratio::converted(&WalshAverages::new(known)?, |value| value));
        }
        Ratio::from_log_ratios(known.into_iter().map(f64::ln).collect())
    }

    /// The same as [`Ratio::from_log_ratios`], for log ratios whose Walsh averages already exist.
    pub fn from_averages(walsh: &WalshAverages) -> Ratio {
        Ratio::converted(walsh, f64::exp)
    }

    /// The estimate and its interval, each converted from the scale of the averages, such as logarithms, by `convert`.
    fn converted(walsh: &WalshAverages, convert: fn(f64) -> f64) -> Ratio {
        let rounds = walsh.sample_size();
        let (provisional, (low, high)) = match critical_values::last_look_by(rounds) {
            Some(look) => (false, walsh.interval(look.c05)),
            None => (true, walsh.extremes()),
        };
        Ratio { value: convert(walsh.estimate()), low: convert(low), high: convert(high), rounds, provisional }
    }

    /// Whether the ratio differs significantly from 1: the interval excludes 1. Never for a provisional ratio, because the
    /// extremes of few rounds exclude 1 by chance far too often.
    pub fn is_significant(&self) -> bool {
        !self.provisional && (self.low > 1.0 || self.high < 1.0)
    }

    /// The inverse ratio.
    pub fn inverse(&self) -> Ratio {
        Ratio { value: 1.0 / self.value, low: 1.0 / self.high, high: 1.0 / self.low, ..*self }
    }
}

/// The ratio y/x of two independent samples of positive values, with its 95% interval, computed on
/// logarithms. Ignores values that are not positive and finite. None if a sample is empty.
///
/// The ratio is provisional if a sample has fewer than 8 values. If the samples are too small for a 95% interval, the interval
/// has the extremes.
pub fn independent_ratio(x: &[f64], y: &[f64]) -> Option<Ratio> {
    let logs = |values: &[f64]| values.iter().map(|v| v.ln()).filter(|v| v.is_finite()).collect();
    let Shift { estimate, low, high, smaller_size: rounds } = independent_shift(logs(x), logs(y))?;
    let provisional = rounds < critical_values::FIRST_LOOK_ROUNDS;
    Some(Ratio { value: estimate.exp(), low: low.exp(), high: high.exp(), rounds, provisional })
}

/// A number and the ends of its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<Ratio> for Estimate {
    fn from(Ratio { value, low, high, .. }: Ratio) -> Estimate {
        Estimate { value, low, high }
    }
}

impl Estimate {
    /// A value with an interval that is symmetric on a logarithmic scale: from value/factor to value·factor.
    pub(crate) fn symmetric_on_log_scale(value: f64, factor: f64) -> Estimate {
        Estimate { value, low: value / factor, high: value * factor }
    }

    /// Whether the interval excludes a value.
    pub fn excludes(&self, value: f64) -> bool {
        self.low > value || self.high < value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_rounds_are_the_first_that_decide() {
        let d: Vec<f64> = (1..=8).map(|i| f64::from(i) / 100.0).collect();
        let seven = Ratio::from_log_ratios(d[..7].to_vec()).unwrap();
        assert!(seven.provisional && !seven.is_significant());
        assert_eq!((seven.low, seven.high), (0.01f64.exp(), 0.07f64.exp()));
        let eight = Ratio::from_log_ratios(d).unwrap();
        // c = 0 at n = 8: the whole range of Walsh averages, which is that of d.
        assert!(!eight.provisional && eight.is_significant());
        assert_eq!((eight.low, eight.high), (0.01f64.exp(), 0.08f64.exp()));
        assert!((eight.value - 0.045f64.exp()).abs() < 1e-15);
    }

    #[test]
    fn values_with_zeros_have_a_typical_value() {
        let exact = Ratio::typical_value(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0]).unwrap();
        assert_eq!((exact.low, exact.high, exact.provisional), (0.0, 4.0, false));
        let provisional = Ratio::typical_value(&[0.0, f64::NAN, 3.0]).unwrap();
        assert_eq!((provisional.low, provisional.high, provisional.provisional), (0.0, 3.0, true));
        assert_eq!(Ratio::typical_value(&[2.0; 9]).unwrap().rounds, 9);
        assert_eq!(Ratio::typical_value(&[1.0]), None);
    }

    #[test]
    fn the_inverse_swaps_the_ends() {
        let ratio = Ratio { value: 2.0, low: 1.25, high: 4.0, rounds: 9, provisional: false };
        let inverse = ratio.inverse();
        assert_eq!((inverse.value, inverse.low, inverse.high), (0.5, 0.25, 0.8));
    }

    #[test]
    fn only_rounds_with_both_variants_count() {
        let ratios = log_ratios(&[1.0, f64::NAN, 2.0, 4.0], &[2.0, 3.0, f64::NAN, 4.0]);
        assert_eq!(ratios, LogRatios { d: vec![2f64.ln(), 0.0], excluded_rounds: 0 });
    }

    #[test]
    fn rounds_without_a_log_ratio_are_excluded() {
        let ratios = log_ratios(&[0.0, 1.0, 1.0, f64::INFINITY], &[1.0, 0.0, -1.0, 1.0]);
        assert_eq!(ratios, LogRatios { d: vec![], excluded_rounds: 4 });
    }
}
