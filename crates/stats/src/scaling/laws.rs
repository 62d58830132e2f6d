//! Scaling laws of throughput. Each is fitted by least squares to ln X of all values, and AICc selects the best.

use super::series::Series;
use crate::average::{mean, squared_deviations};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// A law with its parameters. N is the number of clients, X the throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// ln X = ln a + b·ln N.
    Power {
        /// Throughput of one client.
        a: f64,
        /// The exponent: 1 doubles with the clients, 0 does not grow.
        b: f64,
    },
    /// Amdahl 1967: X = λN / (1 + σ(N−1)). It levels off at λ/σ and never falls.
    Amdahl {
        /// Throughput of one client.
        lambda: f64,
        /// The share of the work that is serial.
        sigma: f64,
    },
    /// Gunther 1993, universal scalability law: X = λN / (1 + σ(N−1) + κN(N−1)), σ, κ ≥ 0.
    Usl {
        /// Throughput of one client.
        lambda: f64,
        /// Contention: the share of the work that is serial.
        sigma: f64,
        /// Coherency: the cost of each pair of clients.
        kappa: f64,
    },
    /// ln X = ln a + b·min(ln N, ln Nₛ): a power law up to Nₛ, constant beyond it.
    Hinge {
        /// Throughput of one client.
        a: f64,
        /// The exponent before the knee.
        b: f64,
        /// The knee Nₛ.
        knee: f64,
    },
    /// X = a.
    Constant {
        /// The level.
        a: f64,
    },
    /// X = a + c/N: each unit of work costs a, and all units together cost c in addition.
    Fixed {
        /// The cost of a unit.
        a: f64,
        /// The fixed cost.
        c: f64,
    },
    /// X = a·(1 + b·ln(N/N₁)), with b ≥ 0, as for a search tree, which gets one level deeper each time N is multiplied by a
    /// factor.
    Logarithm {
        /// The value at the first N.
        a: f64,
        /// The growth for each factor of e, as a share of a.
        b: f64,
        /// The first N, N₁.
        first: f64,
    },
    /// A power law whose exponent changes: ln X = ln a + b·min(ln N, ln Nₛ) + c·max(ln N − ln Nₛ, 0).
    Bend {
        /// The factor.
        a: f64,
        /// The exponent before the bend.
        b: f64,
        /// The exponent after the bend.
        c: f64,
        /// The place of the bend, Nₛ.
        knee: f64,
    },
}

/// A fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedLaw {
    /// The law.
    pub law: Law,
    /// The sum of squared residuals of ln X.
    pub rss: f64,
}

impl FittedLaw {
    /// A law whose parameters were fitted to points (N, ln X).
    pub(super) fn new(law: Law, points: &[(f64, f64)]) -> FittedLaw {
        FittedLaw { law, rss: points.iter().map(|(n, y)| (y - law.ln_at(*n)).powi(2)).sum() }
    }
}

