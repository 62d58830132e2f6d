//! The effective number of values in a series with serial correlation.

/// The autocorrelation of neighbours: ρ₁ = Σ(eₜ−ē)(eₜ₊₁−ē) / Σ(eₜ−ē)². 0 where nothing varies.
pub fn neighbours(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
    let off = |value: &f64| value - mean;
    let products: f64 = series.windows(2).map(|pair| off(&pair[0]) * off(&pair[1])).sum();
    let squares: f64 = series.iter().map(|value| off(value).powi(2)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// As how many independent windows these count: n·(1−ρ₁)/(1+ρ₁), of a first-order process (Bayley and Hammersley
/// 1946). Never more than there are: the estimate of ρ₁ of a few windows leans to the negative, and what it would
/// add is not there.
pub fn effective(series: &[f64]) -> f64 {
    let rho = neighbours(series).clamp(0.0, 0.999);
    series.len() as f64 * (1.0 - rho) / (1.0 + rho)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_statsmodels() {
        // statsmodels.tsa.stattools.acf([3, 4, 6, 5, 7, 9, 8, 8], nlags=1)[1]
        let series = [3.0, 4.0, 6.0, 5.0, 7.0, 9.0, 8.0, 8.0];
        let rho = neighbours(&series);
        assert!((rho - REFERENCE).abs() < 1e-12, "{rho}");
        assert!((effective(&series) - 8.0 * (1.0 - REFERENCE) / (1.0 + REFERENCE)).abs() < 1e-12);
    }

    /// By the call above, statsmodels 0.15.0.
    const REFERENCE: f64 = 0.5456349206349206;

    #[test]
    fn alternation_adds_nothing() {
        let series = [1.0, -1.0, 1.0, -1.0];
        assert!(neighbours(&series) < 0.0);
        assert_eq!(effective(&series), 4.0);
        assert_eq!(effective(&[2.0, 2.0]), 2.0);
    }
}
