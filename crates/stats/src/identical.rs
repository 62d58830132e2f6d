//! Self-test of a machine with identical variants: how often they are called different, and how often chance does that.

use crate::{sequential::separated, table::FIRST_LOOK, walsh::Walsh};
use fsarena_core::schedule::mix;

/// Random swaps behind [`chance`].
const FLIPS: u64 = 2_000;

/// Whether the 95% interval of d excludes 0, from as many rounds as a verdict takes.
fn differs(d: &[f64]) -> bool {
    Walsh::new(d.to_vec()).as_ref().is_some_and(separated)
}

/// Verdicts on identical variants, and how many said "different": one for each series of d and batch of 8 rounds.
pub fn verdicts(identical: &[Vec<f64>], rounds: usize) -> (usize, usize) {
    let batches = identical.iter().flat_map(|d| d[..d.len().min(rounds)].chunks_exact(FIRST_LOOK));
    batches.fold((0, 0), |(all, wrong), batch| (all + 1, wrong + usize::from(differs(batch))))
}

/// The probability of as many false verdicts as were seen, or more, if the label of a variant means nothing: then the
/// two could as well be swapped in any round, in all series at once, as a coin decides here. The series are far from
/// independent, which this accounts for. By 2000 random swaps, the observed one included (Phipson and Smyth 2010).
pub fn chance(identical: &[Vec<f64>], rounds: usize, seen: usize, seed: u64) -> f64 {
    let as_many = (0..FLIPS).filter(|flip| {
        let swapped = |round: usize| mix(mix(seed, *flip), round as u64) & 1 == 1;
        let sign = |(round, d): (usize, &f64)| if swapped(round) { -d } else { *d };
        let flipped: Vec<Vec<f64>> =
            identical.iter().map(|d| d.iter().enumerate().map(sign).collect()).collect();
        verdicts(&flipped, rounds).1 >= seen
    });
    (as_many.count() + 1) as f64 / (FLIPS + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// d of two series over 16 rounds, of which the first batch of the first is all of one sign.
    fn series() -> Vec<Vec<f64>> {
        let noise = |at: u64| (mix(3, at) % 1000) as f64 / 1000.0 - 0.5;
        let mut first: Vec<f64> = (0..16).map(noise).collect();
        first[..8].iter_mut().for_each(|d| *d = d.abs() + 0.01);
        vec![first, (16..32).map(noise).collect()]
    }

    #[test]
    fn a_verdict_for_each_series_and_round() {
        assert_eq!(verdicts(&series(), 16), (4, 1));
        // A batch that is not whole has none.
        assert_eq!(verdicts(&series(), 15).0, 2);
    }

    #[test]
    fn chance_explains_one_and_not_all() {
        assert!(chance(&series(), 16, 1, 7) > 0.01);
        let biased = vec![vec![0.01; 16]; 2];
        assert_eq!(verdicts(&biased, 16), (4, 4));
        // All of one sign in two batches: 4 of 2^16 ways.
        assert!(chance(&biased, 16, 4, 7) < 0.01);
    }
}
