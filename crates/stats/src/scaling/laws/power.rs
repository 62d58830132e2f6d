//! The power law: a straight line on logarithmic axes.

use super::{Fitted, Law, line, rss};

/// Ordinary least squares of ln X on ln N.
pub fn fit(points: &[(f64, f64)]) -> Fitted {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, y)| (n.ln(), *y)).collect();
    let (intercept, b) = line(&logs);
    let law = Law::Power { a: intercept.exp(), b };
    Fitted { law, rss: rss(points, &law) }
}
