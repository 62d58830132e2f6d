//! Detects the end of the warm-up in a series of throughputs, and whether the rest is steady.

use fsarena_core::average::{mean, squared_deviations};

/// The number of intervals in one batch of MSER-5, which is also one round of the steady-state rule.
pub const BATCH_LENGTH: usize = 5;
/// The number of rounds that the steady-state rule covers.
const ROUNDS: usize = 5;

/// Warm-up and steadiness of a series of interval throughputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assessment {
    /// The number of intervals to leave out as warm-up; 0 if MSER-5 finds no warm-up, or one that ends beyond the middle of the
    /// series.
    pub warmup_intervals: usize,
    /// Whether the warm-up ends in the first half of the series and the rest is steady; None if the series is too short for a
    /// decision.
    pub is_steady: Option<bool>,
}

/// Assesses a series: MSER-5 finds the warm-up, and the SNIA rule checks the last five batches after it.
pub fn assess(series: &[f64]) -> Assessment {
    let Some(warmup_intervals) = mser5_cut(series) else {
        let is_long_enough = series.len() >= 2 * ROUNDS * BATCH_LENGTH;
        return Assessment { warmup_intervals: 0, is_steady: is_long_enough.then_some(false) };
    };
    let rounds = batch_means(&series[warmup_intervals..]);
    Assessment { warmup_intervals, is_steady: rounds.last_chunk::<ROUNDS>().map(is_steady_by_snia_rule) }
}

/// Means of whole batches of five.
fn batch_means(series: &[f64]) -> Vec<f64> {
    series.chunks_exact(BATCH_LENGTH).map(mean).collect()
}

/// Returns the number of warm-up intervals by MSER-5 (White, Cobb and Spratt 2000). With the batch means y₁…y_m, the warm-up is
/// the d that minimises Σ_{i>d}(y_i − ȳ_d)² / (m−d)², where ȳ_d is the mean of the batches after d. The last five batches are
/// never cut, because a few values always happen to be close together.
///
/// Returns None if the series is shorter than ten batches, or if the minimum is beyond its middle, because such a series is
/// not steady.
fn mser5_cut(series: &[f64]) -> Option<usize> {
    let y = batch_means(series);
    let m = y.len();
    if m < 2 * ROUNDS {
        return None;
    }
    let statistic = |d: usize| {
        let after_cut = &y[d..];
        squared_deviations(after_cut.iter()) / (after_cut.len() as f64).powi(2)
    };
    let statistics = (0..=m - ROUNDS).map(|d| (d, statistic(d)));
    let (warmup_batches, _) = statistics.reduce(|a, b| if b.1 < a.1 { b } else { a })?;
    (warmup_batches * 2 <= m).then_some(warmup_batches * BATCH_LENGTH)
}

/// Whether five rounds are steady by the rule of the SNIA Solid State Storage Performance Test Specification: their range is at
/// most 20% of the mean, and the least-squares line through them changes by at most 10% of the mean.
pub fn is_steady_by_snia_rule(rounds: &[f64; 5]) -> bool {
    let mean = mean(rounds);
    let low = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // x = −2 … 2, so Σx² = 10, and the line moves 4 slopes from the first round to the last.
    let slope = rounds.iter().zip([-2.0, -1.0, 0.0, 1.0, 2.0]).map(|(v, x)| v * x).sum::<f64>() / 10.0;
    mean > 0.0 && high - low <= 0.2 * mean && (4.0 * slope).abs() <= 0.1 * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_state_rule_accepts_its_exact_limits() {
        assert!(is_steady_by_snia_rule(&[100.0, 100.0, 100.0, 100.0, 100.0]));
        // Range 20, mean 100, slope 0.
        assert!(is_steady_by_snia_rule(&[90.0, 110.0, 100.0, 110.0, 90.0]));
        // Range 21.
        assert!(!is_steady_by_snia_rule(&[90.0, 111.0, 99.0, 110.0, 90.0]));
        // Slope 2.5: the line moves 10 of 100.
        assert!(is_steady_by_snia_rule(&[95.0, 97.5, 100.0, 102.5, 105.0]));
        // Slope 3: it moves 12.
        assert!(!is_steady_by_snia_rule(&[94.0, 97.0, 100.0, 103.0, 106.0]));
        assert!(!is_steady_by_snia_rule(&[0.0; 5]));
    }

    /// The value of interval `i` with noise around `level`: up to ±1 within each batch, and up to ±0.4 between batches.
    fn noisy(level: f64, i: usize) -> f64 {
        level + [1.0, -1.0, 0.5, -0.5, 0.3][i % 5] + [0.4, -0.3, 0.1, -0.2][i / 5 % 4]
    }

    #[test]
    fn the_cut_is_at_the_end_of_the_warm_up() {
        let series: Vec<f64> = (0..100).map(|i| noisy(if i < 20 { 40.0 + 3.0 * i as f64 } else { 100.0 }, i)).collect();
        let assessment = assess(&series);
        assert!(
            assessment.is_steady == Some(true) && (20..=25).contains(&assessment.warmup_intervals),
            "{assessment:?}"
        );
    }

    #[test]
    fn a_flat_series_has_no_warm_up() {
        let series: Vec<f64> = (0..100).map(|i| noisy(100.0, i)).collect();
        let assessment = assess(&series);
        assert!(assessment.is_steady == Some(true) && assessment.warmup_intervals <= 10, "{assessment:?}");
        // Four batches are too few for a decision, with or without a warm-up.
        assert_eq!(assess(&series[..24]).is_steady, None);
        assert_eq!(assess(&[]).is_steady, None);
    }

    #[test]
    fn a_series_that_keeps_falling_never_becomes_steady() {
        let series: Vec<f64> = (0..100).map(|i| noisy(300.0 - 2.5 * i as f64, i)).collect();
        assert_eq!(assess(&series).is_steady, Some(false));
        // Steady only in the last quarter: the cut lies beyond the middle and is rejected.
        let late: Vec<f64> = (0..100).map(|i| noisy(if i < 75 { 10.0 } else { 100.0 }, i)).collect();
        assert_eq!(mser5_cut(&late), None);
    }

    #[test]
    fn mser_requires_fifty_intervals() {
        assert_eq!(mser5_cut(&[1.0; 49]), None);
        assert_eq!(mser5_cut(&[1.0; 50]), Some(0));
    }

    #[test]
    fn mser_cuts_a_low_first_batch() {
        // Batch means 0, 2, 2, …: d = 1 leaves no variance at all.
        let mut series = vec![0.0; 5];
        series.extend([2.0; 45]);
        assert_eq!(mser5_cut(&series), Some(5));
    }
}
