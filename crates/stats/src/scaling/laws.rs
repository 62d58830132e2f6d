//! The laws by which throughput may grow, each fitted to ln X of every replicate by least squares.

use super::usl;
use crate::average::{mean, squares};

pub use super::law::{Fitted, Law};

/// Every law that these points can carry and that is not another in disguise: a USL without coherency is
/// Amdahl's law, a hinge behind the last number of clients a power law.
pub fn all(points: &[(f64, f64)]) -> Vec<Fitted> {
    let distinct = distinct(points);
    if distinct < 3 {
        return vec![];
    }
    let mut fits = vec![power(points), usl::amdahl(points)];
    if distinct > 3 {
        fits.extend(usl::fit(points));
        fits.extend(hinge(points));
    }
    fits
}

/// The numbers of clients. Points are sorted by them.
fn numbers(points: &[(f64, f64)]) -> Vec<f64> {
    let mut numbers: Vec<f64> = points.iter().map(|point| point.0).collect();
    numbers.dedup();
    numbers
}

/// How many numbers of clients there are.
pub fn distinct(points: &[(f64, f64)]) -> usize {
    numbers(points).len()
}

/// (ln N, ln X) of points, N up to a limit.
fn logs(points: &[(f64, f64)], most: f64) -> Vec<(f64, f64)> {
    points.iter().map(|(n, y)| (n.min(most).ln(), *y)).collect()
}

/// The power law: ordinary least squares of ln X on ln N.
fn power(points: &[(f64, f64)]) -> Fitted {
    let (intercept, b) = line(&logs(points, f64::INFINITY));
    Fitted::of(Law::Power { a: intercept.exp(), b }, points)
}

/// A power law up to a knee, level behind it: least squares in closed form.
///
/// With the knee between two numbers of clients the curve is a line before it and a mean behind it; the knee is
/// where these meet, if that is between the two. Otherwise it is best at one of the numbers themselves. So the
/// best over all intervals and numbers is the least-squares hinge. The level part has two numbers of clients at
/// least: one alone lies on a power law as well.
fn hinge(points: &[(f64, f64)]) -> Option<Fitted> {
    let numbers = numbers(points);
    let between = (2..numbers.len() - 1).filter_map(|at| meeting(points, numbers[at - 1], numbers[at]));
    let at = numbers[1..numbers.len() - 1].iter().map(|knee| bent_at(points, *knee));
    let fitted = between.chain(at).map(|law| Fitted::of(law, points));
    fitted.min_by(|a, b| a.rss.total_cmp(&b.rss))
}

/// The hinge whose knee is between two neighbouring numbers of clients, where there is one.
fn meeting(points: &[(f64, f64)], low: f64, high: f64) -> Option<Law> {
    let (before, behind) = points.split_at(points.partition_point(|point| point.0 <= low));
    let (intercept, b) = line(&logs(before, low));
    let level = mean(behind.iter().map(|point| point.1));
    let knee = ((level - intercept) / b).exp();
    (low..=high).contains(&knee).then(|| Law::Hinge { a: intercept.exp(), b, knee })
}

/// The hinge with this knee.
fn bent_at(points: &[(f64, f64)], knee: f64) -> Law {
    let (intercept, b) = line(&logs(points, knee));
    Law::Hinge { a: intercept.exp(), b, knee }
}

/// Intercept and slope of y over x by ordinary least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (mx, my) = (mean(points.iter().map(|p| p.0)), mean(points.iter().map(|p| p.1)));
    let sxy: f64 = points.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
    let slope = sxy / squares(points.iter().map(|p| p.0));
    (my - slope * mx, slope)
}
