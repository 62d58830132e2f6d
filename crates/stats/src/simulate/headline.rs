//! Simulates the headline of a report: how often it recommends a variant that is more than 5% worse than the best, and how soon
//! it recommends a variant.
//!
//! Variant 0 is the best, and all others are worse by the same gap. The gap is defined by the pseudo-median of the log ratios
//! (the typical ratio in the headline). If the shapes of the noise differ, a long simulation determines the pseudo-median.

use super::noise::{Noise, SD, simulate_measurements};
use super::{ErrorCount, PromiseState, ROUNDS, count_runs, in_parallel, lower_limit_of_largest, run_rng, upper_limit};
use crate::average::median;
use crate::critical_values::{LOOKS, cautious_critical_value};
use crate::decision::{MAX_REGRET, Recommendation};
use crate::hodges_lehmann::WalshAverages;
use crate::regret::Regrets;
use fsarena_core::sample::Direction;
use fsarena_core::schedule::mix;

/// The spreads of a measurement, in units of [`SD`], which is 1%.
const SPREADS: [f64; 3] = [1.0, 10.0, 40.0];
/// The gaps between the best and the others in simulations of wrong recommendations. All are above 5%, so that to recommend one
/// of the others is wrong.
const WRONG_GAPS: [f64; 3] = [0.0501, 0.08, 0.2];
/// The numbers of variants in these simulations. With three, the first bounds spend more than half the level.
const VARIANT_COUNTS: [usize; 3] = [2, 3, 4];
/// The numbers of variants in simulations of how soon a difference is found.
const TIMELY_VARIANT_COUNTS: [usize; 2] = [2, 4];
/// The variants that the user runs now: none, the best, or one of the others.
const CURRENT_VARIANTS: [Option<usize>; 3] = [None, Some(0), Some(1)];
/// The number of kinds of runs in simulations of wrong recommendations. Reports show only the worst of them.
const KIND_COUNT: usize = Noise::TESTED.len()
    * SPREADS.len()
    * WRONG_GAPS.len()
    * VARIANT_COUNTS.len()
    * CURRENT_VARIANTS.len()
    * Shapes::ALL.len();
/// How much larger the noise of a noisy variant is.
const NOISY_FACTOR: f64 = 3.0;
/// The largest accepted share of runs that recommend a wrong variant: 5%, and 1% for the error of the simulation.
const MAX_WRONG: f64 = 0.06;
/// The share of runs that must have a recommendation.
const MIN_TIMELY: f64 = 0.9;
/// The margin of equivalence, which is the default of `--margin`.
const MARGIN: f64 = 0.01;

fsarena_core::named_enum! {
    /// How the noise of the best variant differs from the noise of the others.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Shapes {
        /// All have the same noise.
        Equal = "alike",
        /// The noise of the others is three times as large.
        NoisyRivals = "rivals 3 times as noisy",
        /// The noise of the best is three times as large.
        NoisyBest = "best 3 times as noisy",
        /// The noise of the best is normal.
        PlainBest = "best normal",
        /// The noise of the others is normal.
        PlainRivals = "rivals normal",
    }
}

impl Shapes {
    /// The noise of each variant, and its size.
    fn noises(self, noise: Noise, variants: usize) -> Vec<(Noise, f64)> {
        let (best, rival) = match self {
            Shapes::Equal => ((noise, 1.0), (noise, 1.0)),
            Shapes::NoisyRivals => ((noise, 1.0), (noise, NOISY_FACTOR)),
            Shapes::NoisyBest => ((noise, NOISY_FACTOR), (noise, 1.0)),
            Shapes::PlainBest => ((Noise::Normal, 1.0), (noise, 1.0)),
            Shapes::PlainRivals => ((noise, 1.0), (Noise::Normal, 1.0)),
        };
        std::iter::once(best).chain(std::iter::repeat_n(rival, variants - 1)).collect()
    }
}