impl Law {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Law::Power { .. } => "power law",
            Law::Amdahl { .. } => "Amdahl's law",
            Law::Usl { .. } => "universal scalability law",
            Law::Hinge { .. } => "hinge",
            Law::Constant { .. } => "constant",
            Law::Fixed { .. } => "fixed cost",
            Law::Logarithm { .. } => "logarithm",
            Law::Bend { .. } => "power law that bends",
        }
    }

    /// The number of parameters of its curve.
    pub fn curve_parameters(&self) -> usize {
        match self {
            Law::Constant { .. } => 1,
            Law::Power { .. } | Law::Amdahl { .. } | Law::Fixed { .. } | Law::Logarithm { .. } => 2,
            Law::Usl { .. } | Law::Hinge { .. } => 3,
            Law::Bend { .. } => 4,
        }
    }

    /// ln X at N clients.
    pub fn ln_at(&self, n: f64) -> f64 {
        match *self {
            Law::Power { a, b } => a.ln() + b * n.ln(),
            Law::Amdahl { lambda, sigma } => usl_at(n, lambda.ln(), sigma, 0.0),
            Law::Usl { lambda, sigma, kappa } => usl_at(n, lambda.ln(), sigma, kappa),
            Law::Hinge { a, b, knee } => a.ln() + b * n.min(knee).ln(),
            Law::Constant { a } => a.ln(),
            Law::Fixed { a, c } => (a + c / n).ln(),
            Law::Logarithm { a, b, first } => a.ln() + (1.0 + b * (n / first).ln()).ln(),
            Law::Bend { a, b, c, knee } => a.ln() + b * n.min(knee).ln() + c * (n / knee).ln().max(0.0),
        }
    }

    /// The derivatives of ln X at N by ln a and by the other parameter, for the laws of growth with at most two.
    pub(super) fn gradient(&self, n: f64) -> Vec<f64> {
        match *self {
            Law::Fixed { a, c } => vec![1.0, 1.0 / (n * (1.0 + c / a / n))],
            Law::Logarithm { b, first, .. } => {
                let x = (n / first).ln();
                vec![1.0, x / (1.0 + b * x)]
            }
            Law::Constant { .. } => vec![1.0],
            _ => vec![1.0, n.ln()],
        }
    }

    /// The number of clients at its peak, √((1−σ)/κ). None if it has no peak above one client.
    pub fn peak(&self) -> Option<f64> {
        match *self {
            Law::Usl { sigma, kappa, .. } if kappa > 0.0 && sigma < 1.0 => {
                Some(((1.0 - sigma) / kappa).sqrt()).filter(|peak| *peak > 1.0)
            }
            _ => None,
        }
    }
}

/// ln X of the universal scalability law at N clients.
fn usl_at(n: f64, ln_lambda: f64, sigma: f64, kappa: f64) -> f64 {
    ln_lambda + n.ln() - usl_denominator(n, sigma, kappa).ln()
}

/// The denominator of the law: 1 + σ(N−1) + κN(N−1).
fn usl_denominator(n: f64, sigma: f64, kappa: f64) -> f64 {
    1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)
}

/// Fits every law for which there are enough points (N, ln X). Leaves out a law that equals a simpler one: a USL without
/// coherency is Amdahl's law, and a hinge beyond the last number of clients is a power law.
fn fit_laws(points: &[(f64, f64)]) -> Vec<FittedLaw> {
    let distinct = distinct_numbers(points).len();
    if distinct < 3 {
        return vec![];
    }
    let mut fits = vec![fit_power(points), fit_amdahl(points)];
    if distinct > 3 {
        fits.extend(fit_usl(points));
        fits.extend(fit_hinge(points));
    }
    fits
}

/// The distinct numbers of clients, ascending. The points must be sorted by number.
pub(super) fn distinct_numbers(points: &[(f64, f64)]) -> Vec<f64> {
    let mut numbers: Vec<f64> = points.iter().map(|point| point.0).collect();
    numbers.dedup();
    numbers
}

/// Converts points (N, ln X) to (ln N, ln X), with N limited to `max_n`.
fn log_points(points: &[(f64, f64)], max_n: f64) -> Vec<(f64, f64)> {
    points.iter().map(|(n, y)| (n.min(max_n).ln(), *y)).collect()
}

/// The power law: ordinary least squares of ln X on ln N.
pub(super) fn fit_power(points: &[(f64, f64)]) -> FittedLaw {
    let (intercept, b) = fit_line(&log_points(points, f64::INFINITY));
    FittedLaw::new(Law::Power { a: intercept.exp(), b }, points)
}

