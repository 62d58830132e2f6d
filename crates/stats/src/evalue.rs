//! E-values for the centre of paired differences: evidence that may be looked at after every round.
//!
//! With r_i the rank of |d_i − θ| among the first i and z_i = √3·sgn(d_i − θ)·r_i/(i + 1),
//! `E_n(θ) = mean over λ ∈ ±{.15, .35, .8, 1.8, 4} of Π_i exp(λ z_i)/cosh(λ z_i)`.
//! Where d is symmetric about θ the sign of d_i − θ is a fair coin whatever its size and whatever came
//! before, so each factor has the expectation 1: E_n is a test martingale, and the probability that it
//! ever reaches 1/α is at most α (Ville 1939; Ramdas and others 2020, "Admissible anytime-valid
//! sequential inference must rely on nonnegative martingales").

use crate::average::sorted;

/// The bets. Each is also made the other way.
const BETS: [f64; 5] = [0.15, 0.35, 0.8, 1.8, 4.0];

/// The evidence against "the centre of `d` is `theta`", in the order in which the rounds were run.
///
/// 1 without any round; reject at level α once it reaches 1/α. A factor is at most 2, so that only after
/// more than 1,000 rounds the product can leave what an f64 holds; then it stays infinite. All values must
/// be finite.
pub fn e_value(d: &[f64], theta: f64) -> f64 {
    let mut evidence = Evidence::against(theta);
    d.iter().for_each(|value| evidence.push(*value));
    evidence.value()
}

/// An e-value that grows round by round.
#[derive(Debug, Clone)]
pub struct Evidence {
    theta: f64,
    /// The sizes |d_i − θ| so far, ascending.
    seen: Vec<f64>,
    /// What each bet has made of 1, one way and the other.
    wealth: [[f64; 2]; BETS.len()],
}

impl Evidence {
    /// No round yet.
    pub fn against(theta: f64) -> Evidence {
        Evidence { theta, seen: Vec::new(), wealth: [[1.0; 2]; BETS.len()] }
    }

    /// Takes the next round.
    pub fn push(&mut self, d: f64) {
        let z = self.score(d - self.theta);
        for (bet, [up, down]) in BETS.iter().zip(&mut self.wealth) {
            // exp(x)/cosh(x) = 2/(1 + exp(−2x)), and the bet the other way wins what is left of 2.
            let won = 2.0 / (1.0 + (-2.0 * bet * z).exp());
            *up *= won;
            *down *= 2.0 - won;
        }
    }

    /// E_n.
    pub fn value(&self) -> f64 {
        self.wealth.iter().flatten().sum::<f64>() / (2 * BETS.len()) as f64
    }

    /// z of the next difference; equal sizes share their mean rank.
    fn score(&mut self, difference: f64) -> f64 {
        let size = difference.abs();
        let below = self.seen.partition_point(|other| *other < size);
        let equal = self.seen[below..].partition_point(|other| *other <= size);
        self.seen.insert(below, size);
        let rank = below as f64 + (equal as f64 + 2.0) / 2.0;
        let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
        3f64.sqrt() * sign * rank / (self.seen.len() as f64 + 1.0)
    }
}

/// How many order statistics of d the scan looks at on either side.
const SCAN: usize = 16;
/// Halvings between the last centre that is rejected and the first that is not.
const HALVINGS: usize = 16;

/// The centres that the evidence does not reject at level α: an interval that holds at every round at
/// once, with probability 1 − α. An end is infinite while there are too few rounds to bound it. None
/// where no centre survives, which says that d is symmetric about none.
///
/// The set is scanned from outside at order statistics of d, then bisected. What it bounds is the hull:
/// E is not quite monotone in θ.
pub fn interval(d: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let rejects = |theta: f64| e_value(d, theta) * alpha >= 1.0;
    let mut sorted = sorted(d.iter().copied());
    let low = end(&sorted, f64::NEG_INFINITY, &rejects)?;
    sorted.reverse();
    Some((low, end(&sorted, f64::INFINITY, &rejects)?))
}

