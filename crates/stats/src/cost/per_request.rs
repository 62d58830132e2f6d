//! The ratio estimator: all that was spent over all that was served.

use super::{Estimate, Windows, effective, t_quantile};

/// What one request costs, if cost is proportional to load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerRequest {
    /// R = ΣC/ΣQ.
    pub value: f64,
    /// The variance of `value`, by as many windows as are independent.
    pub variance: f64,
    /// Windows.
    pub windows: usize,
    /// As how many independent windows they count.
    pub effective: f64,
}

impl PerRequest {
    /// The estimate with v = [n/(n−1)]·Σ(Cᵢ−R·Qᵢ)²/(ΣQ)² (Cochran, "Sampling Techniques", 1977, §6.4, without
    /// the correction for a finite population), times n over the effective number of windows. None under two
    /// windows, or where nothing was served.
    pub fn of(windows: Windows) -> Option<PerRequest> {
        let n = windows.load.len().min(windows.spent.len());
        let served: f64 = windows.load.iter().sum();
        if n < 2 || served <= 0.0 {
            return None;
        }
        let value = windows.spent.iter().sum::<f64>() / served;
        let off: Vec<f64> = windows.spent.iter().zip(windows.load).map(|(c, q)| c - value * q).collect();
        let count = n as f64;
        let independent = count / (count - 1.0) * off.iter().map(|e| e * e).sum::<f64>() / (served * served);
        let effective = effective(&off);
        Some(PerRequest { value, variance: independent * count / effective, windows: n, effective })
    }

    /// The relative standard error's square: the variance of ln R.
    pub fn log_variance(&self) -> f64 {
        self.variance / (self.value * self.value)
    }

    /// Degrees of freedom of the variance.
    pub fn freedom(&self) -> f64 {
        (self.effective - 1.0).max(1.0)
    }

    /// R with its 95% interval, symmetric in ln R: a cost is never negative. None where nothing was spent.
    pub fn estimate(&self) -> Option<Estimate> {
        let reach = (t_quantile(self.freedom())? * self.log_variance().sqrt()).exp();
        (self.value > 0.0).then_some(Estimate::times(self.value, reach))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_checked() {
        // R = 12/6 = 2; residuals 0, 1, -1; v = 3/2 · 2/36 = 1/12; ρ₁ = -1/2 counts as 0.
        let found = PerRequest::of(Windows { load: &[1.0, 2.0, 3.0], spent: &[2.0, 5.0, 5.0] }).unwrap();
        assert_eq!((found.value, found.windows, found.effective), (2.0, 3, 3.0));
        assert!((found.variance - 1.0 / 12.0).abs() < 1e-15);
        // t₀.₉₇₅ with 2 degrees of freedom is 4.302652729911275 (scipy.stats.t.ppf); SE of ln R = √(1/48).
        let estimate = found.estimate().unwrap();
        assert!((estimate.high / 2.0 - (4.302652729911275 * (1.0f64 / 48.0).sqrt()).exp()).abs() < 1e-9);
        assert!((estimate.low * estimate.high - 4.0).abs() < 1e-12);
    }

    #[test]
    fn neighbours_that_are_alike_widen_the_interval() {
        let load = [10.0; 8];
        let mixed = PerRequest::of(Windows { load: &load, spent: &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0] });
        let runs = PerRequest::of(Windows { load: &load, spent: &[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0] });
        let (mixed, runs) = (mixed.unwrap(), runs.unwrap());
        assert_eq!(mixed.value, runs.value);
        assert!(runs.effective < 3.0 && runs.variance > 2.0 * mixed.variance);
    }

    #[test]
    fn nothing_served_costs_nothing_known() {
        assert_eq!(PerRequest::of(Windows { load: &[0.0, 0.0], spent: &[1.0, 1.0] }), None);
        assert_eq!(PerRequest::of(Windows { load: &[1.0], spent: &[1.0] }), None);
        assert_eq!(
            PerRequest::of(Windows { load: &[1.0, 1.0], spent: &[0.0, 0.0] }).unwrap().estimate(),
            None
        );
    }
}