/// Fits a power law up to a knee that is constant beyond it, by least squares in closed form.
///
/// If the knee is between two numbers of clients, the curve is a fitted line before the knee and a mean after it, and the knee
/// is their intersection. If the intersection is not between the two numbers, the best knee is at one of the measured numbers.
/// So the least-squares hinge is the best over all intervals and numbers. The constant part has at least two numbers of
/// clients, because a single one would be no evidence that the curve is level there.
fn fit_hinge(points: &[(f64, f64)]) -> Option<FittedLaw> {
    let numbers = distinct_numbers(points);
    let between = (2..numbers.len() - 1).filter_map(|i| hinge_between(points, numbers[i - 1], numbers[i]));
    let at_numbers = numbers[1..numbers.len() - 1].iter().map(|knee| hinge_at(points, *knee));
    let fitted = between.chain(at_numbers).map(|law| FittedLaw::new(law, points));
    fitted.min_by(|a, b| a.rss.total_cmp(&b.rss))
}

/// The hinge whose knee is between two neighbouring numbers of clients. None if the intersection is elsewhere.
fn hinge_between(points: &[(f64, f64)], low: f64, high: f64) -> Option<Law> {
    let (before, after) = points.split_at(points.partition_point(|point| point.0 <= low));
    let (intercept, b) = fit_line(&log_points(before, low));
    let level = mean(after.iter().map(|point| point.1));
    let knee = ((level - intercept) / b).exp();
    (low..=high).contains(&knee).then(|| Law::Hinge { a: intercept.exp(), b, knee })
}

/// The hinge with this knee.
fn hinge_at(points: &[(f64, f64)], knee: f64) -> Law {
    let (intercept, b) = fit_line(&log_points(points, knee));
    Law::Hinge { a: intercept.exp(), b, knee }
}

/// Intercept and slope of y over x by ordinary least squares.
fn fit_line(points: &[(f64, f64)]) -> (f64, f64) {
    let (mean_x, mean_y) = (mean(points.iter().map(|p| p.0)), mean(points.iter().map(|p| p.1)));
    let products: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = products / squared_deviations(points.iter().map(|p| p.0));
    (mean_y - slope * mean_x, slope)
}

/// The starting points (σ, κ) of the search, for machines that scale well to badly. Several are needed, because the sum of
/// squares has several local minima.
const STARTS: [(f64, f64); 4] = [(0.01, 1e-4), (0.1, 1e-3), (0.5, 0.01), (0.9, 0.1)];
/// A smaller κ has no measurable effect even with a thousand clients.
const NEGLIGIBLE_KAPPA: f64 = 1e-9;
/// The most steps of a search.
const MAX_STEPS: usize = 400;
/// The smallest damping. With less, rounding can make the equations of a step singular, and that would end the search.
const MIN_DAMPING: f64 = 1e-12;
/// The damping at which a step is too short to change anything.
const MAX_DAMPING: f64 = 1e16;

/// Fits the USL by least squares with σ, κ ≥ 0. None if κ is practically 0.
pub(super) fn fit_usl(points: &[(f64, f64)]) -> Option<FittedLaw> {
    let general = STARTS.iter().map(|(sigma, kappa)| search_usl(points, [*sigma, *kappa], true));
    // A search that starts with σ > 0 cannot end exactly at σ = 0, so that edge is searched separately.
    let edge = STARTS.iter().map(|(_, kappa)| search_usl(points, [0.0, *kappa], true));
    let best = general.chain(edge).min_by(|a, b| a.rss.total_cmp(&b.rss))?;
    matches!(best.law, Law::Usl { kappa, .. } if kappa > NEGLIGIBLE_KAPPA).then_some(best)
}

/// Fits Amdahl's law by least squares with σ ≥ 0.
fn fit_amdahl(points: &[(f64, f64)]) -> FittedLaw {
    let starts = STARTS.iter().map(|(sigma, _)| search_usl(points, [*sigma, 0.0], false));
    let linear = search_usl(points, [0.0, 0.0], false);
    starts.fold(linear, |best, fit| if fit.rss < best.rss { fit } else { best })
}

/// Searches for the parameters with the least sum of squares from the starting point (σ, κ). The law is the USL, or Amdahl's law
/// unless `with_coherency`; κ must then start at 0, where it stays.
fn search_usl(points: &[(f64, f64)], start: [f64; 2], with_coherency: bool) -> FittedLaw {
    let best = minimise(points, Candidate::new(points, start.map(f64::sqrt)));
    let [sigma, kappa] = best.sigma_and_kappa();
    let lambda = best.ln_lambda.exp();
    let law = if with_coherency { Law::Usl { lambda, sigma, kappa } } else { Law::Amdahl { lambda, sigma } };
    FittedLaw::new(law, points)
}

