//! Compares with the rules of other tools: false verdicts, and rounds needed at equal error.
//!
//! Other tools measure all of A and then all of B. A round here is one measurement of each.

mod tools;

pub use tools::Tool;

use super::{count, noise::series, parallel, stream};
use crate::{average::sorted, sequential::found_at, table::LOOKS};
use fsarena_core::schedule::mix;
use rand::{Rng, RngExt};

/// The share of a tool's false verdicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRate {
    /// The tool.
    pub tool: Tool,
    /// Measurements of each variant.
    pub rounds: usize,
    /// The share on a machine with 1% white noise.
    pub white: f64,
    /// The share where the machine drifts too: AR(.95) of 1%.
    pub drift: f64,
}

/// How often each tool's own rule tells identical variants apart.
pub fn error_rates(runs: usize, seed: u64) -> Vec<ErrorRate> {
    let rate = |tool: Tool, rounds: usize, drifts: bool| {
        let wrong = count(runs, |run| {
            let mut rng = stream(mix(seed, (rounds * 2 + usize::from(drifts)) as u64), run);
            let x = series(drifts, 2 * rounds, &mut rng);
            tool.tells_apart(&x[..rounds], &x[rounds..], &mut rng)
        });
        wrong as f64 / runs as f64
    };
    let cases = Tool::ALL.into_iter().map(|tool| (tool, 10)).chain([(Tool::Hyperfine, 100)]);
    let of = |(tool, rounds)| {
        let [white, drift] = [false, true].map(|drifts| rate(tool, rounds, drifts));
        ErrorRate { tool, rounds, white, drift }
    };
    cases.map(of).collect()
}

/// Rounds that a rule needs to see an effect in four of five runs, its threshold moved so that it errs in 5%.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundsNeeded {
    /// The tool; None for fsarena's rule.
    pub tool: Option<Tool>,
    /// Whether the machine drifts.
    pub drifts: bool,
    /// The true effect, as a fraction.
    pub effect: f64,
    /// Rounds; None where 400 are not enough.
    pub rounds: Option<usize>,
}

/// The probability with which an effect is to be seen.
const POWER: f64 = 0.8;
/// The error that each rule is allowed.
const ALPHA: f64 = 0.05;

/// How many rounds each rule needs at equal error.
///
/// The threshold of the other tools is the 95% quantile of their statistic on simulated identical variants, so
/// that none gains by erring more often. fsarena's rule needs no such help.
pub fn rounds_needed(effects: &[f64], runs: usize, seed: u64) -> Vec<RoundsNeeded> {
    let mut all = Vec::new();
    for drifts in [false, true] {
        let needs =
            |tool| move |(effect, rounds): (&f64, _)| RoundsNeeded { tool, drifts, effect: *effect, rounds };
        let own = effects.iter().map(|effect| (effect, sequential(drifts, *effect, runs, seed)));
        all.extend(own.map(needs(None)));
        for tool in Tool::ALL {
            let found = tool_needs(tool, drifts, effects, runs, seed);
            all.extend(effects.iter().zip(found).map(needs(Some(tool))));
        }
    }
    all
}

/// The look by which four of five runs of fsarena's rule have told the variants apart.
fn sequential(drifts: bool, effect: f64, runs: usize, seed: u64) -> Option<usize> {
    let mut stopped = parallel(runs, |run| {
        let mut rng = stream(seed, run);
        let d = randomised(drifts, effect.ln_1p(), &mut rng);
        found_at(&d).unwrap_or(usize::MAX)
    });
    stopped.sort_unstable();
    Some(stopped[(POWER * runs as f64).ceil() as usize - 1]).filter(|n| *n != usize::MAX)
}

/// d of as many rounds as there may be: two neighbouring measurements, in random order.
fn randomised(drifts: bool, theta: f64, rng: &mut impl Rng) -> Vec<f64> {
    let x = series(drifts, 2 * LOOKS[LOOKS.len() - 1].n, rng);
    x.chunks_exact(2)
        .map(|pair| if rng.random() { pair[1] - pair[0] } else { pair[0] - pair[1] } + theta)
        .collect()
}

/// For each effect the smallest number of rounds with which the tool sees it in four of five runs.
fn tool_needs(tool: Tool, drifts: bool, effects: &[f64], runs: usize, seed: u64) -> Vec<Option<usize>> {
    let mut needed = vec![None; effects.len()];
    for look in LOOKS {
        let statistics = |theta: f64| {
            parallel(runs, |run| {
                let mut x = series(drifts, 2 * look.n, &mut stream(mix(seed, look.n as u64), run));
                x[look.n..].iter_mut().for_each(|x| *x += theta);
                tool.statistic(&x[..look.n], &x[look.n..])
            })
        };
        let null = sorted(statistics(0.0));
        let threshold = null[((1.0 - ALPHA) * runs as f64) as usize];
        for (effect, needed) in effects.iter().zip(&mut needed).filter(|(_, needed)| needed.is_none()) {
            let seen = statistics(effect.ln_1p()).into_iter().filter(|s| *s > threshold).count();
            *needed = (seen as f64 >= POWER * runs as f64).then_some(look.n);
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_ruins_what_measures_one_variant_after_the_other() {
        let rates = error_rates(200, 1);
        for rate in &rates {
            assert!(rate.white < 0.2 && rate.drift >= rate.white, "{rate:?}");
        }
        let long = rates.iter().find(|rate| rate.rounds == 100).unwrap();
        assert!(long.drift > 0.5, "{long:?}");
    }

    #[test]
    fn drift_does_not_make_fsarena_need_more_rounds() {
        let needed = |drifts| sequential(drifts, 0.02, 100, 1).unwrap();
        assert!(needed(true) <= needed(false) * 2, "{} {}", needed(true), needed(false));
        assert_eq!(sequential(false, 0.000_1, 20, 1), None);
        assert_eq!(tool_needs(Tool::Hyperfine, false, &[0.1], 50, 1), [Some(8)]);
    }
}
