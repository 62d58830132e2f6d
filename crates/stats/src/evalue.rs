//! E-values for the centre of paired differences: evidence that stays valid if it is checked after every round.
//!
//! Let r_i be the rank of |d_i − θ| among the first i values, and z_i = √3·sgn(d_i − θ)·r_i/(i + 1). After n rounds the e-value
//! is `E_n(θ) = mean over λ ∈ ±{.15, .35, .8, 1.8, 4} of Π_i exp(λ z_i)/cosh(λ z_i)`. If d is symmetric about θ, the sign of
//! d_i − θ is a fair coin, independent of its size and of earlier rounds. So each factor has the expectation 1, and E_n is a
//! test martingale: the probability that it ever reaches 1/α is at most α (Ville 1939; Ramdas and others 2020, "Admissible
//! anytime-valid sequential inference must rely on nonnegative martingales").

/// The absolute values of λ, the bets; each is used with both signs.
const BETS: [f64; 5] = [0.15, 0.35, 0.8, 1.8, 4.0];

/// The e-value against the hypothesis "the centre of `d` is `theta`"; `d` is in the order in which the rounds were run.
///
/// It is 1 before any round. Reject at level α once it reaches 1/α. A factor is at most 2, so the product can overflow only
/// after more than 1,000 rounds; then it stays infinite. All values must be finite.
pub fn e_value(d: &[f64], theta: f64) -> f64 {
    let mut evidence = Evidence::against(theta);
    d.iter().for_each(|value| evidence.push(*value));
    evidence.value()
}

/// An e-value that is updated after each round.
#[derive(Debug, Clone)]
pub struct Evidence {
    theta: f64,
    /// The sizes |d_i − θ| so far, ascending.
    sizes: Vec<f64>,
    /// For each bet, the product of its factors so far with positive and with negative sign.
    wealth: [[f64; 2]; BETS.len()],
}

impl Evidence {
    /// The evidence against "the centre is `theta`" before any round.
    pub fn against(theta: f64) -> Evidence {
        Evidence { theta, sizes: Vec::new(), wealth: [[1.0; 2]; BETS.len()] }
    }

    /// Adds the difference of the next round.
    pub fn push(&mut self, d: f64) {
        let z = self.score(d - self.theta);
        for (bet, [up, down]) in BETS.iter().zip(&mut self.wealth) {
            // exp(x)/cosh(x) = 2/(1 + exp(−2x)), and the factors of both signs add up to 2.
            let factor = 2.0 / (1.0 + (-2.0 * bet * z).exp());
            *up *= factor;
            *down *= 2.0 - factor;
        }
    }

    /// The e-value E_n after the rounds so far.
    pub fn value(&self) -> f64 {
        self.wealth.iter().flatten().sum::<f64>() / (2 * BETS.len()) as f64
    }

    /// The score z of the next difference; equal sizes share their mean rank.
    fn score(&mut self, difference: f64) -> f64 {
        let size = difference.abs();
        let below = self.sizes.partition_point(|earlier| *earlier < size);
        let equal = self.sizes[below..].partition_point(|earlier| *earlier <= size);
        self.sizes.insert(below, size);
        let rank = below as f64 + (equal as f64 + 2.0) / 2.0;
        let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
        3f64.sqrt() * sign * rank / (self.sizes.len() as f64 + 1.0)
    }
}

/// The indices of the hypotheses that e-BH rejects, strongest evidence first.
///
/// Rejects the hypotheses of the j largest e-values, for the largest j with e_(j) ≥ m/(α·j); e_(j) is the j-th largest of m
/// (Wang and Ramdas 2022, "False discovery rate control with e-values"). The expected share of false rejections is at most α,
/// however the hypotheses depend on each other. Each e-value must be the last one of its hypothesis, not the largest so far.
pub fn e_bh(e: &[f64], alpha: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..e.len()).filter(|i| !e[*i].is_nan()).collect();
    order.sort_by(|a, b| e[*b].total_cmp(&e[*a]));
    let suffices = |j: usize| e[order[j - 1]] * alpha * j as f64 >= e.len() as f64;
    let rejected = (1..=order.len()).rev().find(|j| suffices(*j)).unwrap_or(0);
    order.truncate(rejected);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_alone_is_no_evidence() {
        // z = √3/2 whatever the size; the mean over both signs of each bet is exactly 1.
        assert!((e_value(&[0.3], 0.0) - 1.0).abs() < 1e-12);
        assert_eq!(e_value(&[], 0.0), 1.0);
    }

    #[test]
    fn e_values_agree_with_scipy() {
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

    #[test]
    fn e_bh_uses_the_largest_j_even_if_a_smaller_one_fails() {
        // m = 4, α = .05: j = 1 needs 80, j = 2 needs 40, j = 3 needs 26.7, j = 4 needs 20.
        assert_eq!(e_bh(&[30.0, 1.0, 70.0, 27.0], 0.05), [2, 0, 3]);
        assert!(e_bh(&[30.0, 1.0, 70.0, 26.0], 0.05).is_empty());
        assert_eq!(e_bh(&[20.0; 4], 0.05), [0, 1, 2, 3]);
        assert_eq!(e_bh(&[f64::INFINITY, f64::NAN, 0.0], 0.05), [0]);
        assert!(e_bh(&[], 0.05).is_empty());
    }
}