/// A candidate for σ and κ, and its fit.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// √σ and √κ, so that σ and κ cannot become negative. A root that starts at 0 stays at 0.
    roots: [f64; 2],
    /// The best ln λ for these σ and κ: the mean of ln X minus the rest of the law.
    ln_lambda: f64,
    /// The sum of the squared residuals of ln X.
    rss: f64,
}

impl Candidate {
    /// The candidate with these roots of σ and κ.
    fn new(points: &[(f64, f64)], roots: [f64; 2]) -> Candidate {
        let [sigma, kappa] = roots.map(|root| root * root);
        let ln_lambda = mean(points.iter().map(|(n, y)| y - usl_at(*n, 0.0, sigma, kappa)));
        let mut candidate = Candidate { roots, ln_lambda, rss: 0.0 };
        candidate.rss = points.iter().map(|point| candidate.residual(*point).powi(2)).sum();
        candidate
    }

    fn sigma_and_kappa(&self) -> [f64; 2] {
        self.roots.map(|root| root * root)
    }

    /// ln X of the law minus the measured ln X, at a point (N, ln X).
    fn residual(&self, (n, y): (f64, f64)) -> f64 {
        let [sigma, kappa] = self.sigma_and_kappa();
        usl_at(n, self.ln_lambda, sigma, kappa) - y
    }

    /// The derivatives of each residual by √σ and √κ. The mean of each column is subtracted, because ln λ is a mean.
    fn jacobian(&self, points: &[(f64, f64)]) -> Vec<[f64; 2]> {
        let [sigma, kappa] = self.sigma_and_kappa();
        let derivatives = |n: f64| {
            let denominator = usl_denominator(n, sigma, kappa);
            [-2.0 * self.roots[0] * (n - 1.0) / denominator, -2.0 * self.roots[1] * n * (n - 1.0) / denominator]
        };
        let rows: Vec<[f64; 2]> = points.iter().map(|(n, _)| derivatives(*n)).collect();
        let means = [0, 1].map(|column| mean(rows.iter().map(|row| row[column])));
        rows.iter().map(|row| [row[0] - means[0], row[1] - means[1]]).collect()
    }

    /// The Levenberg–Marquardt step: the solution of (JᵀJ + damping·diag JᵀJ)·step = −Jᵀr. None if both roots are 0.
    fn step(&self, points: &[(f64, f64)], damping: f64) -> Option<[f64; 2]> {
        let (mut a, mut b, mut d, mut gradient) = (0.0, 0.0, 0.0, [0.0; 2]);
        for (row, point) in self.jacobian(points).iter().zip(points) {
            let residual = self.residual(*point);
            a += row[0] * row[0];
            b += row[0] * row[1];
            d += row[1] * row[1];
            gradient = [gradient[0] + row[0] * residual, gradient[1] + row[1] * residual];
        }
        // The column of a root at 0 is 0, so its step is 0 too.
        let (a, d) = (a * (1.0 + damping), d * (1.0 + damping));
        let determinant = a * d - b * b;
        match (a > 0.0, d > 0.0) {
            (true, true) if determinant > 0.0 => {
                let [x, y] = gradient;
                Some([(b * y - d * x) / determinant, (b * x - a * y) / determinant])
            }
            (true, false) => Some([-gradient[0] / a, 0.0]),
            (false, true) => Some([0.0, -gradient[1] / d]),
            _ => None,
        }
    }
}

