//! `--find best` simulated: its errors over all looks, and its time against rounds that run every variant.

use super::noise::{Noise, Order, SD, differences};
use crate::{regret::Regrets, table::LOOKS};
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
        if self == Effects::Equal { 1.05 } else { 0.65 }
    }

    fn truth(self, variant: usize) -> f64 {
        let percent = match (self, variant) {
            (Effects::Spread, _) | (Effects::Two, 0 | 1) => variant,
            (Effects::Two, _) => 15,
            (Effects::Equal, _) => 0,
        };
        (percent as f64 / 100.0).ln_1p()
    }
}

/// Runs to its end, at the last look at the latest. Also the time if variants had not left.
pub fn search(effects: Effects, noise: Noise, rng: &mut impl Rng) -> (Search, f64) {
    let truth: Vec<f64> = (0..8).map(|variant| effects.truth(variant)).collect();
    let all = measured(&truth, noise, rng);
    // With all variants in all rounds: the same rule, and only its time counts.
    let of_all = run(&all, &truth, false, 1).time;
    (run(&all, &truth, true, 1), of_all)
}

/// Four filesystems 0, 1, 3 and 8% apart, then the survivors with options that gain 2%, nothing, or cost 1% or 5%: whether
/// either of the two runs, which share the error, is wrong.
pub fn advice(noise: Noise, rng: &mut impl Rng) -> bool {
    let filesystems = [0.0f64, 0.01, 0.03, 0.08].map(f64::ln_1p);
    let first = run(&measured(&filesystems, noise, rng), &filesystems, true, 2);
    let options = [0.0f64, -0.02, 0.01, 0.05].map(f64::ln_1p);
    let of_survivor = |fs: &usize| options.map(|option| filesystems[*fs] + option);
    let truth: Vec<f64> = first.possible.iter().flat_map(of_survivor).collect();
    let second = run(&measured(&truth, noise, rng), &truth, true, 2);
    first.wrong || second.wrong
}

/// The costs of each variant in each round, from ln(cost).
fn measured(truth: &[f64], noise: Noise, rng: &mut impl Rng) -> Vec<Vec<f64>> {
    // A difference is of two measurements.
    let scale = NOISE / SD / std::f64::consts::SQRT_2;
    let mut series = |truth: &f64| -> Vec<f64> {
        let d = differences(noise, Order::Random, LOOKS[LOOKS.len() - 1].n, rng);
        d.iter().map(|d| (truth + scale * d).exp()).collect()
    };
    truth.iter().map(&mut series).collect()
}

/// A simulated run.
pub struct Search {
    /// The time of all its cells, in cells of the cheapest variant.
    pub time: f64,
    /// Whether at some look the best left, or a variant's regret was below the truth.
    pub wrong: bool,
    /// The variants that can still be the best.
    possible: Vec<usize>,
}

fn run(all: &[Vec<f64>], truth: &[f64], leave: bool, split: usize) -> Search {
    let least = truth.iter().copied().fold(f64::INFINITY, f64::min);
    let mut seen = vec![vec![]; all.len()];
    let (mut begun, mut left) = (0, vec![false; all.len()]);
    let mut ended = Search { time: 0.0, wrong: false, possible: (0..all.len()).collect() };
    for look in LOOKS {
        for variant in 0..all.len() {
            let rounds = &all[variant][begun..look.n];
            if left[variant] {
                seen[variant].resize(look.n, f64::NAN);
            } else {
                seen[variant].extend(rounds);
                ended.time += rounds.len() as f64 * truth[variant].exp();
            }
        }
        begun = look.n;
        let regrets = Regrets::compute(&seen, &[], Direction::Lower, split);
        if regrets.provisional {
            continue;
        }
        let too_low =
            |variant: usize| regrets.of(variant).is_some_and(|bound| bound < truth[variant] - least);
        // Where several are the best, it is missed with the last of them.
        let best_lost = (0..all.len()).all(|variant| truth[variant] > least || regrets.is_dominated(variant));
        ended.wrong |= best_lost || (0..all.len()).any(too_low);
        left = (0..all.len()).map(|variant| leave && regrets.is_dominated(variant)).collect();
        ended.possible = (0..all.len()).filter(|variant| !regrets.is_dominated(*variant)).collect();
        let choice = regrets.choose(&ended.possible).and_then(|choice| regrets.of(choice));
        if choice.is_some_and(|regret| regret <= WITHIN.ln_1p()) {
            break;
        }
    }
    ended
}