/// How many runs of one kind recommended a variant that is more than 5% worse than the best at some look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WrongRecommendations {
    /// The noise.
    pub noise: Noise,
    /// The spread of a measurement, as a fraction.
    pub spread: f64,
    /// How the noise differs between variants.
    pub shapes: Shapes,
    /// The number of variants.
    pub variants: usize,
    /// By how much the others are worse than the best, as a fraction.
    pub gap: f64,
    /// The variant that the user runs now.
    pub current: Option<usize>,
    /// In how many runs the recommendation was wrong.
    pub errors: ErrorCount,
}

impl WrongRecommendations {
    /// The state of the promise; None for noise without a promise (two speeds). This is the worst of all kinds of runs, so only
    /// a limit that holds for all of them at once can show that the promise is broken.
    pub fn state(&self) -> Option<PromiseState> {
        let ErrorCount { wrong, runs } = self.errors;
        Noise::TESTED.contains(&self.noise).then(|| match self.errors.state(MAX_WRONG) {
            PromiseState::Broken if lower_limit_of_largest(wrong, runs, KIND_COUNT) <= MAX_WRONG => PromiseState::Open,
            state => state,
        })
    }
}

/// For each noise and spread, finds the kind of run that errs most often.
pub fn simulate_wrong_recommendations(runs: usize, seed: u64) -> Vec<WrongRecommendations> {
    let worst_of_noise = |noise: Noise| {
        let kinds = VARIANT_COUNTS.into_iter().flat_map(|variants| Shapes::ALL.map(|shapes| (variants, shapes)));
        let all: Vec<WrongRecommendations> =
            kinds.flat_map(|(variants, shapes)| simulate_kind(noise, shapes, variants, runs, seed)).collect();
        SPREADS.into_iter().filter_map(move |spread| {
            let with_spread = all.iter().filter(|kind| kind.spread == spread * SD);
            with_spread.copied().max_by_key(|kind| kind.errors.wrong)
        })
    };
    Noise::ALL.into_iter().flat_map(worst_of_noise).collect()
}

/// The parameters of one simulated case that do not change its noise.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// The spread of a measurement, in units of [`SD`].
    spread: f64,
    /// By how much the others are worse than the best, as a fraction.
    gap: f64,
    /// The variant that the user runs now.
    current: Option<usize>,
}

/// Every combination of spread, gap and current variant.
fn all_cases() -> Vec<Case> {
    let mut cases = vec![];
    for spread in SPREADS {
        for gap in WRONG_GAPS {
            cases.extend(CURRENT_VARIANTS.map(|current| Case { spread, gap, current }));
        }
    }
    cases
}

/// Simulates every case for one noise, shape and number of variants.
fn simulate_kind(noise: Noise, shapes: Shapes, variants: usize, runs: usize, seed: u64) -> Vec<WrongRecommendations> {
    let noises = shapes.noises(noise, variants);
    let seed = mix(seed, mix(noise as u64, 100 * shapes as u64 + variants as u64));
    let centre = pseudo_median(&noises, (200 * runs).clamp(20_000, 1_000_000), seed);
    let cases = all_cases();
    let errs_in_cases = |run: u64| {
        let mut logs = simulate_measurements(&noises, ROUNDS, &mut run_rng(seed, run));
        logs[1..].iter_mut().flatten().for_each(|log| *log -= centre);
        errs_by_case(&logs, &cases)
    };
    let erred = in_parallel(runs, errs_in_cases);
    let count_errors = |(index, Case { spread, gap, current }): (usize, Case)| {
        let errors = ErrorCount { wrong: erred.iter().filter(|run| run[index]).count(), runs };
        WrongRecommendations { noise, spread: spread * SD, shapes, variants, gap, current, errors }
    };
    cases.iter().copied().enumerate().map(count_errors).collect()
}

