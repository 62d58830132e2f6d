//! Simulates how often the interval of the ratio of mean costs misses the truth at some look, by the noise of the two variants.
//!
//! The typical ratio equals the ratio of the means only if the noise of both variants has the same shape, which is not true for
//! filesystems. So the simulated variants have noise of different shapes, and the truth is the ratio of the means.

use super::{ErrorCount, PromiseState, ROUNDS, in_parallel, run_rng};
use crate::critical_values::LOOKS;
use crate::mean_ratio::{ROUNDS_FOR_MEAN_RATIO, SharedCosts};
use fsarena_core::schedule::mix;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, StandardNormal};

/// The true ratio of the mean costs, variant B/variant A.
const TRUE_RATIO: f64 = 1.05;
/// The standard deviation of a shape, as a share of the mean.
const RELATIVE_SD: f64 = 0.2;
/// The largest accepted share of runs in which the interval misses at some look, for the shapes of [`PROMISED`].
const MAX_MISSES: f64 = 0.07;
/// The smallest accepted share of runs that have an interval at a look, for the shapes of [`PROMISED`].
const MIN_WITH_INTERVAL: f64 = 0.9;
/// The share of rounds with a stall, and the additional cost of a stall in units of the mean cost.
const STALL_SHARE_AND_COST: (f64, f64) = (0.02, 3.0);

fsarena_core::named_enum! {
    /// How the costs of a variant vary around a mean of 1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Shape {
        /// Normal, with a tenth of the standard deviation of the others.
        Quiet = "quiet",
        /// Normal.
        Normal = "normal",
        /// Exponential: mostly quick, sometimes slow. Its skewness is 2.
        Exponential = "exponential",
        /// Log-normal with σ = 0.5, a skewness of 1.75.
        LogNormal = "log-normal",
        /// Log-normal with σ = 1, a skewness of 6.2.
        WideLogNormal = "log-normal, σ = 1",
        /// Pareto with the index 1.5: it has no variance.
        Pareto = "Pareto(1.5)",
        /// Quiet, and one round of fifty takes four times as long.
        Stalls = "stalls in 2% of rounds",
    }
}

impl Shape {
    /// Draws a cost. Its mean is 1. Its standard deviation is [`RELATIVE_SD`], except for the quiet shapes, which have a tenth
    /// of it, and Pareto, which has none.
    fn cost(self, rng: &mut impl Rng) -> f64 {
        let normal = |rng: &mut _| -> f64 { StandardNormal.sample(rng) };
        // exp(σx) has the mean exp(σ²/2) and a standard deviation of √(exp(σ²) − 1) times that.
        let log_normal = |sigma: f64, rng: &mut _| {
            ((sigma * normal(rng) - sigma * sigma / 2.0).exp() - 1.0) / (sigma * sigma).exp_m1().sqrt()
        };
        match self {
            Shape::Quiet => 1.0 + 0.1 * RELATIVE_SD * normal(rng),
            Shape::Normal => 1.0 + RELATIVE_SD * normal(rng),
            Shape::Exponential => {
                let exponential: f64 = Exp1.sample(rng);
                1.0 + RELATIVE_SD * (exponential - 1.0)
            }
            Shape::LogNormal => 1.0 + RELATIVE_SD * log_normal(0.5, rng),
            Shape::WideLogNormal => 1.0 + RELATIVE_SD * log_normal(1.0, rng),
            // Inverse transform sampling: this Pareto distribution begins at 1 and has the mean 3.
            Shape::Pareto => 1.0 + RELATIVE_SD * ((1.0 - rng.random::<f64>()).powf(-1.0 / 1.5) - 3.0) / 3.0,
            Shape::Stalls => {
                let (share, cost) = STALL_SHARE_AND_COST;
                let stall = if rng.random_bool(share) { cost } else { 0.0 };
                1.0 + 0.1 * RELATIVE_SD * normal(rng) + stall - share * cost
            }
        }
    }
}

/// The shapes of two variants.
pub type ShapePair = (Shape, Shape);

/// The shapes for which the interval keeps its promise.
const PROMISED: [ShapePair; 10] = [
    (Shape::Normal, Shape::Normal),
    (Shape::Quiet, Shape::Normal),
    (Shape::Exponential, Shape::Exponential),
    (Shape::Quiet, Shape::Exponential),
    (Shape::Exponential, Shape::Quiet),
    (Shape::Normal, Shape::Exponential),
    (Shape::LogNormal, Shape::LogNormal),
    (Shape::Quiet, Shape::LogNormal),
    (Shape::LogNormal, Shape::Quiet),
    (Shape::Normal, Shape::LogNormal),
];

/// The shapes whose misses are only reported, without a promise.
const NOT_PROMISED: [ShapePair; 5] = [
    (Shape::WideLogNormal, Shape::WideLogNormal),
    (Shape::Quiet, Shape::WideLogNormal),
    (Shape::Pareto, Shape::Pareto),
    (Shape::Quiet, Shape::Pareto),
    (Shape::Quiet, Shape::Stalls),
];

/// How the interval performs under one pair of shapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanCheck {
    /// The shapes of the two variants.
    pub shapes: ShapePair,
    /// Whether the machine drifts: it becomes slower or faster for both variants, and more so for the second place of a round.
    pub drifts: bool,
    /// Whether the interval keeps a promise for these shapes.
    pub promised: bool,
    /// In how many runs a printed interval missed the ratio of the means at some look.
    pub misses: ErrorCount,
    /// The share of runs that had an interval, at the look with the fewest.
    pub share_with_interval: f64,
}

