//! Paired differences within rounds.

/// The within-round log ratios of two variants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pairs {
    /// d_i = ln(b_i / a_i), one for each round that has both.
    pub d: Vec<f64>,
    /// Rounds that have both, but a value that is zero or negative: it has no logarithm.
    pub excluded: usize,
}

/// Pairs two variants round by round; NaN marks a round that lacks the variant.
///
/// Rounds in which one value is zero or negative are left out and counted. They are left out whichever
/// variant has the zero, but a count that is not small means that a ratio is the wrong question.
pub fn log_ratios(a: &[f64], b: &[f64]) -> Pairs {
    let mut pairs = Pairs::default();
    for (a, b) in a.iter().zip(b).filter(|(a, b)| !a.is_nan() && !b.is_nan()) {
        let d = (b / a).ln();
        if *a > 0.0 && *b > 0.0 && d.is_finite() {
            pairs.d.push(d);
        } else {
            pairs.excluded += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rounds_with_both_count() {
        let pairs = log_ratios(&[1.0, f64::NAN, 2.0, 4.0], &[2.0, 3.0, f64::NAN, 4.0]);
        assert_eq!(pairs, Pairs { d: vec![2f64.ln(), 0.0], excluded: 0 });
    }

    #[test]
    fn zero_and_negative_are_counted_out() {
        let pairs = log_ratios(&[0.0, 1.0, 1.0, f64::INFINITY], &[1.0, 0.0, -1.0, 1.0]);
        assert_eq!(pairs, Pairs { d: vec![], excluded: 4 });
    }
}