/// Minimises the sum of squares from a starting point by the Levenberg–Marquardt method (Marquardt 1963, "An Algorithm for
/// Least-Squares Estimation of Nonlinear Parameters").
fn minimise(points: &[(f64, f64)], start: Candidate) -> Candidate {
    let (mut best, mut damping) = (start, 1e-3);
    for _ in 0..MAX_STEPS {
        let Some(step) = best.step(points, damping) else { break };
        let next = Candidate::new(points, [best.roots[0] + step[0], best.roots[1] + step[1]]);
        if next.rss < best.rss {
            best = next;
            damping = f64::max(damping / 10.0, MIN_DAMPING);
        } else {
            damping *= 10.0;
            if damping > MAX_DAMPING {
                break;
            }
        }
    }
    best
}

/// The lead in AICc that the best law needs over the next to be the winner.
pub const DECISIVE_LEAD: f64 = 4.0;
/// A law whose lack of fit has a smaller p-value does not describe the data.
pub const MISFIT_P: f64 = 0.01;
/// The relative precision of printed values. Smaller residuals are meaningless.
const RELATIVE_PRECISION: f64 = 1e-9;

/// A fitted law with its goodness of fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredFit {
    /// The law.
    pub law: Law,
    /// The sum of squared residuals of ln X.
    pub rss: f64,
    /// The share of the variance of ln X that it explains. It does not prove that the law is right: a power law can reach 0.98
    /// on data that follow another law.
    pub r_squared: f64,
    /// AICc = n·ln(RSS/n) + 2k + 2k(k+1)/(n−k−1) (Hurvich and Tsai 1989).
    pub aicc: f64,
    /// The test whether its residuals are larger than the differences between rounds. None with a single round.
    pub lack_of_fit: Option<LackOfFit>,
}

/// The test of lack of fit against pure error: F = [(RSS − SSPE)/(d − p)] / [SSPE/(n − d)], with d numbers of clients, p
/// parameters of the curve, n points (Draper and Smith 1998, 2.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LackOfFit {
    /// The statistic F.
    pub f: f64,
    /// The probability of an F at least this large if the law is right.
    pub p: f64,
}

/// The fitted laws, the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct LawChoice {
    /// The fits by rising AICc.
    pub fits: Vec<ScoredFit>,
}

impl LawChoice {
    /// Fits every law for which there are enough points. None if there are too few for any.
    pub fn fit(series: &Series) -> Option<LawChoice> {
        let points = series.points();
        LawChoice::compare(&fit_laws(&points), &points)
    }

    /// Compares fitted laws. None if there are too few points for any.
    pub(super) fn compare(fitted: &[FittedLaw], points: &[(f64, f64)]) -> Option<LawChoice> {
        let mut fits: Vec<ScoredFit> = fitted.iter().filter_map(|fit| score_fit(fit, points)).collect();
        fits.sort_by(|a, b| a.aicc.total_cmp(&b.aicc));
        (!fits.is_empty()).then_some(LawChoice { fits })
    }

    /// The best law, if it leads the next by at least [`DECISIVE_LEAD`].
    pub fn winner(&self) -> Option<&ScoredFit> {
        let next = self.fits.get(1).map_or(f64::INFINITY, |next| next.aicc);
        self.fits.first().filter(|first| next - first.aicc >= DECISIVE_LEAD)
    }

    /// The laws within [`DECISIVE_LEAD`] of the best, including the best.
    pub fn contenders(&self) -> Vec<&ScoredFit> {
        let best = self.fits[0].aicc;
        self.fits.iter().filter(|fit| fit.aicc - best < DECISIVE_LEAD).collect()
    }
}

/// Computes the goodness of fit. None if there are too few points for AICc.
fn score_fit(fit: &FittedLaw, points: &[(f64, f64)]) -> Option<ScoredFit> {
    // The parameters of AICc include the variance of the residuals (Burnham and Anderson 2002).
    let (n, k) = (points.len() as f64, (fit.law.curve_parameters() + 1) as f64);
    if n - k - 1.0 <= 0.0 {
        return None;
    }
    let rss = fit.rss.max(n * RELATIVE_PRECISION * RELATIVE_PRECISION);
    let total_squares = squared_deviations(points.iter().map(|p| p.1));
    Some(ScoredFit {
        law: fit.law,
        rss: fit.rss,
        r_squared: if total_squares > 0.0 { 1.0 - fit.rss / total_squares } else { f64::NAN },
        aicc: n * (rss / n).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0),
        lack_of_fit: lack_of_fit(fit, points),
    })
}

