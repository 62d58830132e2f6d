//! Spending as a line of load: whether there is a fixed overhead.

use super::{Estimate, Windows, effective, t_quantile};
use crate::average::{mean, squares};

/// C = α + β·Q by least squares, with errors that do not take the scatter to be alike at all loads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// α: what is spent without any request, a second.
    pub overhead: f64,
    /// β: what one more request costs.
    pub slope: f64,
    /// Variance of α, variance of β, and their covariance: HC3 (MacKinnon and White 1985), times the windows
    /// over the effective number of them.
    pub covariance: (f64, f64, f64),
    /// Degrees of freedom: effective windows less two.
    pub freedom: f64,
}

impl Line {
    /// Fits. None under four windows, or where the load is the same in all, or one window alone fixes the line.
    pub fn of(windows: Windows) -> Option<Line> {
        let n = windows.load.len().min(windows.spent.len());
        let count = n as f64;
        let (q, c) = (windows.load, windows.spent);
        let (mean_q, mean_c, spread) = (mean(q), mean(c), squares(q.iter()));
        if n < 4 || spread <= 0.0 {
            return None;
        }
        let slope = q.iter().zip(c).map(|(q, c)| (q - mean_q) * (c - mean_c)).sum::<f64>() / spread;
        let overhead = mean_c - slope * mean_q;
        let off: Vec<f64> = q.iter().zip(c).map(|(q, c)| c - overhead - slope * q).collect();
        // (XᵀX)⁻¹Xᵀ has the rows wα = 1/n − Q̄·(Qᵢ−Q̄)/S and wβ = (Qᵢ−Q̄)/S; HC3 divides each residual by 1−hᵢ.
        let (mut of_overhead, mut of_slope, mut of_both) = (0.0, 0.0, 0.0);
        for (q, off) in q.iter().zip(&off) {
            let slope_weight = (q - mean_q) / spread;
            let overhead_weight = 1.0 / count - mean_q * slope_weight;
            let leverage = 1.0 / count + (q - mean_q).powi(2) / spread;
            if leverage > 1.0 - 1e-9 {
                return None;
            }
            let scaled = off / (1.0 - leverage);
            of_overhead += (overhead_weight * scaled).powi(2);
            of_slope += (slope_weight * scaled).powi(2);
            of_both += overhead_weight * slope_weight * scaled.powi(2);
        }
        let effective = effective(&off);
        let fewer = count / effective;
        Some(Line {
            overhead,
            slope,
            covariance: (of_overhead * fewer, of_slope * fewer, of_both * fewer),
            freedom: (effective - 2.0).max(1.0),
        })
    }

    /// α with its 95% interval by Student's t. What excludes 0 is a fixed overhead.
    pub fn overhead(&self) -> Option<Estimate> {
        self.interval(0.0)
    }

    /// Consumption at a load, and its variance.
    pub fn at(&self, load: f64) -> (f64, f64) {
        let (alpha, beta, both) = self.covariance;
        (self.overhead + self.slope * load, alpha + 2.0 * load * both + load * load * beta)
    }

    /// Consumption at a load, with its 95% interval. None without degrees of freedom.
    pub fn interval(&self, load: f64) -> Option<Estimate> {
        let (value, variance) = self.at(load);
        let reach = t_quantile(self.freedom)? * variance.max(0.0).sqrt();
        Some(Estimate { value, low: value - reach, high: value + reach })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_statsmodels() {
        // q = [10, 20, 30, 40, 50, 60]; c = [14, 21, 33, 39, 52, 55]
        // f = sm.OLS(c, sm.add_constant(q)).fit(cov_type="HC3", use_t=True)
        // f.params, f.cov_params(), f.conf_int()[0]; the residuals' acf is below 0, so no window is lost.
        let load = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let line = Line::of(Windows { load: &load, spent: &[14.0, 21.0, 33.0, 39.0, 52.0, 55.0] }).unwrap();
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
        near(line.overhead, REFERENCE[0]);
        near(line.slope, REFERENCE[1]);
        near(line.covariance.0, REFERENCE[2]);
        near(line.covariance.1, REFERENCE[3]);
        near(line.covariance.2, REFERENCE[4]);
        let overhead = line.overhead().unwrap();
        near(overhead.low, REFERENCE[5]);
        near(overhead.high, REFERENCE[6]);
    }

    /// By the calls above, statsmodels 0.15.0.
    const REFERENCE: [f64; 7] = [
        5.266666666666641,
        0.8685714285714288,
        4.654249923260146,
        0.007163071173554083,
        -0.16878414593807703,
        -0.72315567402977,
        11.25648900736305,
    ];

    #[test]
    fn an_overhead_is_found_and_none_is_not() {
        let load = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let noise = [0.1, -0.1, 0.05, -0.05, 0.1, -0.1];
        let spent = |overhead: f64| -> Vec<f64> {
            load.iter().zip(noise).map(|(q, e)| overhead + 2.0 * q + e).collect()
        };
        let found = |overhead| Line::of(Windows { load: &load, spent: &spent(overhead) }).unwrap().overhead();
        assert!(found(5.0).unwrap().excludes(0.0));
        assert!(!found(0.0).unwrap().excludes(0.0));
    }

    #[test]
    fn a_load_that_never_changes_tells_nothing() {
        assert_eq!(Line::of(Windows { load: &[5.0; 6], spent: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] }), None);
        assert_eq!(Line::of(Windows { load: &[5.0, 5.0, 5.0, 5.0, 9.0], spent: &[1.0; 5] }), None);
    }
}
