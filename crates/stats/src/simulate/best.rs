//! `--find best` simulated: its errors over all looks, and its time against rounds that run every variant.

use super::noise::{Noise, Order, SD, differences};
use crate::regret;
use crate::table::LOOKS;
use fsarena_core::sample::Direction;
use rand::Rng;

/// The noise of a measurement.
const NOISE: f64 = 0.03;
/// The regret at which a run ends.
const WITHIN: f64 = 0.01;

/// The costs of eight variants, over the cheapest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    /// 0, 1, … 7%.
    Spread,
    /// 0, 1 and six of 15%.
    Two,
    /// All cost the same.
    Equal,
}

impl Effects {
    /// All of them.
    pub const ALL: [Effects; 3] = [Effects::Spread, Effects::Two, Effects::Equal];

    /// What people read.
    pub fn name(self) -> &'static str {
        match self {
            Effects::Spread => "0, 1, … 7%",
            Effects::Two => "0, 1, 15, 15, … %",
            Effects::Equal => "equal",
        }
    }

    /// The most that the median time may be, as a share of that of running every variant in every round.
    pub fn time_limit(self) -> f64 {
        if self == Effects::Equal { 1.05 } else { 0.6 }
    }

    fn truth(self, variant: usize) -> f64 {
        let percent = match (self, variant) {
            (Effects::Spread, _) => variant,
            (Effects::Two, 0 | 1) => variant,
            (Effects::Two, _) => 15,
            (Effects::Equal, _) => 0,
        };
        (percent as f64 / 100.0).ln_1p()
    }
}

/// A simulated run.
pub struct Search {
    /// The time of all its cells, in cells of the cheapest variant.
    pub time: f64,
    /// The time if variants had not left.
    pub of_all: f64,
    /// Whether at some look the best left, or a variant's regret was below the truth.
    pub wrong: bool,
}

/// Runs to its end, at the last look at the latest.
pub fn search(effects: Effects, noise: Noise, rng: &mut impl Rng) -> Search {
    let cost = |variant: usize| effects.truth(variant).exp();
    // A difference is of two measurements.
    let scale = NOISE / SD / std::f64::consts::SQRT_2;
    let mut series = |variant: usize| -> Vec<f64> {
        let d = differences(noise, Order::Random, LOOKS[LOOKS.len() - 1].n, rng);
        d.iter().map(|d| (effects.truth(variant) + scale * d).exp()).collect()
    };
    let all: Vec<Vec<f64>> = (0..8).map(&mut series).collect();
    // With all variants in all rounds: the same rule, and only the time is asked.
    let of_all = run(&all, false, &cost, effects).0;
    let (time, wrong) = run(&all, true, &cost, effects);
    Search { time, of_all, wrong }
}

fn run(all: &[Vec<f64>], leave: bool, cost: &dyn Fn(usize) -> f64, effects: Effects) -> (f64, bool) {
    let mut seen = vec![vec![]; all.len()];
    let (mut time, mut wrong, mut begun, mut left) = (0.0, false, 0, vec![false; all.len()]);
    for look in LOOKS {
        for variant in 0..all.len() {
            let rounds = &all[variant][begun..look.n];
            match left[variant] {
                true => seen[variant].extend(rounds.iter().map(|_| f64::NAN)),
                false => {
                    seen[variant].extend(rounds);
                    time += rounds.len() as f64 * cost(variant);
                }
            }
        }
        begun = look.n;
        let regrets = regret::of(&seen, &[], Direction::Lower);
        if regrets.provisional {
            continue;
        }
        let too_low =
            |variant: usize| regrets.of(variant).is_some_and(|bound| bound < effects.truth(variant));
        // Where all are equal, each is the best, and none is missed.
        let best_lost = effects != Effects::Equal && regrets.beaten(0);
        wrong |= best_lost || (0..all.len()).any(too_low);
        left = (0..all.len()).map(|variant| leave && regrets.beaten(variant)).collect();
        let able: Vec<usize> = (0..all.len()).filter(|variant| !regrets.beaten(*variant)).collect();
        let choice = regrets.choose(&able).and_then(|choice| regrets.of(choice));
        if choice.is_some_and(|regret| regret <= WITHIN.ln_1p()) {
            break;
        }
    }
    (time, wrong)
}