/// Tests the lack of fit. None unless some number of clients has several values that differ, and there are more numbers of
/// clients than parameters.
fn lack_of_fit(fit: &FittedLaw, points: &[(f64, f64)]) -> Option<LackOfFit> {
    let (n, d, p) = (points.len(), distinct_numbers(points).len(), fit.law.curve_parameters());
    // The sum of squared differences of values from the mean at their number of clients.
    let same_number = points.chunk_by(|a, b| a.0 == b.0);
    let pure_error: f64 = same_number.map(|group| squared_deviations(group.iter().map(|p| p.1))).sum();
    if n <= d || d <= p || pure_error <= 0.0 {
        return None;
    }
    let (numerator_freedom, denominator_freedom) = ((d - p) as f64, (n - d) as f64);
    let f = ((fit.rss - pure_error).max(0.0) / numerator_freedom) / (pure_error / denominator_freedom);
    Some(LackOfFit { f, p: FisherSnedecor::new(numerator_freedom, denominator_freedom).ok()?.sf(f) })
}

/// Compares the fits with scipy, for three rounds of eight numbers of clients. The reference values are from `numpy.polyfit` of
/// ln X on ln N for the power law; `scipy.optimize.least_squares` with bounds 0 on σ and κ and tolerances 1e-15 for Amdahl's
/// law and the USL; a grid of 200,001 knees for the hinge; and `scipy.stats.f.sf` for F and p.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::series::{Series, tests::one_round};

    const N: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0];
    const USL: [[f64; 8]; 3] = [
        [101.2, 185.3, 254.1, 305.8, 371.0, 402.5, 401.1, 374.8],
        [99.1, 188.0, 250.9, 309.2, 368.4, 399.0, 404.2, 371.9],
        [100.3, 186.9, 256.0, 303.1, 374.2, 405.3, 398.8, 376.0],
    ];
    const AMDAHL: [[f64; 8]; 3] = [
        [98.9, 180.1, 252.0, 304.7, 401.1, 470.3, 575.9, 640.8],
        [101.5, 183.6, 247.3, 310.2, 396.0, 476.2, 566.8, 648.1],
        [100.2, 181.4, 250.8, 306.9, 399.5, 472.8, 573.3, 642.0],
    ];
    const POWER: [[f64; 8]; 3] = [
        [34.1, 41.0, 47.3, 50.4, 57.9, 61.8, 70.3, 75.6],
        [33.8, 42.1, 46.2, 51.5, 56.6, 62.9, 69.1, 76.8],
        [34.3, 41.6, 46.9, 50.7, 57.2, 62.3, 69.9, 76.0],
    ];
    const HINGE: [[f64; 8]; 3] = [
        [50.2, 99.0, 151.2, 201.0, 229.9, 231.4, 228.7, 230.5],
        [49.7, 101.3, 148.8, 198.7, 231.6, 228.9, 231.8, 229.4],
        [50.4, 100.1, 150.6, 200.3, 230.2, 230.8, 229.6, 231.1],
    ];

    fn choose_law(x: &[[f64; 8]; 3]) -> LawChoice {
        let row = |(round, x): (usize, &[f64; 8])| -> Vec<(f64, u32, f64)> {
            N.iter().zip(x).map(|(n, x)| (*n, round as u32, *x)).collect()
        };
        let rows: Vec<_> = x.iter().enumerate().flat_map(row).collect();
        LawChoice::fit(&Series::new("s", &rows).unwrap()).unwrap()
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-4 * expected.abs(), "{value} is not {expected}");
    }

    fn fit_named(choice: &LawChoice, name: &str) -> ScoredFit {
        *choice.fits.iter().find(|fit| fit.law.name() == name).unwrap()
    }

    #[test]
    fn data_of_a_power_law_select_it() {
        let choice = choose_law(&POWER);
        let fit = choice.winner().unwrap();
        let Law::Power { a, b } = fit.law else { panic!("{fit:?}") };
        assert_near(a, 34.039029);
        assert_near(b, 0.28989297);
        assert_near(fit.aicc, -221.600965);
        assert_near(fit.lack_of_fit.unwrap().f, 0.074377017);
        assert_near(fit.lack_of_fit.unwrap().p, 0.99792266);
        assert_eq!(choice.contenders().len(), 1);
    }

    #[test]
    fn data_of_the_universal_scalability_law_select_it() {
        let choice = choose_law(&USL);
        let fit = choice.winner().unwrap();
        let Law::Usl { lambda, sigma, kappa } = fit.law else { panic!("{fit:?}") };
        assert_near(lambda, 100.678281);
        assert_near(sigma, 0.06658623);
        assert_near(kappa, 0.00963537);
        assert_near(fit.rss, 0.0014093379);
        assert_near(fit.aicc, -223.719275);
        assert_near(fit.lack_of_fit.unwrap().f, 0.7769803);
        assert_near(fit.lack_of_fit.unwrap().p, 0.5804394);
        assert_near(fit.r_squared, 0.99971701);
        assert_near(fit.law.peak().unwrap(), ((1.0f64 - 0.06658623) / 0.00963537).sqrt());
    }

    #[test]
    fn data_of_amdahls_law_select_it_and_not_a_usl_without_coherency() {
        let choice = choose_law(&AMDAHL);
        let fit = choice.winner().unwrap();
        let Law::Amdahl { lambda, sigma } = fit.law else { panic!("{fit:?}") };
        assert_near(lambda, 99.912679);
        assert_near(sigma, 0.09932123);
        assert_near(fit.aicc, -226.702933);
        assert_near(fit.lack_of_fit.unwrap().p, 0.91397315);
        assert!(choice.fits.iter().all(|fit| fit.law.name() != "universal scalability law"));
    }

    #[test]
    fn data_of_a_hinge_select_it() {
        let choice = choose_law(&HINGE);
        let fit = choice.winner().unwrap();
        let Law::Hinge { a, b, knee } = fit.law else { panic!("{fit:?}") };
        assert_near(a, 50.1053489);
        assert_near(b, 0.99878695);
        assert_near(knee, 4.6052983);
        assert_near(fit.aicc, -237.155347);
    }

    #[test]
    fn a_wrong_law_can_have_a_high_r_squared() {
        // The power law has R² = 0.98 on data of Amdahl's law, but a significant lack of fit.
        let fit = fit_named(&choose_law(&AMDAHL), "power law");
        assert_near(fit.r_squared, 0.98396885);
        assert_near(fit.lack_of_fit.unwrap().f, 279.731683);
        assert!(fit.lack_of_fit.unwrap().p < 1e-14);
    }

    #[test]
    fn few_points_allow_only_laws_with_two_parameters() {
        let doubled = [(1.0, 100.0), (2.0, 180.0), (4.0, 300.0), (8.0, 420.0), (16.0, 500.0)];
        let choice = LawChoice::fit(&one_round(&doubled)).unwrap();
        // Five points suffice for two parameters and the variance, but not for three parameters.
        assert!(
            choice.fits.iter().all(|fit| fit.law.curve_parameters() == 2 && fit.lack_of_fit.is_none()),
            "{choice:?}"
        );
        assert!(LawChoice::fit(&one_round(&doubled[..2])).is_none());
    }

    #[test]
    fn a_step_exists_if_the_parameters_have_the_same_effect() {
        // With two numbers of clients, σ and κ have the same effect on the curve: the equations are singular without damping.
        let candidate = Candidate::new(&[(1.0, 0.0), (3.0, 0.5)], [0.3, 0.7]);
        assert!(candidate.step(&[(1.0, 0.0), (3.0, 0.5)], MIN_DAMPING).is_some());
    }
}
