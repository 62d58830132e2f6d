//! Two services on one resource.

use super::{Estimate, Windows, line::Line, per_request::PerRequest, t_quantile, welch};

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
