//! What a request costs, from windows in which more or fewer of them were served.
//!
//! A window has a load (requests a second) and a spending (of some resource, a second). Where the spending is
//! proportional to the load, the ratio of their sums is the cost of a request at any load, and two services can
//! be compared though one was busier. Where there is a fixed overhead it is not: then they are compared at a
//! load that both had. Where they had none in common, they cannot be compared.
//!
//! Windows follow each other on one machine, so that neighbours are alike. All errors here are those of as many
//! independent windows as there is information in them ([`effective`]).

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

/// Fewer windows than this decide nothing.
pub const FEWEST: usize = 8;

/// How the ratio was had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// By the ratios of sums: no fixed overhead was found on either side.
    Sums,
    /// By the lines, at this load: one of the two has a fixed overhead.
    AtLoad(f64),
}

/// The ratio of b's cost per request to a's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// A ratio with its interval.
    Ratio {
        /// How many times as much, with the 95% interval.
        ratio: Estimate,
        /// By which way.
        method: Method,
        /// Whether there are too few windows for it to decide anything.
        provisional: bool,
    },
    /// The load ranges have less than half in common.
    Refused(Overlap),
    /// a's cost may be zero, so the ratio is unbounded; or there are too few windows.
    Unknown,
}

impl Answer {
    /// Whether it tells the two apart at 95%.
    pub fn separated(&self) -> bool {
        matches!(self, Answer::Ratio { ratio, provisional: false, .. } if ratio.excludes(1.0))
    }
}

/// Compares b with a.
///
/// A fixed overhead counts as found where the interval of [`Line::overhead`] excludes 0, on either side. The
/// choice of the method by that test is part of the answer, and the report prints it.
pub fn compare(a: Windows, b: Windows) -> Answer {
    let Some(overlap) = Overlap::of(a.load, b.load) else { return Answer::Unknown };
    if !overlap.enough() {
        return Answer::Refused(overlap);
    }
    let lines = (Line::of(a), Line::of(b));
    let has_overhead = |line: &Option<Line>| {
        line.as_ref().and_then(Line::overhead).is_some_and(|overhead| overhead.excludes(0.0))
    };
    let found = match &lines {
        (Some(first), Some(second)) if has_overhead(&lines.0) || has_overhead(&lines.1) => {
            at_load(first, second, overlap.middle).map(|ratio| (ratio, Method::AtLoad(overlap.middle)))
        }
        _ => by_sums(a, b).map(|ratio| (ratio, Method::Sums)),
    };
    let provisional = a.load.len().min(b.load.len()) < FEWEST;
    found.map_or(Answer::Unknown, |(ratio, method)| Answer::Ratio { ratio, method, provisional })
}

/// ln(R_b/R_a) ± t·√(v_a/R_a² + v_b/R_b²).
fn by_sums(a: Windows, b: Windows) -> Option<Estimate> {
    let (a, b) = (PerRequest::of(a)?, PerRequest::of(b)?);
    if a.value <= 0.0 || b.value <= 0.0 {
        return None;
    }
    let (var_a, var_b) = (a.log_variance(), b.log_variance());
    let t = t_quantile(welch((var_a, a.freedom()), (var_b, b.freedom())))?;
    let (value, reach) = (b.value / a.value, (t * (var_a + var_b).sqrt()).exp());
    Some(Estimate::times(value, reach))
}

fn at_load(a: &Line, b: &Line, load: f64) -> Option<Estimate> {
    let (at_a, at_b) = (a.at(load), b.at(load));
    let t = t_quantile(welch((at_a.1, a.freedom), (at_b.1, b.freedom)))?;
    match quotient(at_a, at_b, t)? {
        Quotient::Bounded(estimate) => Some(estimate),
        Quotient::Unbounded(_) => None,
    }
}

/// Loads that lie within this share of their middle count as one load.
const SAME: f64 = 0.1;
/// What ranges must share at least.
pub const LEAST: f64 = 0.5;

/// The loads that two services both had, and how much of their ranges that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overlap {
    /// The part of the wider range that lies in both, from 0 to 1; 1 where all loads are practically one.
    pub share: f64,
    /// The middle of what both had: the load at which they can be compared.
    pub middle: f64,
}

impl Overlap {
    /// Of the loads of two services. None where one has none.
    pub fn of(a: &[f64], b: &[f64]) -> Option<Overlap> {
        let end = |loads: &[f64], of: fn(f64, f64) -> f64| loads.iter().copied().reduce(of);
        let range = |loads: &[f64]| Some((end(loads, f64::min)?, end(loads, f64::max)?));
        let ((low_a, high_a), (low_b, high_b)) = (range(a)?, range(b)?);
        let (low, high) = (low_a.max(low_b), high_a.min(high_b));
        let (least, most) = (low_a.min(low_b), high_a.max(high_b));
        let middle = (low + high) / 2.0;
        let wider = (high_a - low_a).max(high_b - low_b);
        let share = match () {
            () if most - least <= SAME * (most + least) / 2.0 => 1.0,
            () if wider > 0.0 => ((high - low) / wider).max(0.0),
            () => 0.0,
        };
        Some(Overlap { share, middle })
    }

