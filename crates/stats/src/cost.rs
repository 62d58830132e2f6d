//! The cost of a request, estimated from windows of time in which a service answered different numbers of requests.
//!
//! A window has a load (requests per second) and a consumption (of some resource, per second). If consumption is
//! proportional to load, the ratio of their sums is the cost of a request at any load, and two services can be compared even
//! if one was busier. If a service has a fixed overhead, they are compared at a load that both had. If no load was common to
//! both, they cannot be compared.
//!
//! Consecutive windows on one machine are correlated. So all standard errors here use the effective number of independent
//! windows ([`effective_windows`]).

use crate::average::{mean, squared_deviations};
pub use crate::ratio::Estimate;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The windows of one service in order of time. Load and consumption are rates, so windows may differ in length.
#[derive(Debug, Clone, Copy)]
pub struct LoadWindows<'a> {
    /// Requests per second.
    pub load: &'a [f64],
    /// Consumption per second.
    pub consumption: &'a [f64],
}

/// The 97.5% quantile of Student's t. None without degrees of freedom.
pub(crate) fn t_quantile(degrees_of_freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, degrees_of_freedom).ok().filter(|_| degrees_of_freedom > 0.0)?.inverse_cdf(0.975))
}

/// The degrees of freedom of the sum of two variances v₁ and v₂ with f₁ and f₂ degrees of freedom:
/// (v₁ + v₂)² / (v₁²/f₁ + v₂²/f₂) (Satterthwaite 1946, Welch 1947).
pub fn welch_degrees_of_freedom((v1, f1): (f64, f64), (v2, f2): (f64, f64)) -> f64 {
    let sum = v1 + v2;
    if sum <= 0.0 {
        return f1.min(f2);
    }
    sum * sum / (v1 * v1 / f1 + v2 * v2 / f2)
}

/// The lag-1 autocorrelation of a series e₁, e₂, …: ρ₁ = Σ(eₜ−ē)(eₜ₊₁−ē) / Σ(eₜ−ē)², where ē is the mean. 0 for a constant
/// series.
pub fn lag_1_autocorrelation(series: &[f64]) -> f64 {
    let (mean, squares) = (mean(series), squared_deviations(series.iter()));
    let products: f64 = series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// The number of independent windows that determine a mean as precisely as these n: n·(1−ρ₁)/(1+ρ₁), for a first-order
/// autoregressive process with the lag-1 autocorrelation ρ₁ (Bayley and Hammersley 1946). Never more than n: with few windows
/// the estimate of ρ₁ is biased below 0, which would raise the number wrongly.
pub fn effective_windows(series: &[f64]) -> f64 {
    let rho = lag_1_autocorrelation(series).clamp(0.0, 0.999);
    series.len() as f64 * (1.0 - rho) / (1.0 + rho)
}

/// The cost of one request, if consumption is proportional to load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestCost {
    /// R = ΣC/ΣQ, the total consumption divided by the number of requests.
    pub value: f64,
    /// The variance of `value`, based on the effective number of windows.
    pub variance: f64,
    /// The number of windows.
    pub windows: usize,
    /// The effective number of independent windows; see [`effective_windows`].
    pub effective_windows: f64,
}

impl RequestCost {
    /// Estimates the cost R = ΣC/ΣQ, where Cᵢ is the consumption and Qᵢ the load of window i of n. Its variance is
    /// [n/(n−1)]·Σ(Cᵢ−R·Qᵢ)²/(ΣQ)² (Cochran, "Sampling Techniques", 1977, §6.4, without the correction for a finite
    /// population), times n divided by the effective number of windows. None for fewer than two windows or no requests.
    pub fn from_windows(windows: LoadWindows) -> Option<RequestCost> {
        let n = windows.load.len().min(windows.consumption.len());
        let total_load: f64 = windows.load.iter().sum();
        if n < 2 || total_load <= 0.0 {
            return None;
        }
        let value = windows.consumption.iter().sum::<f64>() / total_load;
        let residuals: Vec<f64> = windows.consumption.iter().zip(windows.load).map(|(c, q)| c - value * q).collect();
        let count = n as f64;
        let sum_of_squares: f64 = residuals.iter().map(|e| e * e).sum();
        let variance_if_independent = count / (count - 1.0) * sum_of_squares / (total_load * total_load);
        let effective_windows = effective_windows(&residuals);
        let variance = variance_if_independent * count / effective_windows;
        Some(RequestCost { value, variance, windows: n, effective_windows })
    }

