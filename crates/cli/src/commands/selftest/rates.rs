//! How the self-test prints the rates of its errors.

use fsarena_stats::simulate::ErrorCount;

/// A share in per cent with two decimals.
pub fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// The 95% confidence limits of an error rate.
pub fn confidence_limits(errors: ErrorCount) -> String {
    format!("{} to {}", percent(errors.lower()), percent(errors.upper()))
}
