//! The constants of [`crate::power`], computed again.

use super::{parallel, stream};
use crate::{table::LOOKS, walsh::Walsh};
use rand_distr::{Distribution, StandardNormal};

/// The probability with which an effect is to be found.
const POWER: f64 = 0.8;

/// For each look the effect, in standard deviations of normal d, that the sequential test has found by then in
/// four of five runs.
///
/// Adding a constant to d moves every interval by just that. So a run finds all effects above the smallest
/// −(lower end) over its looks so far, and the 80% quantile of that over runs is the answer.
pub fn ratios(runs: usize, seed: u64) -> Vec<f64> {
    let found: Vec<[f64; LOOKS.len()]> = parallel(runs, |run| {
        let mut rng = stream(seed, run);
        let d: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(LOOKS[LOOKS.len() - 1].n).collect();
        smallest_found(&d)
    });
    let effect = |at: usize| {
        let mut found: Vec<f64> = found.iter().map(|run| run[at]).collect();
        let quantile = ((POWER * runs as f64).ceil() as usize).clamp(1, runs) - 1;
        *found.select_nth_unstable_by(quantile, f64::total_cmp).1
    };
    (0..LOOKS.len()).map(effect).collect()
}

/// By each look, the smallest effect that puts the 95% interval of some look so far above 0.
fn smallest_found(d: &[f64]) -> [f64; LOOKS.len()] {
    let mut smallest = f64::INFINITY;
    LOOKS.map(|look| {
        let walsh = Walsh::new(d[..look.n].to_vec()).expect("normal numbers are finite");
        smallest = smallest.min(-walsh.interval(look.c05).0);
        smallest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_found_once_an_interval_is_above_nothing() {
        // n = 8, c = 0: the lower end is the smallest value, −0.3; at n = 10, c = 1, the second smallest
        // average, (−0.3 − 0.2)/2.
        let mut d = vec![-0.3, -0.2];
        d.extend((0..398).map(|i| f64::from(i) / 10.0));
        let found = smallest_found(&d);
        assert!((found[0] - 0.3).abs() < 1e-12 && (found[1] - 0.25).abs() < 1e-12, "{found:?}");
        assert!(found.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn the_stored_constants_come_out_again() {
        let again = ratios(400, 1);
        for (stored, again) in crate::power::RATIOS.iter().zip(again) {
            assert!((again / stored - 1.0).abs() < 0.12, "{again} for {stored}");
        }
    }
}
