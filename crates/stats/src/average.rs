//! Means, variances and related helpers.

pub use fsarena_core::average::median;
use std::borrow::Borrow;

/// The arithmetic mean; NaN without values.
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

/// The sample variance; NaN for fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 { f64::NAN } else { squares(values.iter()) / (values.len() - 1) as f64 }
}

/// The values in ascending order.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The logarithms of `values[variant][round]`; NaN for values that are not positive.
pub(crate) fn logs(values: &[impl AsRef<[f64]>]) -> Vec<Vec<f64>> {
    let log = |value: &f64| if *value > 0.0 { value.ln() } else { f64::NAN };
    values.iter().map(|rounds| rounds.as_ref().iter().map(log).collect()).collect()
}
