//! The ratio of two means that may be near nothing.

use super::Estimate;

/// A ratio of two independent estimates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quotient {
    /// An interval.
    Bounded(Estimate),
    /// The denominator may be 0, so the ratio is unbounded; the point estimate.
    Unbounded(f64),
}

/// b/a and its interval (Fieller 1954), for independent a and b with their variances, and a quantile of
/// Student's t. None where a is 0.
pub fn quotient(a: (f64, f64), b: (f64, f64), t: f64) -> Option<Quotient> {
    let ((a, var_a), (b, var_b)) = (a, b);
    if a == 0.0 || !a.is_finite() || !b.is_finite() {
        return None;
    }
    let ratio = b / a;
    let g = t * t * var_a / (a * a);
    if g >= 1.0 {
        return Some(Quotient::Unbounded(ratio));
    }
    let reach = t / a.abs() * (var_b * (1.0 - g) + ratio * ratio * var_a).sqrt();
    let estimate =
        Estimate { value: ratio, low: (ratio - reach) / (1.0 - g), high: (ratio + reach) / (1.0 - g) };
    Some(Quotient::Bounded(estimate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_where_the_difference_is_just_told_from_nothing() {
        // The definition: at both ends θ, (b − θ·a)² = t²·(σ_b² + θ²·σ_a²).
        let (a, b, t) = ((10.0, 1.0), (15.0, 2.0), 2.262157162798205);
        let Some(Quotient::Bounded(found)) = quotient(a, b, t) else { panic!() };
        assert_eq!(found.value, 1.5);
        for end in [found.low, found.high] {
            let left = (b.0 - end * a.0).powi(2);
            assert!((left - t * t * (b.1 + end * end * a.1)).abs() < 1e-9, "{end}");
        }
        assert!(found.low < 1.5 && found.high > 1.5);
        // scipy.optimize.brentq on that equation, below and above 1.5.
        assert!((found.low - LOW).abs() < 1e-9 && (found.high - HIGH).abs() < 1e-9, "{found:?}");
    }

    const LOW: f64 = 1.0953466627006154;
    const HIGH: f64 = 2.0664538972681976;

    #[test]
    fn a_divisor_that_may_be_nothing_bounds_nothing() {
        assert_eq!(quotient((1.0, 1.0), (2.0, 0.1), 2.0), Some(Quotient::Unbounded(2.0)));
        assert_eq!(quotient((0.0, 1.0), (2.0, 0.1), 2.0), None);
    }
}