    /// Whether there is enough of it to compare.
    pub fn enough(&self) -> bool {
        self.share >= LEAST
    }
}

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

    #[test]
    fn lines_agree_with_statsmodels() {
        // q = [10, 20, 30, 40, 50, 60]; c = [14, 21, 33, 39, 52, 55]
        // f = sm.OLS(c, sm.add_constant(q)).fit(cov_type="HC3", use_t=True)
        // f.params, f.cov_params(), f.conf_int()[0]; the residuals' acf is below 0, so no window is lost.
        let load = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let line = Line::of(Windows { load: &load, spent: &[14.0, 21.0, 33.0, 39.0, 52.0, 55.0] }).unwrap();
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
        near(line.overhead, LINE_REFERENCE[0]);
        near(line.slope, LINE_REFERENCE[1]);
        near(line.covariance.0, LINE_REFERENCE[2]);
        near(line.covariance.1, LINE_REFERENCE[3]);
        near(line.covariance.2, LINE_REFERENCE[4]);
        let overhead = line.overhead().unwrap();
        near(overhead.low, LINE_REFERENCE[5]);
        near(overhead.high, LINE_REFERENCE[6]);
    }

    /// By the calls above, statsmodels 0.15.0.
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

    const LOAD: [f64; 10] = [10.0, 20.0, 30.0, 40.0, 50.0, 15.0, 25.0, 35.0, 45.0, 55.0];
    const NOISE: [f64; 10] = [0.3, -0.4, 0.2, -0.1, 0.4, -0.3, 0.1, -0.2, 0.3, -0.3];

    fn spent(overhead: f64, cost: f64) -> Vec<f64> {
        LOAD.iter().zip(NOISE).map(|(q, e)| overhead + cost * q + e).collect()
    }

    #[test]
    fn sums_compare_what_is_proportional() {
        let (a, b) = (spent(0.0, 1.0), spent(0.0, 2.0));
        let found = compare(Windows { load: &LOAD, spent: &a }, Windows { load: &LOAD, spent: &b });
        let Answer::Ratio { ratio, method: Method::Sums, provisional: false } = found else {
            panic!("{found:?}")
        };
        assert!(ratio.low < 2.0 && ratio.high > 2.0 && ratio.low > 1.9 && found.separated());
    }

    #[test]
    fn an_overhead_is_compared_at_a_common_load() {
        let (a, b) = (spent(0.0, 1.0), spent(20.0, 1.0));
        let found = compare(Windows { load: &LOAD, spent: &a }, Windows { load: &LOAD, spent: &b });
        let Answer::Ratio { ratio, method: Method::AtLoad(load), .. } = found else { panic!("{found:?}") };
        // The middle of 10 to 55; there b spends 52.5 and a 32.5.
        assert_eq!(load, 32.5);
        assert!((ratio.value - 52.5 / 32.5).abs() < 0.02 && ratio.low < ratio.value, "{ratio:?}");
    }

    #[test]
    fn loads_too_far_apart_are_refused_and_few_windows_decide_nothing() {
        let (a, far) = (spent(0.0, 1.0), LOAD.map(|q| q + 40.0));
        let found = compare(Windows { load: &LOAD, spent: &a }, Windows { load: &far, spent: &a });
        assert!(matches!(found, Answer::Refused(overlap) if overlap.share < 0.5), "{found:?}");
        let (few, double) = (&a[..5], spent(0.0, 3.0));
        let found =
            compare(Windows { load: &LOAD[..5], spent: few }, Windows { load: &LOAD, spent: &double });
        assert!(matches!(found, Answer::Ratio { provisional: true, .. }) && !found.separated(), "{found:?}");
    }

    #[test]
    fn ranges_share_what_both_had() {
        let half = Overlap::of(&[10.0, 30.0], &[20.0, 40.0]).unwrap();
        assert_eq!((half.share, half.middle, half.enough()), (0.5, 25.0, true));
        let less = Overlap::of(&[10.0, 30.0], &[21.0, 40.0]).unwrap();
        assert!(!less.enough());
        assert_eq!(Overlap::of(&[10.0, 20.0], &[30.0, 40.0]).unwrap().share, 0.0);
        // A narrow range within a wide one: the wide one was mostly elsewhere.
        assert!(!Overlap::of(&[10.0, 12.0], &[10.0, 100.0]).unwrap().enough());
        assert_eq!(Overlap::of(&[], &[1.0]), None);
    }

    #[test]
    fn equal_loads_overlap_though_they_have_no_range() {
        assert!(Overlap::of(&[100.0, 100.0], &[100.0, 100.0]).unwrap().enough());
        assert!(Overlap::of(&[99.0, 100.0], &[101.0, 102.0]).unwrap().enough());
        assert!(!Overlap::of(&[100.0], &[200.0]).unwrap().enough());
    }

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
