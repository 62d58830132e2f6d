//! Two services on one resource.

use super::fieller::{self, Quotient};
use super::{Estimate, Windows, line::Line, load::Overlap, per_request::PerRequest, t_quantile, welch};

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
    Some(Estimate { value, low: value / reach, high: value * reach })
}

fn at_load(a: &Line, b: &Line, load: f64) -> Option<Estimate> {
    let (at_a, at_b) = (a.at(load), b.at(load));
    let t = t_quantile(welch((at_a.1, a.freedom), (at_b.1, b.freedom)))?;
    match fieller::quotient(at_a, at_b, t)? {
        Quotient::Bounded(estimate) => Some(estimate),
        Quotient::Unbounded(_) => None,
    }
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
}
