//! A power law up to a knee, level behind it: least squares in closed form.

use super::{Fitted, Law, distinct, line, mean, rss};

/// With the knee between two numbers of clients the curve is a line before it and a mean behind it; the knee is
/// where these meet, if that is between the two. Otherwise it is best at one of the numbers themselves. So the
/// best over all intervals and numbers is the least-squares hinge. The level part has two numbers of clients at
/// least: one alone lies on a power law as well.
pub fn fit(points: &[(f64, f64)]) -> Option<Fitted> {
    let mut numbers: Vec<f64> = points.iter().map(|point| point.0).collect();
    numbers.dedup();
    let between = (2..numbers.len() - 1).filter_map(|at| meeting(points, numbers[at - 1], numbers[at]));
    let at = numbers[1..numbers.len() - 1].iter().map(|knee| bent_at(points, *knee));
    let fitted = between.chain(at).map(|law| Fitted { law, rss: rss(points, &law) });
    fitted.min_by(|a, b| a.rss.total_cmp(&b.rss))
}

/// The hinge whose knee is between two neighbouring numbers of clients, where there is one.
fn meeting(points: &[(f64, f64)], low: f64, high: f64) -> Option<Law> {
    let logs: Vec<(f64, f64)> = points.iter().filter(|p| p.0 <= low).map(|(n, y)| (n.ln(), *y)).collect();
    debug_assert!(distinct(&logs) > 1);
    let (intercept, b) = line(&logs);
    let level = mean(points.iter().filter(|p| p.0 >= high).map(|p| p.1));
    let knee = ((level - intercept) / b).exp();
    (low..=high).contains(&knee).then(|| Law::Hinge { a: intercept.exp(), b, knee })
}

fn bent_at(points: &[(f64, f64)], knee: f64) -> Law {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, y)| (n.min(knee).ln(), *y)).collect();
    let (intercept, b) = line(&logs);
    Law::Hinge { a: intercept.exp(), b, knee }
}
