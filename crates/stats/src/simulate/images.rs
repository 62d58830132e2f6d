//! Simulates runs of identical variants whose rounds begin with aged images. An image favours one of the variants by chance, and
//! every later round on it favours the same one.

use super::noise::{Noise, Order, SD, differences, normal};
use crate::hodges_lehmann::Walsh;
use crate::sequential::{found_at, separated};
use crate::table::LOOKS;
use rand::Rng;

/// The numbers of images of simulated runs: as many as the first verdict requires, and more.
pub const COUNTS: [usize; 3] = [8, 24, 60];
/// The standard deviation of what an image adds to every log ratio on it: three times the noise of a measurement.
const EFFECT: f64 = 3.0 * SD;

/// Whether identical variants are called different at some look in a run of up to 400 rounds, which take this many images in turn.
/// If `grouped`, each value is the mean of an image, and after the first pass the run looks after complete passes only;
/// otherwise each value is a round, as if rounds on the same image were independent.
pub fn errs(images: usize, grouped: bool, noise: Noise, rng: &mut impl Rng) -> bool {
    let effects: Vec<f64> = (0..images).map(|_| EFFECT * normal(rng)).collect();
    let mut d = differences(noise, Order::Random, LOOKS[LOOKS.len() - 1].n, rng);
    d.iter_mut().zip(effects.iter().cycle()).for_each(|(d, effect)| *d += effect);
    if !grouped {
        return found_at(&d).is_some();
    }
    let mut sums = vec![0.0; images];
    let mut pass_finds = |pass: usize, of_pass: &[f64]| {
        sums.iter_mut().zip(of_pass).for_each(|(sum, d)| *sum += d);
        let means = sums.iter().map(|sum| sum / (pass + 1) as f64).collect();
        Walsh::new(means).is_some_and(|walsh| separated(&walsh))
    };
    // In the first pass each round is a new image.
    found_at(&d[..images]).is_some()
        || d.chunks_exact(images).enumerate().any(|(pass, of_pass)| pass_finds(pass, of_pass))
}
