//! For each law that a cost may follow: simulates how often its growth is found to bend, and how often its
//! extrapolation contains the truth.

use super::{ErrorCount, PromiseState, in_parallel, run_rng};
use crate::scaling::Series;
use crate::scaling::growth::{BendFinding, MAX_MULTIPLE, analyse_growth};
use fsarena_core::schedule::mix;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// The number of rounds of a run.
pub const ROUNDS: u32 = 4;
/// The amounts of work: 1e4..1e6 with three a decade.
const AMOUNTS: [f64; 7] = [1e4, 2.2e4, 4.6e4, 1e5, 2.2e5, 4.6e5, 1e6];
/// The standard deviation of the effect of a round on ln(cost) at all its amounts.
const ROUND_SD: f64 = 0.03;
/// The standard deviation of the noise of ln(cost) of a single value.
const VALUE_SD: f64 = 0.03;
/// The standard deviation of the effect of an amount of work on ln(cost) in all rounds.
const AMOUNT_SD: f64 = 0.01;
/// The largest accepted share of runs in which the interval misses the true cost, and of runs in which a bend is found where
/// there is none or excluded where there is one.
pub const MAX_WRONG: f64 = 0.07;

fsarena_core::named_enum! {
    /// The law that the simulated cost follows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Truth {
        /// A constant.
        Constant = "constant",
        /// N^0.1.
        Power = "power law",
        /// 1 + 20,000/N.
        Fixed = "fixed cost",
        /// 1 + 0.1·ln(N/10⁴).
        Logarithm = "logarithm",
        /// A power law whose exponent grows by 0.5 at 10⁵.
        BendWithin = "bend within the data",
        /// A power law whose exponent grows by 0.5 at 3·10⁶, three times the largest amount that is measured.
        BendBeyond = "bend beyond the data",
    }
}

impl Truth {
    /// The cost of a unit at an amount of work.
    fn cost(self, n: f64) -> f64 {
        let with_bend_at = |knee: f64| n.powf(0.05) * (n / knee).max(1.0).powf(0.5);
        match self {
            Truth::Constant => 1.0,
            Truth::Power => n.powf(0.1),
            Truth::Fixed => 1.0 + 20_000.0 / n,
            Truth::Logarithm => 1.0 + 0.1 * (n / 1e4).ln(),
            Truth::BendWithin => with_bend_at(1e5),
            Truth::BendBeyond => with_bend_at(3e6),
        }
    }
}

/// How often runs under one law were right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthCheck {
    /// The law.
    pub truth: Truth,
    /// The number of runs.
    pub runs: usize,
    /// The number of runs in which a bend was found.
    pub bends: usize,
    /// The number of runs in which a bend was excluded.
    pub straight: usize,
    /// The number of runs in which the interval at ten times the largest amount missed the true cost.
    pub missed: usize,
}

impl GrowthCheck {
    /// The number of wrong runs: the larger of the number of runs whose interval missed the true cost, and of the number of
    /// runs that found a bend where there is none or excluded a bend where there is one. For the negative test only the first
    /// number.
    pub fn errors(&self) -> ErrorCount {
        if self.is_negative_test() {
            return ErrorCount { wrong: self.missed, runs: self.runs };
        }
        let wrong_bends = if self.truth == Truth::BendWithin { self.straight } else { self.bends };
        ErrorCount { wrong: self.missed.max(wrong_bends), runs: self.runs }
    }

    /// Whether it is the negative test: the interval must miss, because the bend lies beyond the data and so cannot be
    /// seen in them.
    pub fn is_negative_test(&self) -> bool {
        self.truth == Truth::BendBeyond
    }

    /// The state of the promise that at most [`MAX_WRONG`] of all runs are wrong; of the negative test, that more are.
    pub fn state(&self) -> PromiseState {
        match (self.errors().state(MAX_WRONG), self.is_negative_test()) {
            (PromiseState::Kept, true) => PromiseState::Broken,
            (PromiseState::Broken, true) => PromiseState::Kept,
            (state, _) => state,
        }
    }
}

/// Simulates `runs` runs of [`ROUNDS`] rounds for each law.
pub fn check_growth(runs: usize, seed: u64) -> Vec<GrowthCheck> {
    let check = |(number, truth): (usize, Truth)| {
        let seed = mix(seed, number as u64);
        let simulated = in_parallel(runs, |run| {
            let growth = analyse_growth(simulate_costs(truth, &mut run_rng(seed, run)));
            let true_cost = truth.cost(MAX_MULTIPLE * AMOUNTS[AMOUNTS.len() - 1]);
            let contains = growth
                .extrapolation
                .is_some_and(|at_end| at_end.cost.low <= true_cost && true_cost <= at_end.cost.high);
            (growth.bend, contains)
        });
        GrowthCheck {
            truth,
            runs,
            bends: simulated.iter().filter(|(bend, _)| matches!(bend, BendFinding::Bends(_))).count(),
            straight: simulated.iter().filter(|(bend, _)| *bend == BendFinding::Straight).count(),
            missed: simulated.iter().filter(|(_, contains)| !contains).count(),
        }
    };
    Truth::ALL.into_iter().enumerate().map(check).collect()
}

/// Simulates a series of costs that follow a law.
fn simulate_costs(truth: Truth, rng: &mut impl Rng) -> Series {
    let mut normal = || -> f64 { StandardNormal.sample(rng) };
    let amount_effects = AMOUNTS.map(|_| AMOUNT_SD * normal());
    let mut rows = vec![];
    for round in 0..ROUNDS {
        let round_effect = ROUND_SD * normal();
        for (n, amount_effect) in AMOUNTS.into_iter().zip(amount_effects) {
            rows.push((n, round, truth.cost(n) * (round_effect + amount_effect + VALUE_SD * normal()).exp()));
        }
    }
    Series::new("simulated", &rows).expect("costs are above 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrapolations_hold_and_bends_are_found_unless_they_are_beyond_the_data() {
        for check in check_growth(200, 1) {
            assert_eq!(check.state(), PromiseState::Kept, "{check:?}");
            // A bend within the data is found.
            let bends_mostly = check.bends > check.runs * 9 / 10;
            assert_eq!(bends_mostly, check.truth == Truth::BendWithin, "{check:?}");
        }
    }

    #[test]
    fn wrong_intervals_and_bends_break_the_promise() {
        let check = |truth, bends, straight, missed| GrowthCheck { truth, runs: 200, bends, straight, missed };
        let states = [
            check(Truth::Power, 0, 200, 40),
            check(Truth::Power, 40, 0, 0),
            check(Truth::BendWithin, 200, 40, 0),
            check(Truth::BendBeyond, 0, 0, 0),
            check(Truth::BendBeyond, 200, 0, 0),
            check(Truth::Power, 0, 0, 14),
        ]
        .map(|check| check.state());
        let [broken, open] = [PromiseState::Broken, PromiseState::Open];
        assert_eq!(states, [broken, broken, broken, broken, broken, open]);
    }
}