impl MeanCheck {
    /// The largest accepted share of runs with a miss; None for shapes without a promise.
    pub fn limit(&self) -> Option<f64> {
        self.promised.then_some(MAX_MISSES)
    }

    /// The state of the promise; None for shapes without a promise.
    pub fn state(&self) -> Option<PromiseState> {
        let has_too_few_intervals = self.share_with_interval < MIN_WITH_INTERVAL;
        let state = |limit| if has_too_few_intervals { PromiseState::Broken } else { self.misses.state(limit) };
        self.limit().map(state)
    }
}

/// Simulates `runs` runs of 400 rounds for each pair of shapes, with and without drift. The looks are one at
/// [`ROUNDS_FOR_MEAN_RATIO`] rounds, and all later ones of [`LOOKS`].
pub fn check_mean_intervals(runs: usize, seed: u64) -> Vec<MeanCheck> {
    let promised = PROMISED.into_iter().map(|shapes| (shapes, true));
    let all = promised.chain(NOT_PROMISED.into_iter().map(|shapes| (shapes, false)));
    let all = all.flat_map(|(shapes, promised)| [false, true].map(|drifts| (shapes, promised, drifts)));
    let check = |(number, (shapes, promised, drifts)): (usize, (ShapePair, bool, bool))| {
        let seed = mix(seed, number as u64);
        let misses = in_parallel(runs, |run| misses_at_looks(shapes, drifts, &mut run_rng(seed, run)));
        let wrong = misses.iter().filter(|looks| looks.contains(&Some(true))).count();
        let with_interval = |look: usize| misses.iter().filter(|looks| looks[look].is_some()).count();
        let fewest = (0..misses.first().map_or(0, Vec::len)).map(with_interval).min().unwrap_or(0);
        MeanCheck {
            shapes,
            drifts,
            promised,
            misses: ErrorCount { wrong, runs },
            share_with_interval: fewest as f64 / runs as f64,
        }
    };
    all.enumerate().map(check).collect()
}

/// Simulates a run. Returns for every look whether the interval misses the true ratio; None if it has no interval.
fn misses_at_looks((a, b): ShapePair, drifts: bool, rng: &mut impl Rng) -> Vec<Option<bool>> {
    let mut drift: f64 = StandardNormal.sample(rng);
    let (mut costs_of_a, mut costs_of_b) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let (mut cost_a, mut cost_b) = (a.cost(rng), b.cost(rng));
        if drifts {
            // An autoregressive process of order 1 with coefficient 0.95; 0.31² = 1 − 0.95² gives it a standard deviation of 1.
            let step: f64 = StandardNormal.sample(rng);
            drift = 0.95 * drift + 0.31 * step;
            let second_in_round = if rng.random() { &mut cost_a } else { &mut cost_b };
            *second_in_round += 0.2 * RELATIVE_SD * drift;
            let machine_factor = (0.1 * drift).exp();
            (cost_a, cost_b) = (cost_a * machine_factor, cost_b * machine_factor);
        }
        costs_of_a.push(cost_a);
        costs_of_b.push(TRUE_RATIO * cost_b);
    }
    let later_looks = LOOKS.iter().map(|look| look.rounds).filter(|rounds| *rounds > ROUNDS_FOR_MEAN_RATIO);
    let misses_after = |rounds: usize| {
        let costs = SharedCosts::new(&costs_of_a[..rounds], &costs_of_b[..rounds])?;
        costs.excludes(TRUE_RATIO, 2).ok()
    };
    std::iter::once(ROUNDS_FOR_MEAN_RATIO).chain(later_looks).map(misses_after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::average::{mean, variance};

    #[test]
    fn shapes_have_a_mean_of_one() {
        let size = |shape: Shape| if shape == Shape::Quiet { 0.1 * RELATIVE_SD } else { RELATIVE_SD };
        for shape in [Shape::Quiet, Shape::Normal, Shape::Exponential, Shape::LogNormal, Shape::WideLogNormal] {
            let mut rng = run_rng(3, shape as u64);
            let costs: Vec<f64> = (0..100_000).map(|_| shape.cost(&mut rng)).collect();
            assert!((mean(&costs) - 1.0).abs() < 0.005, "{shape:?}: {}", mean(&costs));
            assert!((variance(&costs).sqrt() / size(shape) - 1.0).abs() < 0.1, "{shape:?}");
        }
        let mut rng = run_rng(3, 9);
        let stalls: Vec<f64> = (0..100_000).map(|_| Shape::Stalls.cost(&mut rng)).collect();
        assert!((mean(&stalls) - 1.0).abs() < 0.01, "{}", mean(&stalls));
    }

    #[test]
    fn few_runs_break_no_promise() {
        let checks = check_mean_intervals(100, 1);
        assert_eq!(checks.len(), 30);
        assert!(checks.iter().all(|check| check.state() != Some(PromiseState::Broken)), "{checks:?}");
        // Rare stalls occur in few runs of 20 rounds, so the interval does not include their cost.
        let missed = |shapes: ShapePair| checks.iter().find(|check| check.shapes == shapes).unwrap().misses.wrong;
        assert!(missed((Shape::Quiet, Shape::Stalls)) > 30 && missed((Shape::Quiet, Shape::Pareto)) > 10);
        assert_eq!(check_mean_intervals(3, 1), check_mean_intervals(3, 1));
    }
}