    /// The variance of ln R: the square of the relative standard error.
    pub fn log_variance(&self) -> f64 {
        self.variance / (self.value * self.value)
    }

    /// The degrees of freedom of the variance: the effective number of windows minus one.
    pub fn degrees_of_freedom(&self) -> f64 {
        (self.effective_windows - 1.0).max(1.0)
    }

    /// R with its 95% interval, which is symmetric in ln R, because a cost is never negative. None if nothing was consumed.
    pub fn estimate(&self) -> Option<Estimate> {
        let factor = (t_quantile(self.degrees_of_freedom())? * self.log_variance().sqrt()).exp();
        (self.value > 0.0).then_some(Estimate::symmetric_on_log_scale(self.value, factor))
    }
}

/// The line C = α + β·Q, consumption by load, fitted by least squares. Its standard errors allow the scatter to differ between
/// loads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostLine {
    /// α: the consumption per second without any request.
    pub overhead: f64,
    /// β: the cost of one more request.
    pub slope: f64,
    /// The variance of α, the variance of β, and their covariance: HC3 (MacKinnon and White 1985), times the number of
    /// windows divided by their effective number.
    pub covariance_matrix: (f64, f64, f64),
    /// Degrees of freedom: the effective number of windows minus two.
    pub degrees_of_freedom: f64,
}

impl CostLine {
    /// Fits the line. None for fewer than four windows, for a constant load, or if a single window determines the slope.
    pub fn fit(windows: LoadWindows) -> Option<CostLine> {
        let n = windows.load.len().min(windows.consumption.len());
        let count = n as f64;
        let (q, c) = (windows.load, windows.consumption);
        let (mean_q, mean_c, spread) = (mean(q), mean(c), squared_deviations(q.iter()));
        if n < 4 || spread <= 0.0 {
            return None;
        }
        let slope = q.iter().zip(c).map(|(q, c)| (q - mean_q) * (c - mean_c)).sum::<f64>() / spread;
        let overhead = mean_c - slope * mean_q;
        let residuals: Vec<f64> = q.iter().zip(c).map(|(q, c)| c - overhead - slope * q).collect();
        // With S = Σ(Qᵢ−Q̄)², (XᵀX)⁻¹Xᵀ has the rows 1/n − Q̄·(Qᵢ−Q̄)/S for α and (Qᵢ−Q̄)/S for β. HC3 divides each residual by
        // 1−hᵢ, where hᵢ = 1/n + (Qᵢ−Q̄)²/S is its leverage.
        let (mut overhead_variance, mut slope_variance, mut covariance) = (0.0, 0.0, 0.0);
        for (q, residual) in q.iter().zip(&residuals) {
            let slope_weight = (q - mean_q) / spread;
            let overhead_weight = 1.0 / count - mean_q * slope_weight;
            let leverage = 1.0 / count + (q - mean_q).powi(2) / spread;
            if leverage > 1.0 - 1e-9 {
                return None;
            }
            let scaled = residual / (1.0 - leverage);
            overhead_variance += (overhead_weight * scaled).powi(2);
            slope_variance += (slope_weight * scaled).powi(2);
            covariance += overhead_weight * slope_weight * scaled.powi(2);
        }
        let effective = effective_windows(&residuals);
        let inflation = count / effective;
        Some(CostLine {
            overhead,
            slope,
            covariance_matrix: (overhead_variance * inflation, slope_variance * inflation, covariance * inflation),
            degrees_of_freedom: (effective - 2.0).max(1.0),
        })
    }

    /// α with its 95% interval. If the interval excludes 0, the service has a fixed overhead.
    pub fn overhead(&self) -> Option<Estimate> {
        self.interval_at(0.0)
    }

    /// The consumption at a load, and its variance.
    pub fn consumption_at(&self, load: f64) -> (f64, f64) {
        let (overhead_variance, slope_variance, covariance) = self.covariance_matrix;
        let variance = overhead_variance + 2.0 * load * covariance + load * load * slope_variance;
        (self.overhead + self.slope * load, variance)
    }

    /// The consumption at a load, with its 95% interval. None without degrees of freedom.
    pub fn interval_at(&self, load: f64) -> Option<Estimate> {
        let (value, variance) = self.consumption_at(load);
        let half_width = t_quantile(self.degrees_of_freedom)? * variance.max(0.0).sqrt();
        Some(Estimate { value, low: value - half_width, high: value + half_width })
    }
}

