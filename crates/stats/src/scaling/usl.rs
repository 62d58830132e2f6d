//! The universal scalability law and Amdahl's, by Levenberg and Marquardt.

use super::law::{Fitted, Law, cost, usl_at};
use crate::average::mean;

/// From where the search begins: (σ, κ) of machines that scale well, middling and badly. The sum of squares has
/// more than one valley.
const STARTS: [(f64, f64); 4] = [(0.01, 1e-4), (0.1, 1e-3), (0.5, 0.01), (0.9, 0.1)];
/// A κ under which the coherency of a thousand clients is nothing that can be measured.
const NOTHING: f64 = 1e-9;
/// Steps after which a search ends wherever it is.
const MOST_STEPS: usize = 400;
/// The damping at which a step is too short to change anything.
const MOST_DAMPING: f64 = 1e16;

/// The least-squares USL with σ, κ ≥ 0. None where κ comes out as nothing.
pub fn fit(points: &[(f64, f64)]) -> Option<Fitted> {
    let found = STARTS.iter().map(|(sigma, kappa)| search(points, [*sigma, *kappa], true));
    // The search cannot end exactly on σ = 0, so that edge is searched by itself.
    let edge = STARTS.iter().map(|(_, kappa)| search(points, [0.0, *kappa], true));
    let best = found.chain(edge).min_by(|a, b| a.rss.total_cmp(&b.rss))?;
    matches!(best.law, Law::Usl { kappa, .. } if kappa > NOTHING).then_some(best)
}

/// The least-squares Amdahl's law with σ ≥ 0.
pub fn amdahl(points: &[(f64, f64)]) -> Fitted {
    let starts = STARTS.iter().map(|(sigma, _)| search(points, [*sigma, 0.0], false));
    let linear = search(points, [0.0, 0.0], false);
    starts.fold(linear, |best, fit| if fit.rss < best.rss { fit } else { best })
}

fn search(points: &[(f64, f64)], start: [f64; 2], coherent: bool) -> Fitted {
    let found = minimise(points, Candidate::of(points, start.map(f64::sqrt)));
    let [sigma, kappa] = found.squares();
    let lambda = found.ln_lambda.exp();
    let law = if coherent { Law::Usl { lambda, sigma, kappa } } else { Law::Amdahl { lambda, sigma } };
    Fitted::of(law, points)
}

/// A guess at σ and κ, and how well it fits.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// √σ and √κ, so that neither σ nor κ can be negative. One that begins at 0 stays there.
    roots: [f64; 2],
    /// The best ln λ for these, which is the mean of what they leave of ln X.
    ln_lambda: f64,
    /// The sum of the squared residuals of ln X.
    rss: f64,
}

impl Candidate {
    fn of(points: &[(f64, f64)], roots: [f64; 2]) -> Candidate {
        let [sigma, kappa] = roots.map(|root| root * root);
        let ln_lambda = mean(points.iter().map(|(n, y)| y - usl_at(*n, 0.0, sigma, kappa)));
        let mut found = Candidate { roots, ln_lambda, rss: 0.0 };
        found.rss = points.iter().map(|point| found.residual(*point).powi(2)).sum();
        found
    }

    fn squares(&self) -> [f64; 2] {
        self.roots.map(|root| root * root)
    }

    fn residual(&self, (n, y): (f64, f64)) -> f64 {
        let [sigma, kappa] = self.squares();
        usl_at(n, self.ln_lambda, sigma, kappa) - y
    }

    /// The derivatives of each residual by √σ and √κ. As ln λ is a mean, the mean of each column is taken out.
    fn jacobian(&self, points: &[(f64, f64)]) -> Vec<[f64; 2]> {
        let [sigma, kappa] = self.squares();
        let derivatives = |n: f64| {
            let cost = cost(n, sigma, kappa);
            [-2.0 * self.roots[0] * (n - 1.0) / cost, -2.0 * self.roots[1] * n * (n - 1.0) / cost]
        };
        let rows: Vec<[f64; 2]> = points.iter().map(|(n, _)| derivatives(*n)).collect();
        let means = [0, 1].map(|column| mean(rows.iter().map(|row| row[column])));
        rows.iter().map(|row| [row[0] - means[0], row[1] - means[1]]).collect()
    }

    /// The step of Levenberg and Marquardt: the solution of (JᵀJ + damping·diag JᵀJ)·step = −Jᵀr.
    fn step(&self, points: &[(f64, f64)], damping: f64) -> Option<[f64; 2]> {
        let (mut a, mut b, mut d, mut gradient) = (0.0, 0.0, 0.0, [0.0; 2]);
        for (row, point) in self.jacobian(points).iter().zip(points) {
            let residual = self.residual(*point);
            a += row[0] * row[0];
            b += row[0] * row[1];
            d += row[1] * row[1];
            gradient = [gradient[0] + row[0] * residual, gradient[1] + row[1] * residual];
        }
        // A root at 0 moves nothing: its column is 0, and so is its step.
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

/// The candidate that Levenberg and Marquardt's method reaches from another one (Marquardt 1963, "An Algorithm for
/// Least-Squares Estimation of Nonlinear Parameters").
fn minimise(points: &[(f64, f64)], start: Candidate) -> Candidate {
    let (mut best, mut damping) = (start, 1e-3);
    for _ in 0..MOST_STEPS {
        let Some(step) = best.step(points, damping) else { break };
        let next = Candidate::of(points, [best.roots[0] + step[0], best.roots[1] + step[1]]);
        if next.rss < best.rss {
            best = next;
            damping /= 10.0;
        } else {
            damping *= 10.0;
            if damping > MOST_DAMPING {
                break;
            }
        }
    }
    best
}
