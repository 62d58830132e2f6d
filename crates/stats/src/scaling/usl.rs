//! The universal scalability law and Amdahl's, by Levenberg and Marquardt.

use super::law::{Fitted, Law, cost, usl_at};
use crate::average::mean;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DVector, Dyn, Matrix, U1, U2, VecStorage, Vector2};

/// From where the search begins: (σ, κ) of machines that scale well, middling and badly. The sum of squares has
/// more than one valley.
const STARTS: [(f64, f64); 4] = [(0.01, 1e-4), (0.1, 1e-3), (0.5, 0.01), (0.9, 0.1)];
/// A κ under which the coherency of a thousand clients is nothing that can be measured.
const NOTHING: f64 = 1e-9;

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
    let problem = Problem { points, roots: Vector2::from(start.map(f64::sqrt)) };
    let (problem, _) = LevenbergMarquardt::new().with_patience(200).minimize(problem);
    let [sigma, kappa] = problem.squares();
    let lambda = problem.ln_lambda().exp();
    let law = if coherent { Law::Usl { lambda, sigma, kappa } } else { Law::Amdahl { lambda, sigma } };
    Fitted::of(law, points)
}

/// The residuals of ln X, with ln λ eliminated: for any σ and κ the best is the mean of what is left. The
/// parameters are the roots of σ and κ, so that neither can be negative; one that begins at 0 stays there.
struct Problem<'a> {
    points: &'a [(f64, f64)],
    roots: Vector2<f64>,
}

impl Problem<'_> {
    fn squares(&self) -> [f64; 2] {
        [self.roots[0] * self.roots[0], self.roots[1] * self.roots[1]]
    }

    fn ln_lambda(&self) -> f64 {
        let [sigma, kappa] = self.squares();
        mean(self.points.iter().map(|(n, y)| y - usl_at(*n, 0.0, sigma, kappa)))
    }
}

impl LeastSquaresProblem<f64, Dyn, U2> for Problem<'_> {
    type ResidualStorage = VecStorage<f64, Dyn, U1>;
    type JacobianStorage = VecStorage<f64, Dyn, U2>;
    type ParameterStorage = nalgebra::storage::Owned<f64, U2>;

    fn set_params(&mut self, roots: &Vector2<f64>) {
        self.roots = *roots;
    }

    fn params(&self) -> Vector2<f64> {
        self.roots
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let ([sigma, kappa], ln_lambda) = (self.squares(), self.ln_lambda());
        let residual = |(n, y): &(f64, f64)| usl_at(*n, ln_lambda, sigma, kappa) - y;
        Some(DVector::from_iterator(self.points.len(), self.points.iter().map(residual)))
    }

    fn jacobian(&self) -> Option<Matrix<f64, Dyn, U2, VecStorage<f64, Dyn, U2>>> {
        let [sigma, kappa] = self.squares();
        // d(−ln cost)/d√σ and /d√κ; what the mean takes out is the mean of each column.
        let row = |n: f64| {
            let cost = cost(n, sigma, kappa);
            [-2.0 * self.roots[0] * (n - 1.0) / cost, -2.0 * self.roots[1] * n * (n - 1.0) / cost]
        };
        let rows: Vec<[f64; 2]> = self.points.iter().map(|(n, _)| row(*n)).collect();
        let means = [0, 1].map(|column| mean(rows.iter().map(|row| row[column])));
        let at = |row: usize, column: usize| rows[row][column] - means[column];
        Some(Matrix::<f64, Dyn, U2, VecStorage<f64, Dyn, U2>>::from_fn(rows.len(), at))
    }
}