/// The fewest windows per service for a verdict; with fewer a ratio is provisional.
pub const MIN_WINDOWS: usize = 8;

/// The method by which a ratio was computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RatioMethod {
    /// From the ratios of sums: neither service has a fixed overhead.
    Sums,
    /// From the fitted lines, at this load: one of the services has a fixed overhead.
    AtLoad(f64),
}

/// The comparison of the costs per request of two services, a and b: the ratio of b's cost to a's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CostComparison {
    /// A ratio with its interval.
    Ratio {
        /// The ratio with its 95% interval.
        ratio: Estimate,
        /// How it was computed.
        method: RatioMethod,
        /// Whether there are too few windows for a verdict.
        provisional: bool,
    },
    /// The two services had too few loads in common: under half of the wider range.
    Refused(Overlap),
    /// a's cost may be zero, so the ratio is unbounded; or there are too few windows.
    Unknown,
}

impl CostComparison {
    /// Whether the costs differ significantly: the 95% interval excludes 1, and is not provisional.
    pub fn is_significant(&self) -> bool {
        matches!(self, CostComparison::Ratio { ratio, provisional: false, .. } if ratio.excludes(1.0))
    }
}

/// Compares the costs per request of b and a.
///
/// A service has a fixed overhead if the interval of [`CostLine::overhead`] excludes 0, in either direction. This test selects
/// the method, which is part of the answer, so that reports can print it.
pub fn compare_costs(a: LoadWindows, b: LoadWindows) -> CostComparison {
    let Some(overlap) = Overlap::of_loads(a.load, b.load) else { return CostComparison::Unknown };
    if !overlap.is_enough() {
        return CostComparison::Refused(overlap);
    }
    let lines = (CostLine::fit(a), CostLine::fit(b));
    let has_overhead = |line: &Option<CostLine>| {
        line.as_ref().and_then(CostLine::overhead).is_some_and(|overhead| overhead.excludes(0.0))
    };
    let ratio_and_method = match &lines {
        (Some(first), Some(second)) if has_overhead(&lines.0) || has_overhead(&lines.1) => {
            ratio_at_load(first, second, overlap.middle).map(|ratio| (ratio, RatioMethod::AtLoad(overlap.middle)))
        }
        _ => ratio_of_sums(a, b).map(|ratio| (ratio, RatioMethod::Sums)),
    };
    let provisional = a.load.len().min(b.load.len()) < MIN_WINDOWS;
    match ratio_and_method {
        Some((ratio, method)) => CostComparison::Ratio { ratio, method, provisional },
        None => CostComparison::Unknown,
    }
}

/// The ratio R_b/R_a of the costs per request. Its interval is ln(R_b/R_a) ± t·√(v_a/R_a² + v_b/R_b²), where v is the variance
/// of a cost and t the quantile of Student's t with Welch's degrees of freedom.
fn ratio_of_sums(a: LoadWindows, b: LoadWindows) -> Option<Estimate> {
    let (a, b) = (RequestCost::from_windows(a)?, RequestCost::from_windows(b)?);
    if a.value <= 0.0 || b.value <= 0.0 {
        return None;
    }
    let (var_a, var_b) = (a.log_variance(), b.log_variance());
    let t = t_quantile(welch_degrees_of_freedom((var_a, a.degrees_of_freedom()), (var_b, b.degrees_of_freedom())))?;
    let factor = (t * (var_a + var_b).sqrt()).exp();
    Some(Estimate::symmetric_on_log_scale(b.value / a.value, factor))
}

/// The ratio of the consumptions at a load. None if it is unbounded.
fn ratio_at_load(a: &CostLine, b: &CostLine, load: f64) -> Option<Estimate> {
    let (at_a, at_b) = (a.consumption_at(load), b.consumption_at(load));
    let t = t_quantile(welch_degrees_of_freedom((at_a.1, a.degrees_of_freedom), (at_b.1, b.degrees_of_freedom)))?;
    fieller_ratio(at_a, at_b, t)
}

/// If all loads differ by at most this share of their middle, they count as the same load.
const MAX_SPREAD_OF_SAME_LOAD: f64 = 0.1;
/// The smallest share of the wider range that both services must have had.
pub const MIN_OVERLAP: f64 = 0.5;

/// The range of loads that two services both had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overlap {
    /// The common range as a share of the wider of the two ranges, 0–1; 1 if all loads are practically the same.
    pub share: f64,
    /// The middle of the common range, at which the services can be compared.
    pub middle: f64,
}

