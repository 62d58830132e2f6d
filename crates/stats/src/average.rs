//! Averages, and how far values are from them.

use std::borrow::Borrow;

/// The arithmetic mean; NaN of nothing.
pub fn mean(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value.borrow(), count + 1.0));
    sum / count
}

/// The sum of the squared distances from the mean.
pub(crate) fn squares(values: impl Iterator<Item = impl Borrow<f64>> + Clone) -> f64 {
    let mean = mean(values.clone());
    values.map(|value| (value.borrow() - mean).powi(2)).sum()
}

/// The sample variance; NaN of fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 { f64::NAN } else { squares(values.iter()) / (values.len() - 1) as f64 }
}

/// The values in ascending order.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The natural logarithm; NaN of a value that has none.
pub(crate) fn log(value: f64) -> f64 {
    if value > 0.0 { value.ln() } else { f64::NAN }
}

/// The logarithms of `values[variant][round]`.
pub(crate) fn logs(values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    values.iter().map(|rounds| rounds.iter().map(|value| log(*value)).collect()).collect()
}

/// The median of the values that are there: the mean of the two middle ones where their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    let values = sorted(values.iter().copied().filter(|v| !v.is_nan()));
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some(values[n / 2 - 1] / 2.0 + values[n / 2] / 2.0),
    }
}