/// Estimates the pseudo-median of ln(cost of a rival/cost of the best) from this number of rounds.
fn pseudo_median(noises: &[(Noise, f64)], rounds: usize, seed: u64) -> f64 {
    let logs = simulate_measurements(&noises[..2], rounds, &mut run_rng(seed, u64::MAX));
    let d: Vec<f64> = logs[1].iter().zip(&logs[0]).map(|(rival, best)| rival - best).collect();
    // The pseudo-median is the median of the means of two independent rounds; rounds half a simulation apart are independent.
    let (first, second) = d.split_at(rounds / 2);
    let averages: Vec<f64> = first.iter().zip(second).map(|(a, b)| (a + b) / 2.0).collect();
    median(&averages).unwrap_or(0.0)
}

/// Whether the run recommends a wrong variant at some look, for each case. Each look computes the bounds once and rescales them
/// for each case: the noise is proportional to the spread, and the gap only adds to the rivals' costs.
fn errs_by_case(logs: &[Vec<f64>], cases: &[Case]) -> Vec<bool> {
    let mut erred = vec![false; cases.len()];
    // A wrong variant can be recommended only if the upper bound of a rival's log cost relative to the best is at most
    // ln(1.05). This is the largest bound for that before it is rescaled, over all cases.
    let largest_bound = |case: &Case| (MAX_REGRET.ln_1p() - case.gap.ln_1p()) / case.spread;
    let largest_bound = cases.iter().map(largest_bound).fold(f64::NEG_INFINITY, f64::max);
    for look in LOOKS {
        let Some(critical) = cautious_critical_value(look.rounds, logs.len() - 1) else { continue };
        let may_err = logs[1..].iter().any(|rival| {
            let d = rival.iter().zip(&logs[0]).take(look.rounds).map(|(rival, best)| rival - best).collect();
            WalshAverages::new(d).is_some_and(|walsh| walsh.lies_below(critical, largest_bound))
        });
        if !may_err {
            continue;
        }
        let regrets = regrets_after(logs, look.rounds);
        for (case, erred) in cases.iter().zip(&mut erred) {
            let recommendation = recommend(&regrets, case);
            *erred |= newly_recommended(&recommendation).iter().any(|variant| *variant > 0);
        }
    }
    erred
}

/// The regrets after some rounds.
fn regrets_after(logs: &[Vec<f64>], rounds: usize) -> Regrets {
    let values: Vec<Vec<f64>> = logs.iter().map(|logs| logs[..rounds].iter().map(|log| log.exp()).collect()).collect();
    Regrets::compute(&values, &[], Direction::Lower, 1)
}

/// The recommendation in a case, from regrets at spread 1 and without a gap.
fn recommend(regrets: &Regrets, case: &Case) -> Option<Recommendation> {
    let regrets = regrets.rescaled(case.spread, |variant| if variant == 0 { 0.0 } else { case.gap.ln_1p() });
    let candidates: Vec<usize> = (0..regrets.len()).collect();
    Recommendation::from_regrets(&regrets, &candidates, case.current, MARGIN.ln_1p())
}

/// The recommended variants. Advice to keep the current variant does not count as a recommendation.
fn newly_recommended(recommendation: &Option<Recommendation>) -> Vec<usize> {
    match recommendation {
        None | Some(Recommendation::Keep { .. }) => vec![],
        Some(recommendation) => recommendation.recommended(),
    }
}

/// How many runs of one kind recommended the best variant in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelyRecommendations {
    /// The noise of all variants.
    pub noise: Noise,
    /// The spread of a measurement, as a fraction.
    pub spread: f64,
    /// By how much the others are worse than the best, as a fraction.
    pub gap: f64,
    /// The round by which the best must be recommended.
    pub by_round: usize,
    /// The number of variants.
    pub variants: usize,
    /// The number of runs that recommended the best by then.
    pub timely: usize,
    /// The number of runs.
    pub runs: usize,
}

impl TimelyRecommendations {
    /// The share of runs that recommended the best in time.
    pub fn rate(&self) -> f64 {
        self.timely as f64 / self.runs as f64
    }