impl Overlap {
    /// The overlap of the loads of two services. None if one has no loads.
    pub fn of_loads(a: &[f64], b: &[f64]) -> Option<Overlap> {
        let ((low_a, high_a), (low_b, high_b)) = (load_range(a)?, load_range(b)?);
        let (low, high) = (low_a.max(low_b), high_a.min(high_b));
        let (lowest, highest) = (low_a.min(low_b), high_a.max(high_b));
        let middle = (low + high) / 2.0;
        let wider = (high_a - low_a).max(high_b - low_b);
        let share = if highest - lowest <= MAX_SPREAD_OF_SAME_LOAD * (highest + lowest) / 2.0 {
            1.0
        } else if wider > 0.0 {
            ((high - low) / wider).max(0.0)
        } else {
            0.0
        };
        Some(Overlap { share, middle })
    }

    /// Whether the common range is wide enough for a comparison.
    pub fn is_enough(&self) -> bool {
        self.share >= MIN_OVERLAP
    }
}

/// The smallest and the largest load.
fn load_range(loads: &[f64]) -> Option<(f64, f64)> {
    let loads = || loads.iter().copied();
    Some((loads().reduce(f64::min)?, loads().reduce(f64::max)?))
}

/// The ratio b/a of two independent estimates, each with its variance, and its interval (Fieller 1954). `t` is a quantile of
/// Student's t. None if the interval is unbounded, because a may be 0: g = t²·var(a)/a² ≥ 1.
fn fieller_ratio((a, var_a): (f64, f64), (b, var_b): (f64, f64), t: f64) -> Option<Estimate> {
    let ratio = b / a;
    let g = t * t * var_a / (a * a);
    if !a.is_finite() || !ratio.is_finite() || g >= 1.0 {
        return None;
    }
    let half_width = t / a.abs() * (var_b * (1.0 - g) + ratio * ratio * var_a).sqrt();
    Some(Estimate { value: ratio, low: (ratio - half_width) / (1.0 - g), high: (ratio + half_width) / (1.0 - g) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autocorrelation_agrees_with_statsmodels() {
        // statsmodels.tsa.stattools.acf([3, 4, 6, 5, 7, 9, 8, 8], nlags=1)[1]
        let series = [3.0, 4.0, 6.0, 5.0, 7.0, 9.0, 8.0, 8.0];
        let rho = lag_1_autocorrelation(&series);
        assert!((rho - AUTOCORRELATION_REFERENCE).abs() < 1e-12, "{rho}");
        assert!(
            (effective_windows(&series) - 8.0 * (1.0 - AUTOCORRELATION_REFERENCE) / (1.0 + AUTOCORRELATION_REFERENCE))
                .abs()
                < 1e-12
        );
    }

    /// The result of the call above with statsmodels 0.15.0.
    const AUTOCORRELATION_REFERENCE: f64 = 0.5456349206349206;

    #[test]
    fn negative_autocorrelation_does_not_raise_the_effective_number() {
        let series = [1.0, -1.0, 1.0, -1.0];
        assert!(lag_1_autocorrelation(&series) < 0.0);
        assert_eq!(effective_windows(&series), 4.0);
        assert_eq!(effective_windows(&[2.0, 2.0]), 2.0);
    }

    #[test]
    fn cost_and_variance_match_values_computed_by_hand() {
        // R = 12/6 = 2; residuals 0, 1, -1; v = 3/2 · 2/36 = 1/12; ρ₁ = -1/2 counts as 0.
        let found =
            RequestCost::from_windows(LoadWindows { load: &[1.0, 2.0, 3.0], consumption: &[2.0, 5.0, 5.0] }).unwrap();
        assert_eq!((found.value, found.windows, found.effective_windows), (2.0, 3, 3.0));
        assert!((found.variance - 1.0 / 12.0).abs() < 1e-15);
        // t₀.₉₇₅ with 2 degrees of freedom is 4.302652729911275 (scipy.stats.t.ppf); SE of ln R = √(1/48).
        let estimate = found.estimate().unwrap();
        assert!((estimate.high / 2.0 - (4.302652729911275 * (1.0f64 / 48.0).sqrt()).exp()).abs() < 1e-9);
        assert!((estimate.low * estimate.high - 4.0).abs() < 1e-12);
    }

    #[test]
    fn correlated_windows_widen_the_interval() {
        let load = [10.0; 8];
        let mixed = RequestCost::from_windows(LoadWindows {
            load: &load,
            consumption: &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0],
        });
        let clustered = RequestCost::from_windows(LoadWindows {
            load: &load,
            consumption: &[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0],
        });
        let (mixed, clustered) = (mixed.unwrap(), clustered.unwrap());
        assert_eq!(mixed.value, clustered.value);
        assert!(clustered.effective_windows < 3.0 && clustered.variance > 2.0 * mixed.variance);
    }

    #[test]
    fn the_cost_is_unknown_without_requests_windows_or_consumption() {
        assert_eq!(RequestCost::from_windows(LoadWindows { load: &[0.0, 0.0], consumption: &[1.0, 1.0] }), None);
        assert_eq!(RequestCost::from_windows(LoadWindows { load: &[1.0], consumption: &[1.0] }), None);
        assert_eq!(
            RequestCost::from_windows(LoadWindows { load: &[1.0, 1.0], consumption: &[0.0, 0.0] }).unwrap().estimate(),
            None
        );
    }

    #[test]
    fn lines_agree_with_statsmodels() {
        // q = [10, 20, 30, 40, 50, 60]; c = [14, 21, 33, 39, 52, 55]
        // f = sm.OLS(c, sm.add_constant(q)).fit(cov_type="HC3", use_t=True)
        // f.params, f.cov_params(), f.conf_int()[0]; the residuals' autocorrelation is below 0, so all windows count.
        let load = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let line =
            CostLine::fit(LoadWindows { load: &load, consumption: &[14.0, 21.0, 33.0, 39.0, 52.0, 55.0] }).unwrap();
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        near(line.overhead, LINE_REFERENCE[0]);
        near(line.slope, LINE_REFERENCE[1]);
        near(line.covariance_matrix.0, LINE_REFERENCE[2]);
        near(line.covariance_matrix.1, LINE_REFERENCE[3]);
        near(line.covariance_matrix.2, LINE_REFERENCE[4]);
        let overhead = line.overhead().unwrap();
        near(overhead.low, LINE_REFERENCE[5]);
        near(overhead.high, LINE_REFERENCE[6]);
    }

    /// The results of the calls above with statsmodels 0.15.0.
    const LINE_REFERENCE: [f64; 7] = [
        5.266666666666641,
        0.8685714285714288,
        4.654249923260146,
        0.007163071173554083,
        -0.16878414593807703,
        -0.72315567402977,
        11.25648900736305,
    ];

    #[test]
    fn the_interval_of_the_overhead_excludes_zero_only_with_an_overhead() {
        let load = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let noise = [0.1, -0.1, 0.05, -0.05, 0.1, -0.1];
        let consumption =
            |overhead: f64| -> Vec<f64> { load.iter().zip(noise).map(|(q, e)| overhead + 2.0 * q + e).collect() };
        let fit_overhead = |overhead| {
            CostLine::fit(LoadWindows { load: &load, consumption: &consumption(overhead) }).unwrap().overhead()
        };
        assert!(fit_overhead(5.0).unwrap().excludes(0.0));
        assert!(!fit_overhead(0.0).unwrap().excludes(0.0));
    }

    #[test]
    fn a_constant_load_determines_no_line() {
        assert_eq!(CostLine::fit(LoadWindows { load: &[5.0; 6], consumption: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] }), None);
        assert_eq!(CostLine::fit(LoadWindows { load: &[5.0, 5.0, 5.0, 5.0, 9.0], consumption: &[1.0; 5] }), None);
    }

    /// Requests per second of ten windows.
    const LOAD: [f64; 10] = [10.0, 20.0, 30.0, 40.0, 50.0, 15.0, 25.0, 35.0, 45.0, 55.0];
    /// The deviations of their consumption from a line.
    const NOISE: [f64; 10] = [0.3, -0.4, 0.2, -0.1, 0.4, -0.3, 0.1, -0.2, 0.3, -0.3];

    /// The consumption in windows of [`LOAD`], of a service with this overhead and cost of a request.
    fn consumption(overhead: f64, cost: f64) -> Vec<f64> {
        LOAD.iter().zip(NOISE).map(|(q, e)| overhead + cost * q + e).collect()
    }

    #[test]
    fn proportional_costs_are_compared_by_sums() {
        let (a, b) = (consumption(0.0, 1.0), consumption(0.0, 2.0));
        let comparison =
            compare_costs(LoadWindows { load: &LOAD, consumption: &a }, LoadWindows { load: &LOAD, consumption: &b });
        let CostComparison::Ratio { ratio, method: RatioMethod::Sums, provisional: false } = comparison else {
            panic!("{comparison:?}")
        };
        assert!(ratio.low < 2.0 && ratio.high > 2.0 && ratio.low > 1.9 && comparison.is_significant());
    }

    #[test]
    fn an_overhead_is_compared_at_a_common_load() {
        let (a, b) = (consumption(0.0, 1.0), consumption(20.0, 1.0));
        let comparison =
            compare_costs(LoadWindows { load: &LOAD, consumption: &a }, LoadWindows { load: &LOAD, consumption: &b });
        let CostComparison::Ratio { ratio, method: RatioMethod::AtLoad(load), .. } = comparison else {
            panic!("{comparison:?}")
        };
        // The middle of 10 to 55, where b consumes 52.5 and a consumes 32.5.
        assert_eq!(load, 32.5);
        assert!((ratio.value - 52.5 / 32.5).abs() < 0.02 && ratio.low < ratio.value, "{ratio:?}");
    }

    #[test]
    fn distant_loads_are_refused_and_few_windows_are_provisional() {
        let (a, distant_load) = (consumption(0.0, 1.0), LOAD.map(|q| q + 40.0));
        let comparison = compare_costs(
            LoadWindows { load: &LOAD, consumption: &a },
            LoadWindows { load: &distant_load, consumption: &a },
        );
        assert!(matches!(comparison, CostComparison::Refused(overlap) if overlap.share < 0.5), "{comparison:?}");
        let (few, double) = (&a[..5], consumption(0.0, 3.0));
        let comparison = compare_costs(
            LoadWindows { load: &LOAD[..5], consumption: few },
            LoadWindows { load: &LOAD, consumption: &double },
        );
        assert!(
            matches!(comparison, CostComparison::Ratio { provisional: true, .. }) && !comparison.is_significant(),
            "{comparison:?}"
        );
    }

    #[test]
    fn the_overlap_is_a_share_of_the_wider_range() {
        let half = Overlap::of_loads(&[10.0, 30.0], &[20.0, 40.0]).unwrap();
        assert_eq!((half.share, half.middle, half.is_enough()), (0.5, 25.0, true));
        let less = Overlap::of_loads(&[10.0, 30.0], &[21.0, 40.0]).unwrap();
        assert!(!less.is_enough());
        assert_eq!(Overlap::of_loads(&[10.0, 20.0], &[30.0, 40.0]).unwrap().share, 0.0);
        // A narrow range within a wide one: most of the wide range is not common.
        assert!(!Overlap::of_loads(&[10.0, 12.0], &[10.0, 100.0]).unwrap().is_enough());
        assert_eq!(Overlap::of_loads(&[], &[1.0]), None);
    }

    #[test]
    fn nearly_equal_loads_overlap_fully() {
        assert!(Overlap::of_loads(&[100.0, 100.0], &[100.0, 100.0]).unwrap().is_enough());
        assert!(Overlap::of_loads(&[99.0, 100.0], &[101.0, 102.0]).unwrap().is_enough());
        assert!(!Overlap::of_loads(&[100.0], &[200.0]).unwrap().is_enough());
    }

    #[test]
    fn the_ends_of_the_interval_solve_fiellers_equation() {
        // The definition: at both ends θ, (b − θ·a)² = t²·(σ_b² + θ²·σ_a²).
        let (a, b, t) = ((10.0, 1.0), (15.0, 2.0), 2.262157162798205);
        let found = fieller_ratio(a, b, t).unwrap();
        assert_eq!(found.value, 1.5);
        for end in [found.low, found.high] {
            let left = (b.0 - end * a.0).powi(2);
            assert!((left - t * t * (b.1 + end * end * a.1)).abs() < 1e-9, "{end}");
        }
        assert!(found.low < 1.5 && found.high > 1.5);
        // scipy.optimize.brentq on that equation, below and above 1.5.
        assert!((found.low - LOW_REFERENCE).abs() < 1e-9 && (found.high - HIGH_REFERENCE).abs() < 1e-9, "{found:?}");
    }

    /// The results of that call.
    const LOW_REFERENCE: f64 = 1.0953466627006154;
    const HIGH_REFERENCE: f64 = 2.0664538972681976;

    #[test]
    fn the_ratio_is_unbounded_if_the_denominator_may_be_zero() {
        assert_eq!(fieller_ratio((1.0, 1.0), (2.0, 0.1), 2.0), None);
        assert_eq!(fieller_ratio((0.0, 1.0), (2.0, 0.1), 2.0), None);
    }
}
