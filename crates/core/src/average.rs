//! The averages of rounds that comparisons can use, and the median.

use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result};

/// The average of the rounds that a claim, or the search for the best variant, compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Average {
    /// The typical round: the pseudo-median of the ratios within rounds. Rare stalls have little influence on it.
    #[default]
    Typical,
    /// The mean cost: the ratio of the sums over all rounds. Every stall counts in full.
    Mean,
}

impl Average {
    /// Both of them.
    pub const ALL: [Average; 2] = [Average::Typical, Average::Mean];

    /// Its name in claims, plans and flags.
    pub fn name(self) -> &'static str {
        match self {
            Average::Typical => "typical",
            Average::Mean => "mean",
        }
    }

    /// The average with this name.
    pub fn named(name: &str) -> Option<Average> {
        Average::ALL.into_iter().find(|average| average.name() == name)
    }

    /// Whether it is the default, which stored plans leave out.
    pub fn is_typical(&self) -> bool {
        *self == Average::Typical
    }
}

impl Display for Average {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.name())
    }
}

/// The median of the values that are not NaN: the mean of the two middle ones if their number is even. None without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut known: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    known.sort_unstable_by(f64::total_cmp);
    match known.len() {
        0 => None,
        n if n % 2 == 1 => Some(known[n / 2]),
        n => Some(known[n / 2 - 1] / 2.0 + known[n / 2] / 2.0),
    }
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