    /// The state of the promise; None unless the noise is normal or exponential, because the standard deviation of other noise
    /// is many times the spread.
    pub fn state(&self) -> Option<PromiseState> {
        if !matches!(self.noise, Noise::Normal | Noise::Exponential) {
            None
        } else if self.rate() >= MIN_TIMELY {
            Some(PromiseState::Kept)
        } else if upper_limit(self.timely, self.runs) < MIN_TIMELY {
            Some(PromiseState::Broken)
        } else {
            Some(PromiseState::Open)
        }
    }
}

/// The differences that must be found: the gap, the spread in units of [`SD`], and the round by which to find it.
const DIFFERENCES_TO_FIND: [(f64, f64, usize); 2] = [(0.05, 1.0, 12), (0.2, 10.0, 24)];

/// Simulates how soon a difference is found, for each noise. In every second run, a rival is the current variant.
pub fn simulate_timely_recommendations(runs: usize, seed: u64) -> Vec<TimelyRecommendations> {
    let kinds = DIFFERENCES_TO_FIND
        .into_iter()
        .flat_map(|difference| TIMELY_VARIANT_COUNTS.map(|variants| (difference, variants)));
    let simulate_kind = |((gap, spread, by_round), variants): ((f64, f64, usize), usize)| {
        Noise::TESTED.map(|noise| {
            let noises = vec![(noise, 1.0); variants];
            let seed = mix(seed, mix(noise as u64, (100 * by_round + variants) as u64));
            let recommends_best = |run: u64| {
                let logs = simulate_measurements(&noises, by_round, &mut run_rng(seed, run));
                let current = (run % 2 == 1).then_some(1);
                LOOKS.iter().filter(|look| look.rounds <= by_round).any(|look| {
                    let recommendation = recommend(&regrets_after(&logs, look.rounds), &Case { spread, gap, current });
                    newly_recommended(&recommendation).contains(&0)
                })
            };
            let timely = count_runs(runs, recommends_best);
            TimelyRecommendations { noise, spread: spread * SD, gap, by_round, variants, timely, runs }
        })
    };
    kinds.flat_map(simulate_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_recommended_if_the_effect_of_the_noise_exceeds_its_gap() {
        let regrets = regrets_after(&[vec![0.0; 12], vec![-0.1; 12]], 12);
        let case = |spread, gap, current| Case { spread, gap, current };
        let is_wrong = |spread, gap| newly_recommended(&recommend(&regrets, &case(spread, gap, None))).contains(&1);
        // The noise makes the rival 10% cheaper at spread 1: with a gap of 20% it still costs more than the best.
        assert_eq!([is_wrong(1.0, 0.08), is_wrong(1.0, 0.2), is_wrong(10.0, 0.2)], [true, false, true]);
        let cases = [case(1.0, 0.08, None), case(1.0, 0.2, None), case(1.0, 0.08, Some(1))];
        assert_eq!(errs_by_case(&[vec![0.0; 400], vec![-0.1; 400]], &cases), [true, false, true]);
    }

    #[test]
    fn few_runs_break_no_promise() {
        let wrong = simulate_wrong_recommendations(10, 1);
        assert_eq!(wrong.len(), 7 * 3);
        assert!(wrong.iter().all(|kind| kind.state() != Some(PromiseState::Broken)), "{wrong:?}");
        let timely = simulate_timely_recommendations(20, 1);
        assert_eq!(timely.len(), 2 * 2 * 6);
        assert!(timely.iter().all(|kind| kind.state() != Some(PromiseState::Broken)), "{timely:?}");
    }

    #[test]
    fn the_pseudo_median_is_not_zero_if_one_noise_is_skewed() {
        // Exponential noise minus normal noise has a pseudo-median of 0.93 standard deviations.
        let centre = pseudo_median(&Shapes::PlainBest.noises(Noise::Exponential, 2), 400_000, 1);
        assert!((centre / SD - 0.93).abs() < 0.02, "{centre}");
        assert!(pseudo_median(&Shapes::Equal.noises(Noise::Exponential, 2), 400_000, 1).abs() < 0.01 * SD);
    }
}
