//! E-values for the centre of paired differences: evidence that may be looked at after every block.
//!
//! With r_i the rank of |d_i − θ| among the first i and z_i = √3·sgn(d_i − θ)·r_i/(i + 1),
//! `E_n(θ) = mean over λ ∈ ±{.15, .35, .8, 1.8, 4} of Π_i exp(λ z_i)/cosh(λ z_i)`.
//! Where d is symmetric about θ the sign of d_i − θ is a fair coin whatever its size and whatever came
//! before, so each factor has the expectation 1: E_n is a test martingale, and the probability that it
//! ever reaches 1/α is at most α (Ville 1939; Ramdas and others 2020, "Admissible anytime-valid
//! sequential inference must rely on nonnegative martingales").

/// The bets. Each is also made the other way.
const BETS: [f64; 5] = [0.15, 0.35, 0.8, 1.8, 4.0];

/// The evidence against "the centre of `d` is `theta`", in the order in which the blocks were run.
///
/// 1 without any block; reject at level α once it reaches 1/α. A factor is at most 2, so that only after
/// more than 1,000 blocks the product can leave what an f64 holds; then it stays infinite. All values must
/// be finite.
pub fn e_value(d: &[f64], theta: f64) -> f64 {
    let mut seen: Vec<f64> = Vec::with_capacity(d.len());
    let mut wealth = [[1.0; 2]; BETS.len()];
    for value in d {
        let z = score(&mut seen, value - theta);
        for (bet, [up, down]) in BETS.iter().zip(&mut wealth) {
            // exp(x)/cosh(x) = 2/(1 + exp(−2x)), and the bet the other way wins what is left of 2.
            let won = 2.0 / (1.0 + (-2.0 * bet * z).exp());
            *up *= won;
            *down *= 2.0 - won;
        }
    }
    wealth.iter().flatten().sum::<f64>() / (2 * BETS.len()) as f64
}

/// z of the next difference. `seen` holds the sizes so far, ascending; equal sizes share their mean rank.
fn score(seen: &mut Vec<f64>, difference: f64) -> f64 {
    let size = difference.abs();
    let below = seen.partition_point(|other| *other < size);
    let equal = seen[below..].partition_point(|other| *other <= size);
    seen.insert(below, size);
    let rank = below as f64 + (equal as f64 + 2.0) / 2.0;
    let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
    3f64.sqrt() * sign * rank / (seen.len() as f64 + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        // z = √3/2 whatever the size; the mean over both signs of each bet is exactly 1.
        assert!((e_value(&[0.3], 0.0) - 1.0).abs() < 1e-12);
        assert_eq!(e_value(&[], 0.0), 1.0);
    }

    #[test]
    fn agrees_with_scipy() {
        // The formula above in numpy, with r_i from scipy.stats.rankdata of |d − θ|[:i].
        let d = [0.021, -0.004, 0.013, 0.032, 0.013, 0.027, -0.009, 0.018, 0.025, 0.011];
        for (theta, expected) in [
            (0.0, 4.118_514_433_304_109),
            (0.013, 0.358_378_873_073_830_26),
            (0.03, 26.147_934_285_111_08),
            (-0.05, 135.741_318_463_271_09),
        ] {
            let e = e_value(&d, theta);
            assert!((e / expected - 1.0).abs() < 1e-12, "{theta}: {e}");
        }
    }
}
