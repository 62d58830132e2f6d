//! Ordinary least squares with few parameters.

/// A linear model that was fitted to values, with what the variance of a prediction requires.
#[derive(Debug, Clone)]
pub(super) struct LinearFit {
    /// The parameters.
    pub beta: Vec<f64>,
    /// (XᵀX)⁻¹.
    inverse: Vec<Vec<f64>>,
    /// The sum of the squared residuals.
    pub rss: f64,
}

impl LinearFit {
    /// Fits y = X·β, by the normal equations. None if the columns of X depend on each other.
    pub fn of(rows: &[Vec<f64>], y: &[f64]) -> Option<LinearFit> {
        let columns = rows.first()?.len();
        let sum = |term: &dyn Fn(&Vec<f64>, f64) -> f64| rows.iter().zip(y).map(|(row, y)| term(row, *y)).sum::<f64>();
        let squares = (0..columns).map(|i| (0..columns).map(|j| sum(&|row, _| row[i] * row[j])).collect());
        let inverse = invert(squares.collect())?;
        let moments: Vec<f64> = (0..columns).map(|i| sum(&|row, y| row[i] * y)).collect();
        let beta: Vec<f64> = inverse.iter().map(|row| dot_product(row, &moments)).collect();
        let rss = sum(&|row, y| (y - dot_product(row, &beta)).powi(2));
        Some(LinearFit { beta, inverse, rss })
    }

    /// xᵀ(XᵀX)⁻¹x: the variance of x·β in units of the variance of a residual.
    pub fn leverage(&self, x: &[f64]) -> f64 {
        let weighted: Vec<f64> = self.inverse.iter().map(|row| dot_product(row, x)).collect();
        dot_product(&weighted, x)
    }
}

/// The scalar product.
pub(super) fn dot_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inverse of a matrix by Gauss and Jordan's method with pivots. None if it is singular.
fn invert(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    for (at, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| f64::from(u8::from(column == at))));
    }
    for at in 0..size {
        let pivot = (at..size).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))?;
        matrix.swap(at, pivot);
        let scale = matrix[at][at];
        if scale.abs() < 1e-12 {
            return None;
        }
        matrix[at].iter_mut().for_each(|value| *value /= scale);
        let pivot_row = matrix[at].clone();
        for (_, row) in matrix.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = row[at];
            row.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_of_a_line_agrees_with_r() {
        // R: lm(c(1, 3, 2, 5, 4) ~ c(1, 2, 3, 4, 5)): intercept 0.6, slope 0.8, deviance 3.6; leverage at 6: 1/5 + 9/10.
        let rows: Vec<Vec<f64>> = (1..=5).map(|x| vec![1.0, f64::from(x)]).collect();
        let fit = LinearFit::of(&rows, &[1.0, 3.0, 2.0, 5.0, 4.0]).unwrap();
        assert!((fit.beta[0] - 0.6).abs() < 1e-9 && (fit.beta[1] - 0.8).abs() < 1e-9, "{fit:?}");
        assert!((fit.rss - 3.6).abs() < 1e-9 && (fit.leverage(&[1.0, 6.0]) - 1.1).abs() < 1e-9, "{fit:?}");
        let dependent = vec![vec![1.0, 2.0]; 3];
        assert!(LinearFit::of(&dependent, &[1.0, 2.0, 3.0]).is_none());
    }
}
