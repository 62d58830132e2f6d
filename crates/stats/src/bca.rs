//! The ratio of means, with its bootstrap interval.

use crate::average::{mean, sorted};
use crate::{ratio::Estimate, simulate::stream};
use rand::RngExt;
use statrs::distribution::{ContinuousCDF, Normal};

/// Number of resamples: 2.5% of them are 250, which fixes an end to about 6% of its standard error.
const RESAMPLES: usize = 9_999;

/// How much longer all rounds together took: Σb/Σa. Unlike the Hodges–Lehmann estimate it counts every
/// spike in full.
///
/// The ratio of means of paired positive values and its BCa interval (Efron 1987, "Better bootstrap confidence
/// intervals"), resampling rounds. The same values and seed give the same interval. It is a fixed-sample
/// interval: not for deciding when to stop. None under two rounds, or where a sum is not above 0.
pub fn mean_ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Estimate> {
    let pairs: Vec<(f64, f64)> =
        a.iter().copied().zip(b.iter().copied()).filter(|(a, b)| !a.is_nan() && !b.is_nan()).collect();
    let value = ratio(pairs.iter().copied())?;
    if pairs.len() < 2 {
        return None;
    }
    let mut rng = stream(seed, 0);
    let resample = |_| ratio((0..pairs.len()).map(|_| pairs[rng.random_range(0..pairs.len())]));
    let resampled = sorted((0..RESAMPLES).filter_map(resample));
    let (bias, acceleration) = (bias(&resampled, value), acceleration(&pairs)?);
    let end = |p: f64| {
        let z = bias + Normal::standard().inverse_cdf(p);
        let p = Normal::standard().cdf(bias + z / (1.0 - acceleration * z));
        let at = (p * (resampled.len() + 1) as f64) as usize;
        resampled[at.clamp(1, resampled.len()) - 1]
    };
    Some(Estimate { value, low: end(0.025), high: end(0.975) })
}

fn ratio(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (a, b) = pairs.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    (a > 0.0 && b > 0.0 && (b / a).is_finite()).then(|| b / a)
}

/// z₀: how far the value lies from the middle of the resamples. Those equal to it count half.
fn bias(sorted: &[f64], value: f64) -> f64 {
    let (below, up_to) = (sorted.partition_point(|r| *r < value), sorted.partition_point(|r| *r <= value));
    let share = (below + up_to) as f64 / (2 * sorted.len()) as f64;
    let edge = 0.5 / sorted.len() as f64;
    Normal::standard().inverse_cdf(share.clamp(edge, 1.0 - edge))
}

/// Efron's acceleration from the jackknife: Σu³/(6·(Σu²)^1.5), u the mean of the leave-one-out values less
/// each of them. 0 where all are equal.
fn acceleration(pairs: &[(f64, f64)]) -> Option<f64> {
    let without =
        |left: usize| ratio(pairs.iter().enumerate().filter(|(at, _)| *at != left).map(|(_, pair)| *pair));
    let jackknife: Vec<f64> = (0..pairs.len()).map(without).collect::<Option<_>>()?;
    let mean = mean(&jackknife);
    let sum = |power: i32| jackknife.iter().map(|value| (mean - value).powi(power)).sum::<f64>();
    let squares = sum(2);
    Some(if squares > 0.0 { sum(3) / (6.0 * squares.powf(1.5)) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_scipy() {
        // scipy.stats.bootstrap((a, b), lambda a, b: b.sum() / a.sum(), paired=True, vectorized=False,
        // method="BCa", n_resamples=99_999, random_state=1), and the acceleration by the same jackknife.
        let a = [10.0, 11.0, 9.5, 10.2, 14.0, 10.4, 9.9, 10.1, 10.8, 9.7];
        let b = [10.9, 11.2, 10.4, 10.1, 19.0, 11.3, 10.2, 11.0, 11.1, 10.6];
        let ratio = mean_ratio(&a, &b, 1).unwrap();
        assert!((ratio.value - 1.096590909090909).abs() < 1e-12, "{ratio:?}");
        assert!((ratio.low - 1.04715).abs() < 0.004 && (ratio.high - 1.21271).abs() < 0.008, "{ratio:?}");
        let pairs: Vec<_> = a.into_iter().zip(b).collect();
        assert!(
            (acceleration(&pairs).unwrap() - 0.11841234821372554).abs() < 1e-9,
            "{:?}",
            acceleration(&pairs)
        );
        assert_eq!(mean_ratio(&a, &b, 1), mean_ratio(&a, &b, 1));
    }

    #[test]
    fn equal_rounds_and_too_few() {
        let equal = mean_ratio(&[2.0; 8], &[3.0; 8], 1).unwrap();
        assert_eq!((equal.value, equal.low, equal.high), (1.5, 1.5, 1.5));
        assert_eq!(mean_ratio(&[1.0], &[2.0], 1), None);
        assert_eq!(mean_ratio(&[0.0, 0.0], &[1.0, 1.0], 1), None);
        assert_eq!(mean_ratio(&[f64::NAN, 1.0], &[1.0, 1.0], 1), None);
    }
}
