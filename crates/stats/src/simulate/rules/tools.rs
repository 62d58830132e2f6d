//! The decision rules of other benchmark tools, as their sources have them.

use crate::average::{mean, variance};
use crate::cost;
use rand::{Rng, RngExt};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Resamples of the bootstrap. criterion takes 100,000; 1,000 give its 5% to within 0.7%.
const RESAMPLES: usize = 1_000;

/// A tool that compares two lists of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// hyperfine (`scripts/welch_ttest.py`): Welch's t test at 5%.
    Hyperfine,
    /// benchstat: the Mann–Whitney U test at 5%.
    Benchstat,
    /// criterion: a t test whose distribution is bootstrapped from both samples together, at 5%.
    Criterion,
    /// fsperf: whether a new run lies outside of mean ± 1.96 standard deviations of the former ones.
    Fsperf,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 4] = [Tool::Hyperfine, Tool::Benchstat, Tool::Criterion, Tool::Fsperf];

    /// The name of the tool and of its rule.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Hyperfine => "hyperfine (Welch)",
            Tool::Benchstat => "benchstat (Mann-Whitney)",
            Tool::Criterion => "criterion (bootstrap t)",
            Tool::Fsperf => "fsperf (mean ± 1.96 sd)",
        }
    }

    /// Whether the tool says that the two differ.
    pub fn tells_apart(self, a: &[f64], b: &[f64], rng: &mut impl Rng) -> bool {
        let statistic = self.statistic(a, b);
        match self {
            Tool::Hyperfine => {
                let t = StudentsT::new(0.0, 1.0, welch(a, b).1).expect("more than one measurement");
                2.0 * t.sf(statistic) < 0.05
            }
            Tool::Benchstat => 2.0 * Normal::standard().sf(statistic) < 0.05,
            Tool::Criterion => bootstrap_p(a, b, rng) < 0.05,
            Tool::Fsperf => statistic > 1.96,
        }
    }

    /// What the tool's rule compares with a threshold: larger is more different. For criterion it is the same
    /// t as for hyperfine; they differ in the threshold alone.
    pub fn statistic(self, a: &[f64], b: &[f64]) -> f64 {
        match self {
            Tool::Hyperfine | Tool::Criterion => welch(a, b).0.abs(),
            Tool::Benchstat => mann_whitney(a, b),
            Tool::Fsperf => (b[0] - mean(a)).abs() / variance(a).sqrt(),
        }
    }
}

/// Welch's t and its degrees of freedom (Welch 1947).
fn welch(a: &[f64], b: &[f64]) -> (f64, f64) {
    let [(va, fa), (vb, fb)] = [a, b].map(|x| (variance(x) / x.len() as f64, (x.len() - 1) as f64));
    ((mean(b) - mean(a)) / (va + vb).sqrt(), cost::welch((va, fa), (vb, fb)))
}

/// |U − mn/2| less ½ for continuity, in standard deviations. For values without ties.
fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|x| (*x, false)).chain(b.iter().map(|x| (*x, true))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let ranks: usize = all.iter().enumerate().filter(|(_, (_, of_b))| *of_b).map(|(at, _)| at + 1).sum();
    let (m, n) = (a.len() as f64, b.len() as f64);
    let u = ranks as f64 - n * (n + 1.0) / 2.0;
    ((u - m * n / 2.0).abs() - 0.5).max(0.0) / (m * n * (m + n + 1.0) / 12.0).sqrt()
}

/// The two-sided p of Welch's t in the distribution of t over resamples of both lists thrown together.
fn bootstrap_p(a: &[f64], b: &[f64], rng: &mut impl Rng) -> f64 {
    let pool: Vec<f64> = a.iter().chain(b).copied().collect();
    let t = welch(a, b).0;
    let mut sample = vec![0.0; pool.len()];
    let is_below = |_: &usize| {
        sample.iter_mut().for_each(|x| *x = pool[rng.random_range(0..pool.len())]);
        welch(&sample[..a.len()], &sample[a.len()..]).0 < t
    };
    let below = (0..RESAMPLES).filter(is_below).count();
    2.0 * below.min(RESAMPLES - below) as f64 / RESAMPLES as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::stream;

    const A: [f64; 8] = [10.1, 10.3, 9.9, 10.6, 10.2, 10.0, 10.45, 9.8];
    const B: [f64; 7] = [10.5, 10.9, 10.35, 11.2, 10.7, 10.25, 10.85];

    #[test]
    fn statistics_as_scipy_has_them() {
        // scipy.stats.ttest_ind(B, A, equal_var=False): statistic, df.
        let (t, df) = welch(&A, &B);
        assert!((t - 3.1974038985744877).abs() < 1e-9 && (df - 11.646700121875718).abs() < 1e-9, "{t} {df}");
        // scipy.stats.mannwhitneyu(B, A, method="asymptotic").pvalue
        let p = 2.0 * Normal::standard().sf(mann_whitney(&A, &B));
        assert!((p - 0.012841262337219548).abs() < 1e-9, "{p}");
    }

    #[test]
    fn the_bootstrap_comes_near_the_t_test() {
        let p = bootstrap_p(&A, &B, &mut stream(1, 0));
        assert!(p < 0.03, "{p}");
    }

    #[test]
    fn every_rule_sees_what_is_plain() {
        let far = B.map(|b| b + 5.0);
        for tool in Tool::ALL {
            assert!(tool.tells_apart(&A, &far, &mut stream(1, 0)), "{tool:?}");
            assert!(!tool.tells_apart(&A, &A.map(|a| a + 0.01), &mut stream(1, 0)), "{tool:?}");
        }
    }
}
