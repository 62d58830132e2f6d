//! What a request costs, from windows in which more or fewer of them were served.
//!
//! A window has a load (requests a second) and a spending (of some resource, a second). Where the spending is
//! proportional to the load, the ratio of their sums is the cost of a request at any load, and two services can
//! be compared though one was busier. Where there is a fixed overhead it is not: then they are compared at a
//! load that both had. Where they had none in common, they cannot be compared.
//!
//! Windows follow each other on one machine, so that neighbours are alike. All errors here are those of as many
//! independent windows as there is information in them ([`effective`]).

pub mod compare;
pub mod line;
pub mod per_request;

use crate::average::{mean, squares};
pub use crate::ratio::Estimate;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The windows of one service: loads and spendings, in order of time. Both are rates, so that windows need not
/// be equally long.
#[derive(Debug, Clone, Copy)]
pub struct Windows<'a> {
    /// Requests a second.
    pub load: &'a [f64],
    /// Consumption per second.
    pub spent: &'a [f64],
}

/// The 97.5% quantile of Student's t. None without degrees of freedom.
fn t_quantile(freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom > 0.0)?.inverse_cdf(0.975))
}

/// Degrees of freedom of a sum of two variances (Welch 1947, Satterthwaite 1946).
pub(crate) fn welch(first: (f64, f64), second: (f64, f64)) -> f64 {
    let ((v1, f1), (v2, f2)) = (first, second);
    let sum = v1 + v2;
    if sum <= 0.0 {
        return f1.min(f2);
    }
    sum * sum / (v1 * v1 / f1 + v2 * v2 / f2)
}

/// The autocorrelation of neighbours: ρ₁ = Σ(eₜ−ē)(eₜ₊₁−ē) / Σ(eₜ−ē)². 0 where nothing varies.
pub fn neighbours(series: &[f64]) -> f64 {
    let (mean, squares) = (mean(series), squares(series.iter()));
    let products: f64 = series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// As how many independent windows these count: n·(1−ρ₁)/(1+ρ₁), of a first-order process (Bayley and Hammersley
/// 1946). Never more than there are: the estimate of ρ₁ of a few windows leans to the negative, and what it would
/// add is not there.
pub fn effective(series: &[f64]) -> f64 {
    let rho = neighbours(series).clamp(0.0, 0.999);
    series.len() as f64 * (1.0 - rho) / (1.0 + rho)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_statsmodels() {
        // statsmodels.tsa.stattools.acf([3, 4, 6, 5, 7, 9, 8, 8], nlags=1)[1]
        let series = [3.0, 4.0, 6.0, 5.0, 7.0, 9.0, 8.0, 8.0];
        let rho = neighbours(&series);
        assert!((rho - REFERENCE).abs() < 1e-12, "{rho}");
        assert!((effective(&series) - 8.0 * (1.0 - REFERENCE) / (1.0 + REFERENCE)).abs() < 1e-12);
    }

    /// By the call above, statsmodels 0.15.0.
    const REFERENCE: f64 = 0.5456349206349206;

    #[test]
    fn alternation_adds_nothing() {
        let series = [1.0, -1.0, 1.0, -1.0];
        assert!(neighbours(&series) < 0.0);
        assert_eq!(effective(&series), 4.0);
        assert_eq!(effective(&[2.0, 2.0]), 2.0);
    }
}
