//! The two averages of rounds that comparisons can use, and functions for means, medians and variances.

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;

crate::named_enum! {
    /// The average of the rounds that a claim, or the search for the best variant, compares.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Average {
        /// The typical round: the pseudo-median of the ratios within rounds. Rare stalls have little influence on it.
        #[default]
        Typical = "typical",
        /// The mean cost: the ratio of the sums over all rounds. Every stall counts in full.
        Mean = "mean",
    }
}

impl Average {
    /// The average with this name.
    pub fn from_name(name: &str) -> Option<Average> {
        Average::ALL.into_iter().find(|average| average.name() == name)
    }

    /// Whether it is the default, which stored plans leave out.
    pub fn is_typical(&self) -> bool {
        *self == Average::Typical
    }
}

/// The median of the values that are not NaN: the mean of the two middle ones if their number is even. None without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[count / 2]),
        // Halves cannot overflow when they are added.
        count => Some(sorted[count / 2 - 1] / 2.0 + sorted[count / 2] / 2.0),
    }
}

/// The arithmetic mean; NaN without values.
pub fn mean(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value.borrow(), count + 1.0));
    sum / count
}

/// The sum of the squared distances from the mean.
pub fn squared_deviations(values: impl Iterator<Item = impl Borrow<f64>> + Clone) -> f64 {
    let mean = mean(values.clone());
    values.map(|value| (value.borrow() - mean).powi(2)).sum()
}

/// The sample variance; NaN for fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 { f64::NAN } else { squared_deviations(values.iter()) / (values.len() - 1) as f64 }
}

/// The values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The natural logarithms of `values[variant][round]`; NaN for values that are not positive.
pub fn logs(values: &[impl AsRef<[f64]>]) -> Vec<Vec<f64>> {
    let log = |value: &f64| if *value > 0.0 { value.ln() } else { f64::NAN };
    values.iter().map(|rounds| rounds.as_ref().iter().map(log).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_skips_nan_and_averages_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
