//! Simulations of the statistical rules on random data, for which the truth is known.

pub mod bisect;
pub mod growth;
pub mod headline;
pub mod mean_ratio;
pub mod noise;
mod rules;
mod search;
pub mod selftest;

use crate::critical_values::LAST_LOOK_ROUNDS;
use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use rand::SeedableRng;
use statrs::distribution::{Beta, ContinuousCDF};

/// The largest error rate that every rule promises.
const ALPHA: f64 = 0.05;
/// The number of rounds of a simulated run, which has all looks.
const ROUNDS: usize = LAST_LOOK_ROUNDS;

fsarena_core::named_enum! {
    /// The state of a promise about an error rate.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PromiseState {
        /// The promise is kept.
        Kept = "ok",
        /// There are too few runs for a decision.
        Open = "too few runs",
        /// The promise is broken.
        Broken = "BROKEN",
    }
}

/// In how many simulated runs something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCount {
    /// The number of runs with an error.
    pub wrong: usize,
    /// The number of runs.
    pub runs: usize,
}

impl ErrorCount {
    /// Performs `runs` runs on all CPUs and counts those that err.
    pub fn simulate(runs: usize, errs: impl Fn(u64) -> bool + Sync) -> ErrorCount {
        ErrorCount { wrong: count_runs(runs, errs), runs }
    }

    /// The share of runs with an error.
    pub fn rate(self) -> f64 {
        self.wrong as f64 / self.runs as f64
    }

    /// The lower 95% confidence limit of the error rate.
    pub fn lower_limit(self) -> f64 {
        lower_limit(self.wrong, self.runs)
    }

    /// The upper 95% confidence limit of the error rate.
    pub fn upper_limit(self) -> f64 {
        upper_limit(self.wrong, self.runs)
    }

    /// The state of the promise that the error rate is at most `limit`.
    pub fn state(self, limit: f64) -> PromiseState {
        if self.lower_limit() > limit {
            PromiseState::Broken
        } else if self.upper_limit() > limit {
            PromiseState::Open
        } else {
            PromiseState::Kept
        }
    }
}

/// The number of rounds above which bootstrap and permutation tests draw fewer samples, because each sample takes long. Runs
/// that stop once their claims are decided have far fewer rounds.
pub(crate) const MANY_ROUNDS: usize = 2_000;

/// The random number generator of one simulated run. It depends on the seed and the run's number only, so that a
/// simulation gives the same figures on any number of CPUs.
pub fn run_rng(seed: u64, run: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(mix(seed, run))
}

/// Calls `perform` with each number from 0 up to `runs`, on all CPUs, and returns the results in order.
pub fn in_parallel<T: Send>(runs: usize, perform: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.max(1));
    let bounds = |thread: usize| (runs * thread / threads) as u64..(runs * (thread + 1) / threads) as u64;
    let perform = &perform;
    std::thread::scope(|scope| {
        let worker = |thread| scope.spawn(move || bounds(thread).map(perform).collect::<Vec<T>>());
        let workers: Vec<_> = (0..threads).map(worker).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a simulated run does not fail")).collect()
    })
}

/// Performs `runs` runs on all CPUs and returns the number of those for which `happens` is true.
pub(crate) fn count_runs(runs: usize, happens: impl Fn(u64) -> bool + Sync) -> usize {
    in_parallel(runs, happens).into_iter().filter(|happened| *happened).count()
}

/// The upper 95% confidence limit of a probability, from `events` in `runs` (Clopper and Pearson 1934): the 0.95 quantile of
/// Beta(events + 1, runs − events).
pub fn upper_limit(events: usize, runs: usize) -> f64 {
    if events >= runs {
        return 1.0;
    }
    beta_quantile(events + 1, runs - events, 0.95)
}

/// The lower 95% confidence limit of a probability (Clopper and Pearson 1934): the 0.05 quantile of
/// Beta(events, runs − events + 1).
pub fn lower_limit(events: usize, runs: usize) -> f64 {
    lower_limit_of_largest(events, runs, 1)
}

/// The lower 95% confidence limit of a probability that was selected as the largest of `rate_count` estimates: the error of
/// 0.05 is split among these (Bonferroni).
pub fn lower_limit_of_largest(events: usize, runs: usize, rate_count: usize) -> f64 {
    if events == 0 {
        return 0.0;
    }
    beta_quantile(events, runs - events + 1, 0.05 / rate_count as f64)
}

/// The `p` quantile of Beta(a, b).
fn beta_quantile(a: usize, b: usize, p: f64) -> f64 {
    Beta::new(a as f64, b as f64).expect("both counts are above 0").inverse_cdf(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_agree_with_scipy() {
        // scipy.stats.binomtest(k, n).proportion_ci(0.90): its two ends are the one-sided 95% limits.
        for (events, runs, low, high) in [
            (100, 2000, 0.042_228_405_899_487, 0.058_770_314_230_601),
            (1, 10, 0.005_116_196_892_305, 0.394_163_302_436_974),
        ] {
            assert!((lower_limit(events, runs) - low).abs() < 1e-6, "{}", lower_limit(events, runs));
            assert!((upper_limit(events, runs) - high).abs() < 1e-6, "{}", upper_limit(events, runs));
        }
        // The rule of three: 1 − 0.05^(1/n).
        assert!((upper_limit(0, 100) - (1.0 - 0.05f64.powf(0.01))).abs() < 1e-6);
        assert_eq!((lower_limit(0, 5), upper_limit(5, 5)), (0.0, 1.0));
    }

    #[test]
    fn runs_come_in_order_and_do_not_depend_on_threads() {
        assert_eq!(in_parallel(1000, |run| run), (0..1000).collect::<Vec<u64>>());
        assert!(in_parallel(0, |run| run).is_empty());
    }
}
