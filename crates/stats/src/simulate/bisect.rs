//! Simulates bisections by time: how often one ends at a wrong candidate.

use super::noise::{Noise, SD, simulate_measurements};
use crate::bisect::{StepRound, judge_confirmation, judge_ends, judge_step, rounds_at_next_look};
use crate::critical_values::LAST_LOOK_ROUNDS;
use fsarena_core::bisect::{ComparisonResult, worst_case_steps};
use fsarena_core::claim::{ClaimOperator, PairRelation, RightSide};
use rand::{Rng, RngExt};

/// The candidates after GOOD.
const CANDIDATES: usize = 64;
/// The sizes of the step in ln(cost), in units of the noise of a measurement.
const STEP_SIZES: [f64; 5] = [0.2, 0.5, 1.0, 2.0, 4.0];

/// How a simulated bisection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectionEnd {
    /// At the candidate with this number.
    Found(usize),
    /// Without a change between the ends.
    NoChange,
    /// Undecided after the last look.
    Inconclusive,
}

/// Whether a simulated bisection of 64 candidates errs. If `has_change`, the cost steps up at a random one of them, the last
/// included, by one of `STEP_SIZES`, and the margin is half of that: to find another candidate or no change is an error.
/// Otherwise all cost the same, and to find one is an error.
pub fn bisection_errs(has_change: bool, noise: Noise, rng: &mut impl Rng) -> bool {
    let size = SD * STEP_SIZES[rng.random_range(0..STEP_SIZES.len())];
    let first_bad = rng.random_range(1..=CANDIDATES);
    let step = if has_change { size } else { 0.0 };
    match bisect(noise, first_bad, step, size / 2.0, judge_step, rng) {
        BisectionEnd::Found(found) => !has_change || found != first_bad,
        BisectionEnd::NoChange => has_change,
        BisectionEnd::Inconclusive => false,
    }
}

/// A function that judges the rounds of a step: [`judge_step`], or another one in tests.
type StepJudge = fn(&[StepRound], f64, usize) -> Option<ComparisonResult>;

/// A bisection whose cost steps up by `step`, a logarithm, at the candidate `first_bad`; `margin` is a logarithm too.
fn bisect(
    noise: Noise,
    first_bad: usize,
    step: f64,
    margin: f64,
    judge: StepJudge,
    rng: &mut impl Rng,
) -> BisectionEnd {
    let log_cost = |candidate: usize| if candidate >= first_bad { step } else { 0.0 };
    let error_split = worst_case_steps(CANDIDATES) + 2;
    let right = RightSide::Variant("baseline".into());
    let percent = Some(100.0 * margin.exp_m1());
    let pair = PairRelation { left: "candidate".into(), op: ClaimOperator::AtMost, factor: 1.0, right, percent };
    let ends = measure_until_decided(noise, error_split, &[0.0, log_cost(CANDIDATES)], rng, |rounds| {
        judge_ends(&pair, &log_ratios(rounds), 0.0, error_split)
    });
    match ends {
        Some(ComparisonResult::More) => {}
        Some(_) => return BisectionEnd::NoChange,
        None => return BisectionEnd::Inconclusive,
    }
    let (mut good, mut bad) = (0, CANDIDATES);
    while bad - good > 1 {
        let candidate = (good + bad) / 2;
        let costs = [0.0, log_cost(candidate), log_cost(CANDIDATES)];
        let judge_step = |rounds: &[Vec<f64>]| {
            let rounds: Vec<[f64; 3]> = rounds.iter().map(|round| [round[0], round[1], round[2]]).collect();
            judge(&rounds, 1.0, error_split)
        };
        match measure_until_decided(noise, error_split, &costs, rng, judge_step) {
            Some(ComparisonResult::Good) => good = candidate,
            Some(_) => bad = candidate,
            None => return BisectionEnd::Inconclusive,
        }
    }
    let confirmed = measure_until_decided(noise, error_split, &[log_cost(good), log_cost(bad)], rng, |rounds| {
        judge_confirmation(&log_ratios(rounds), 1.0, 2.0 * margin, error_split)
    });
    match confirmed {
        Some(ComparisonResult::Confirmed) => BisectionEnd::Found(bad),
        _ => BisectionEnd::Inconclusive,
    }
}

/// ln(second/first) of each round.
fn log_ratios(rounds: &[Vec<f64>]) -> Vec<f64> {
    rounds.iter().map(|round| round[1] - round[0]).collect()
}

/// Simulates rounds of candidates until `judge` decides at a look. `costs` has ln(cost) of each candidate without noise. None
/// if the last look does not decide.
fn measure_until_decided(
    noise: Noise,
    error_split: usize,
    costs: &[f64],
    rng: &mut impl Rng,
    judge: impl Fn(&[Vec<f64>]) -> Option<ComparisonResult>,
) -> Option<ComparisonResult> {
    let logs = simulate_measurements(&vec![(noise, 1.0); costs.len()], LAST_LOOK_ROUNDS, rng);
    let round = |number: usize| costs.iter().zip(&logs).map(|(cost, logs)| cost + logs[number]).collect();
    let mut rounds: Vec<Vec<f64>> = vec![];
    while let Some(look) = rounds_at_next_look(rounds.len(), error_split) {
        rounds.extend((rounds.len()..look).map(round));
        let result = judge(&rounds);
        if result.is_some() {
            return result;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::run_rng;
    use super::*;

    fn end_of_bisection(first_bad: usize, step: f64, judge: StepJudge) -> BisectionEnd {
        bisect(Noise::Normal, first_bad, step * SD, 5.0 * SD, judge, &mut run_rng(1, first_bad as u64))
    }

    #[test]
    fn a_large_step_is_found_wherever_it_is() {
        for first_bad in [1, 2, 33, 63, 64] {
            assert_eq!(end_of_bisection(first_bad, 10.0, judge_step), BisectionEnd::Found(first_bad));
        }
        assert_eq!(end_of_bisection(9, 0.0, judge_step), BisectionEnd::NoChange);
    }

    #[test]
    fn the_confirmation_notices_a_wrong_step() {
        assert_eq!(end_of_bisection(9, 10.0, |_, _, _| Some(ComparisonResult::Good)), BisectionEnd::Inconclusive);
        assert_eq!(end_of_bisection(9, 10.0, |_, _, _| Some(ComparisonResult::Bad)), BisectionEnd::Inconclusive);
    }
}
