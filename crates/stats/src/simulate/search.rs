//! Simulates runs that search for the best variant.

use super::noise::{Noise, Order, SD, simulate_log_ratios};
use crate::critical_values::{LAST_LOOK_ROUNDS, LOOKS};
use crate::regret::Regrets;
use fsarena_core::sample::Direction;
use rand::Rng;

/// The standard deviation of a measurement, as a fraction.
const MEASUREMENT_SD: f64 = 0.03;
/// The regret at which a run ends, as a fraction.
const SMALL_REGRET: f64 = 0.01;

fsarena_core::named_enum! {
    /// By how much each of eight variants costs more than the cheapest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CostDifferences {
        /// 0, 1, … 7%.
        Spread = "0, 1, … 7%",
        /// 0, 1%, and six times 15%.
        TwoClose = "0, 1, 15, 15, … %",
        /// All cost the same.
        Equal = "equal",
    }
}

impl CostDifferences {
    /// The largest accepted median time of a run, as a share of the median time of the same runs without elimination.
    pub fn max_median_time_share(self) -> f64 {
        if self == CostDifferences::Equal { 1.05 } else { 0.65 }
    }

    /// ln(cost of a variant/cost of the cheapest) without noise.
    fn true_log_cost(self, variant: usize) -> f64 {
        let percent = match (self, variant) {
            (CostDifferences::Spread, _) | (CostDifferences::TwoClose, 0 | 1) => variant,
            (CostDifferences::TwoClose, _) => 15,
            (CostDifferences::Equal, _) => 0,
        };
        (percent as f64 / 100.0).ln_1p()
    }
}

/// Simulates a run that searches for the best variant, to the last look at most. Also returns the time of the same run without
/// elimination of variants.
pub(super) fn simulate_search(differences: CostDifferences, noise: Noise, rng: &mut impl Rng) -> (SearchRun, f64) {
    let log_costs: Vec<f64> = (0..8).map(|variant| differences.true_log_cost(variant)).collect();
    let costs = simulate_costs(&log_costs, noise, rng);
    let without_elimination = simulate_run(&costs, &log_costs, false, 1);
    (simulate_run(&costs, &log_costs, true, 1), without_elimination.time)
}

/// Simulates advice: a run of four filesystems that cost 0, 1, 3 and 8% more than the best, then a run of the filesystems that
/// were not eliminated, each with options that save 2% or cost 0, 1 or 5%. The two runs share the 5% probability of a
/// wrong conclusion. Returns whether either draws one.
pub(super) fn advice_errs(noise: Noise, rng: &mut impl Rng) -> bool {
    let filesystems = [0.0f64, 0.01, 0.03, 0.08].map(f64::ln_1p);
    let first = simulate_run(&simulate_costs(&filesystems, noise, rng), &filesystems, true, 2);
    let options = [0.0f64, -0.02, 0.01, 0.05].map(f64::ln_1p);
    let with_options = |fs: &usize| options.map(|option| filesystems[*fs] + option);
    let log_costs: Vec<f64> = first.possible.iter().flat_map(with_options).collect();
    let second = simulate_run(&simulate_costs(&log_costs, noise, rng), &log_costs, true, 2);
    first.erred || second.erred
}

/// Simulates the costs of each variant in each round, `[variant][round]`. `log_costs` has ln(cost) of each variant without
/// noise.
fn simulate_costs(log_costs: &[f64], noise: Noise, rng: &mut impl Rng) -> Vec<Vec<f64>> {
    // `simulate_log_ratios` gives the noise of a difference of two measurements of the size `SD`; scale it to the noise
    // of one measurement of the size `MEASUREMENT_SD`.
    let scale = MEASUREMENT_SD / SD / std::f64::consts::SQRT_2;
    let mut costs_of = |log_cost: &f64| -> Vec<f64> {
        let d = simulate_log_ratios(noise, Order::Random, LAST_LOOK_ROUNDS, rng);
        d.iter().map(|d| (log_cost + scale * d).exp()).collect()
    };
    log_costs.iter().map(&mut costs_of).collect()
}

/// A simulated run.
pub(super) struct SearchRun {
    /// The time of all its cells. The unit is the time of a cell of a variant whose ln(cost) is 0.
    pub time: f64,
    /// Whether the run erred: at some look it had eliminated the best, or the bound of a variant's regret was below the truth.
    pub erred: bool,
    /// The variants that can still be the best.
    possible: Vec<usize>,
}

/// Runs until the regret of the choice is small enough, or to the last look. `costs[variant][round]` are the measured costs,
/// and `log_costs[variant]` is ln(cost) without noise. If `eliminates`, a variant that cannot be the best is measured no
/// further. `error_split` is the number of runs that share the error.
fn simulate_run(costs: &[Vec<f64>], log_costs: &[f64], eliminates: bool, error_split: usize) -> SearchRun {
    let min_log_cost = log_costs.iter().copied().fold(f64::INFINITY, f64::min);
    let variants = 0..costs.len();
    let mut measured = vec![vec![]; costs.len()];
    let (mut rounds_before, mut eliminated) = (0, vec![false; costs.len()]);
    let mut search = SearchRun { time: 0.0, erred: false, possible: variants.clone().collect() };
    for look in LOOKS {
        for variant in variants.clone() {
            let rounds = &costs[variant][rounds_before..look.rounds];
            if eliminated[variant] {
                measured[variant].resize(look.rounds, f64::NAN);
            } else {
                measured[variant].extend(rounds);
                search.time += rounds.len() as f64 * log_costs[variant].exp();
            }
        }
        rounds_before = look.rounds;
        let regrets = Regrets::compute(&measured, &[], Direction::Lower, error_split);
        if regrets.provisional {
            continue;
        }
        let is_regret_too_low = |variant: usize| {
            regrets.regret_of(variant).is_some_and(|regret| regret < log_costs[variant] - min_log_cost)
        };
        // If several variants are equally good, the best is lost only with the last of them.
        let is_best_lost =
            variants.clone().all(|variant| log_costs[variant] > min_log_cost || regrets.is_dominated(variant));
        search.erred |= is_best_lost || variants.clone().any(is_regret_too_low);
        // An eliminated variant stays so: without new rounds, its bounds against the others do not change.
        eliminated = variants.clone().map(|variant| eliminates && regrets.is_dominated(variant)).collect();
        search.possible = variants.clone().filter(|variant| !regrets.is_dominated(*variant)).collect();
        let regret_of_choice = regrets.choose(&search.possible).and_then(|choice| regrets.regret_of(choice));
        if regret_of_choice.is_some_and(|regret| regret <= SMALL_REGRET.ln_1p()) {
            break;
        }
    }
    search
}
