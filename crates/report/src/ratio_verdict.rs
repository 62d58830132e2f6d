//! The verdict on a ratio by its confidence interval and the smallest difference that matters, the margin.

use crate::document::Cell;
use crate::number::{self, percent};
use fsarena_core::sample::Direction;
use fsarena_stats::{cost::Estimate, ratio::Ratio};
use serde::Serialize;

/// The verdict on a ratio by its interval and the margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RatioVerdict {
    /// Significantly different: the 95% interval excludes 1.
    Different,
    /// Significant but too small to matter: the 95% interval excludes 1, and the 90% interval is within the margin.
    Negligible,
    /// No significant difference, and the 90% interval is within the margin: two one-sided tests at 5%.
    Equivalent,
    /// No significant difference, and the 90% interval reaches beyond the margin.
    Inconclusive,
    /// Too few values for an exact interval ([`Ratio::provisional`]): under 8 rounds, `FIRST_LOOK_ROUNDS` of
    /// `fsarena_stats::critical_values`.
    Provisional,
}

impl RatioVerdict {
    /// Judges a ratio of two variants in the same rounds: by its 95% interval, and by the natural logarithms of its 90%
    /// interval. `margin` is the smallest
    /// difference that matters, as a fraction.
    pub fn of_paired_rounds(ratio: Option<Ratio>, ln_interval_90: Option<(f64, f64)>, margin: f64) -> RatioVerdict {
        let (Some(ratio), Some((low, high))) = (ratio, ln_interval_90) else { return RatioVerdict::Provisional };
        let ln_margin = margin.ln_1p();
        RatioVerdict::from_tests(ratio.provisional, ratio.is_significant(), -ln_margin < low && high < ln_margin)
    }

    /// Judges a ratio of two independent samples. It uses the 95% interval instead of the 90% interval, which makes the test of
    /// equivalence stricter.
    pub fn of_samples(ratio: Option<Ratio>, margin: f64) -> RatioVerdict {
        RatioVerdict::of_paired_rounds(ratio, ratio.map(|ratio| (ratio.low.ln(), ratio.high.ln())), margin)
    }

    /// Judges by three facts: whether the ratio is provisional, whether its 95% interval excludes 1 (`is_significant`), and
    /// whether its 90% interval is within the margin.
    pub fn from_tests(is_provisional: bool, is_significant: bool, is_within_margin: bool) -> RatioVerdict {
        match (is_provisional, is_significant, is_within_margin) {
            (true, ..) => RatioVerdict::Provisional,
            (_, true, true) => RatioVerdict::Negligible,
            (_, true, false) => RatioVerdict::Different,
            (_, false, true) => RatioVerdict::Equivalent,
            (_, false, false) => RatioVerdict::Inconclusive,
        }
    }

    /// The verdict in words; if A and B differ significantly, also which of them is better. The ratio is B/A.
    pub fn describe(self, ratio: Option<Ratio>, direction: Direction, margin: f64) -> String {
        let margin = percent(margin);
        match self {
            RatioVerdict::Different => {
                format!("significantly different: {}", describe_difference(ratio, direction))
            }
            RatioVerdict::Negligible => format!("significant, but within {margin}"),
            RatioVerdict::Equivalent => format!("equivalent within {margin}"),
            RatioVerdict::Inconclusive => "inconclusive".into(),
            RatioVerdict::Provisional => "provisional".into(),
        }
    }
}

/// A cell with a ratio and a mark after it, and the interval in its second line.
pub fn ratio_cell(ratio: impl Into<Estimate>, mark: &str) -> Cell {
    let Estimate { value, low, high } = ratio.into();
    Cell::two_lines(format!("{}{mark}", number::three_digits_beside(value, &[1.0])), number::ratio_interval(low, high))
}

/// Which of A and B is better; if no direction is better, whether B has more or less.
fn describe_difference(ratio: Option<Ratio>, direction: Direction) -> &'static str {
    let is_b_larger = ratio.is_some_and(|ratio| ratio.value > 1.0);
    match direction {
        Direction::Neutral if is_b_larger => "B has more",
        Direction::Neutral => "B has less",
        Direction::Higher if is_b_larger => "B better",
        Direction::Lower if !is_b_larger => "B better",
        _ => "A better",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_on(low: f64, high: f64, rounds: usize) -> RatioVerdict {
        let ratio = Ratio { value: 1.0, low, high, rounds, provisional: rounds < 8 };
        RatioVerdict::of_paired_rounds(Some(ratio), Some((low.ln(), high.ln())), 0.01)
    }

    #[test]
    fn the_verdict_follows_from_the_interval_the_margin_and_the_rounds() {
        assert_eq!(verdict_on(1.02, 1.04, 8), RatioVerdict::Different);
        assert_eq!(verdict_on(1.002, 1.004, 8), RatioVerdict::Negligible);
        assert_eq!(verdict_on(0.995, 1.005, 8), RatioVerdict::Equivalent);
        assert_eq!(verdict_on(0.95, 1.005, 8), RatioVerdict::Inconclusive);
        assert_eq!(verdict_on(1.02, 1.04, 7), RatioVerdict::Provisional);
        assert_eq!(RatioVerdict::of_paired_rounds(None, None, 0.01), RatioVerdict::Provisional);
    }
}
