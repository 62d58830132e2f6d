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
/// Standard deviations of ln cost: shared by a round, of a single value, and shared by an amount of work over all
/// rounds.
const NOISE: (f64, f64, f64) = (0.03, 0.03, 0.01);
/// The largest share of runs in which the interval may miss, and in which a law without a bend may be found to bend.
pub const MOST_WRONG: f64 = 0.07;

/// The law that the simulated cost follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// A constant.
    Constant,
    /// N^0.1.
    Power,
    /// 1 + 20,000/N.
    Fixed,
    /// 1 + 0.1·ln(N/10⁴).
    Logarithm,
    /// A power law whose exponent grows by 0.5 at 10⁵.
    BendWithin,
    /// A power law whose exponent grows by 0.5 at 3·10⁶, three times the largest amount that is measured.
    BendBeyond,
}

impl Truth {
    /// All laws.
    pub const ALL: [Truth; 6] =
        [Truth::Constant, Truth::Power, Truth::Fixed, Truth::Logarithm, Truth::BendWithin, Truth::BendBeyond];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Truth::Constant => "constant",
            Truth::Power => "power law",
            Truth::Fixed => "fixed cost",
            Truth::Logarithm => "logarithm",
            Truth::BendWithin => "bend within the data",
            Truth::BendBeyond => "bend beyond the data",
        }
    }

    /// The cost of a unit at an amount of work.
    fn cost(self, n: f64) -> f64 {
        let bent = |at: f64| n.powf(0.05) * (n / at).max(1.0).powf(0.5);
        match self {
            Truth::Constant => 1.0,
            Truth::Power => n.powf(0.1),
            Truth::Fixed => 1.0 + 20_000.0 / n,
            Truth::Logarithm => 1.0 + 0.1 * (n / 1e4).ln(),
            Truth::BendWithin => bent(1e5),
            Truth::BendBeyond => bent(3e6),
        }
    }

    /// Whether it bends within the data.
    fn bends(self) -> bool {
        self == Truth::BendWithin
    }
}

/// How often runs under one law were right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthCheck {
    /// The law.
    pub truth: Truth,
    /// Runs.
    pub runs: usize,
    /// Runs in which a bend was found.
    pub bends: usize,
    /// Runs in which a bend was excluded.
    pub straight: usize,
    /// Runs in which the interval at ten times the largest amount missed the true cost.
    pub missed: usize,
}

impl GrowthCheck {
    /// The number of wrong runs, the larger of two numbers: of runs whose interval missed the true cost, and of runs
    /// that found a bend where there is none or excluded a bend where there is one. Of the negative test, the number of
    /// runs whose interval missed the true cost, which it must show.
    pub fn errors(&self) -> ErrorCount {
        if self.is_negative() {
            return ErrorCount { wrong: self.missed, runs: self.runs };
        }
        let wrong_bends = if self.truth.bends() { self.straight } else { self.bends };
        ErrorCount { wrong: self.missed.max(wrong_bends), runs: self.runs }
    }

    /// Whether it is the negative test: the interval must miss, because the bend lies beyond the data and so cannot be
    /// seen in them.
    pub fn is_negative(&self) -> bool {
        self.truth == Truth::BendBeyond
    }

    /// The state of the promise that at most [`MOST_WRONG`] of all runs are wrong; of the negative test, that more are.
    pub fn state(&self) -> PromiseState {
        match (self.errors().state(MOST_WRONG), self.is_negative()) {
            (PromiseState::Kept, true) => PromiseState::Broken,
            (PromiseState::Broken, true) => PromiseState::Kept,
            (state, _) => state,
        }
    }
}

/// Simulates `runs` runs of [`ROUNDS`] rounds for each law.
pub fn growth_checks(runs: usize, seed: u64) -> Vec<GrowthCheck> {
    let check = |(number, truth): (usize, Truth)| {
        let seed = mix(seed, number as u64);
        let found = in_parallel(runs, |run| {
            let growth = analyse_growth(simulate_costs(truth, &mut run_rng(seed, run)));
            let true_cost = truth.cost(MAX_MULTIPLE * AMOUNTS[AMOUNTS.len() - 1]);
            let contains =
                growth.beyond.is_some_and(|beyond| beyond.cost.low <= true_cost && true_cost <= beyond.cost.high);
            (growth.bend, contains)
        });
        GrowthCheck {
            truth,
            runs,
            bends: found.iter().filter(|(bend, _)| matches!(bend, BendFinding::Bends(_))).count(),
            straight: found.iter().filter(|(bend, _)| *bend == BendFinding::Straight).count(),
            missed: found.iter().filter(|(_, contains)| !contains).count(),
        }
    };
    Truth::ALL.into_iter().enumerate().map(check).collect()
}

/// A series under a law.
fn simulate_costs(truth: Truth, rng: &mut impl Rng) -> Series {
    let mut normal = || -> f64 { StandardNormal.sample(rng) };
    let (of_round, of_value, of_amount) = NOISE;
    let deviations = AMOUNTS.map(|_| of_amount * normal());
    let mut rows = vec![];
    for round in 0..ROUNDS {
        let common = of_round * normal();
        for (n, deviation) in AMOUNTS.into_iter().zip(deviations) {
            rows.push((n, round, truth.cost(n) * (common + deviation + of_value * normal()).exp()));
        }
    }
    Series::new("simulated", &rows).expect("costs are above 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrapolations_hold_and_bends_are_found_unless_they_are_beyond_the_data() {
        for check in growth_checks(200, 1) {
            assert_eq!(check.state(), PromiseState::Kept, "{check:?}");
            // What bends within the data is found.
            let found = check.bends > check.runs * 9 / 10;
            assert_eq!(found, check.truth == Truth::BendWithin, "{check:?}");
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