/// The first centre that is not rejected, coming from the first value towards the last.
fn end(values: &[f64], beyond: f64, rejects: &impl Fn(f64) -> bool) -> Option<f64> {
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return Some(beyond);
    };
    // Beyond the extremes E no longer changes. Equal values have no spread to step by.
    let spread = (first - last).abs().max(first.abs() * 1e-9).max(f64::MIN_POSITIVE);
    let mut outside = first + beyond.signum() * spread;
    if !rejects(outside) {
        return Some(beyond);
    }
    let step = (values.len() / (2 * SCAN)).max(1);
    let kept = values.iter().step_by(step).position(|value| !rejects(*value))?;
    let mut inside = values[kept * step];
    if kept > 0 {
        outside = values[(kept - 1) * step];
    }
    for _ in 0..HALVINGS {
        let middle = inside / 2.0 + outside / 2.0;
        *(if rejects(middle) { &mut outside } else { &mut inside }) = middle;
    }
    // The side that is certainly not too narrow.
    Some(outside)
}

/// The indices of the hypotheses that e-BH rejects, strongest evidence first.
///
/// The largest j with e_(j) ≥ m/(α·j), e_(j) being the j-th largest of m (Wang and Ramdas 2022, "False
/// discovery rate control with e-values"). Of what is rejected at most the share α is expected to be
/// false, whatever the dependence between the claims. Each e-value must be the one at its claim's
/// stopping time, never the largest that was seen on the way.
pub fn e_bh(e: &[f64], alpha: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..e.len()).filter(|i| !e[*i].is_nan()).collect();
    order.sort_by(|a, b| e[*b].total_cmp(&e[*a]));
    let enough = |j: usize| e[order[j - 1]] * alpha * j as f64 >= e.len() as f64;
    let rejected = (1..=order.len()).rev().find(|j| enough(*j)).unwrap_or(0);
    order.truncate(rejected);
    order
}

/// The level of the intervals of `selected` of `m` claims so that the expected share of selected
/// intervals that miss is at most α: 1 − α·j/m (Benjamini and Yekutieli 2005; with e-values for any
/// dependence, Xu, Wang and Ramdas 2024). 1 where nothing was selected.
pub fn fcr_level(selected: usize, m: usize, alpha: f64) -> f64 {
    if m == 0 { 1.0 } else { 1.0 - alpha * selected as f64 / m as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_by_hand() {
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

    #[test]
    fn intervals_agree_with_a_fine_scan_in_numpy() {
        // numpy: np.linspace(-0.04, 0.06, 100001), the first and the last θ with E(θ) < 20 of the values
        // below.
        let d: Vec<f64> = (0..24).map(|i| 0.01 + f64::from(i * 7 % 24) / 1000.0 - 0.0115).collect();
        let (low, high) = interval(&d, 0.05).unwrap();
        assert!((low - 0.0045).abs() < 1e-6 && (high - 0.016).abs() < 1e-6, "{low} {high}");
    }

    #[test]
    fn few_rounds_bound_nothing() {
        assert_eq!(interval(&[0.1, 0.2], 0.05), Some((f64::NEG_INFINITY, f64::INFINITY)));
        assert_eq!(interval(&[], 0.05), Some((f64::NEG_INFINITY, f64::INFINITY)));
    }

    #[test]
    fn equal_rounds_leave_their_value() {
        let (low, high) = interval(&[0.25; 40], 0.05).unwrap();
        assert!((low - 0.25).abs() < 1e-9 && (high - 0.25).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn the_largest_j_counts_even_where_a_smaller_one_fails() {
        // m = 4, α = .05: j = 1 needs 80, j = 2 needs 40, j = 3 needs 26.7, j = 4 needs 20.
        assert_eq!(e_bh(&[30.0, 1.0, 70.0, 27.0], 0.05), [2, 0, 3]);
        assert!(e_bh(&[30.0, 1.0, 70.0, 26.0], 0.05).is_empty());
        assert_eq!(e_bh(&[20.0; 4], 0.05), [0, 1, 2, 3]);
        assert_eq!(e_bh(&[f64::INFINITY, f64::NAN, 0.0], 0.05), [0]);
        assert!(e_bh(&[], 0.05).is_empty());
    }

    #[test]
    fn levels_by_hand() {
        assert_eq!(fcr_level(2, 10, 0.05), 0.99);
        assert_eq!(fcr_level(10, 10, 0.05), 0.95);
        assert_eq!(fcr_level(0, 0, 0.05), 1.0);
    }
}
