//! The statistical rules of fsarena, and simulated runs in which they can err.

use super::noise::{Noise, Order, SD, normal, simulate_log_ratios};
use super::search::{CostDifferences, advice_errs, simulate_search};
use super::{ALPHA, ROUNDS, bisect};
use crate::average::median;
use crate::change_point::{SHORTEST_SEGMENT, alarm_error_divisor, e_divisive, is_same_change};
use crate::critical_values::{LOOKS, Look, cautious_critical_value};
use crate::evalue::Evidence;
use crate::gate::{gate_claim_outcome, gate_outcome};
use crate::hodges_lehmann::WalshAverages;
use crate::sequential::{excludes_zero, rounds_at_first_look_where, rounds_to_find_difference};
use crate::verdict::Outcome;
use fsarena_core::number::plural;
use rand::Rng;

/// The margin of claims of equivalence and of gates, as a fraction.
const MARGIN: f64 = 0.01;
/// The true effect in simulations of coverage, as a fraction.
const EFFECT: f64 = 0.05;
/// The numbers of aged images of simulated runs. The first is the smallest number with a verdict.
pub(super) const IMAGE_COUNTS: [usize; 3] = [8, 24, 60];
/// The standard deviation of the constant by which an aged image shifts every log ratio that is measured on it: three times the
/// noise of a measurement.
const IMAGE_EFFECT_SD: f64 = 3.0 * SD;
/// The number of runs of a history.
const HISTORY_RUNS: usize = 24;
/// The number of rounds of each run of a history.
const ROUNDS_OF_HISTORY_RUN: usize = 8;
/// The standard deviation of the change of a history's level from one run to the next, in units of the noise: large enough that
/// the search finds many changes.
const HISTORY_STEP_SD: f64 = 0.5;

/// A statistical rule. The comment of each variant describes how the rule errs in a run of up to 400 rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatisticalRule {
    /// The group-sequential signed-rank test finds a difference between identical variants at some look.
    Sequential,
    /// The e-value of identical variants reaches 20 after some round.
    EValue,
    /// Variants that differ by exactly the margin are called equivalent at some look.
    Equivalence,
    /// The 95% interval of variants that differ by 5% excludes the true difference at some look.
    Coverage,
    /// At the look that decides it, a gate passes although one of its tasks is slower by exactly the margin, or fails although
    /// none is slower by more.
    Gate {
        /// The number of tasks.
        tasks: usize,
        /// Whether the error is that the gate passes; otherwise that it fails.
        passing_is_error: bool,
    },
    /// In a history whose level wanders from run to run, the fresh rounds of an alarm confirm a change, although in them the
    /// levels before and after it differ by only half of the change that the history shows.
    History,
    /// At some look, a bound of ln(cost of a variant/cost of the best) is below the truth.
    Regret {
        /// The number of variants.
        variants: usize,
        /// Whether the noise of the other variants is up to three times as large as the noise of the best; otherwise it is
        /// equal.
        has_unequal_noise: bool,
    },
    /// A run that searches for the best variant eliminates it, or reports too low a regret, at some look.
    Best(CostDifferences),
    /// Advice consists of two runs that share the error. One of them eliminates its best variant, or reports too low a regret,
    /// at some look.
    Advice,
    /// Identical variants are called different at some look. Each round begins with the next aged image.
    Images {
        /// The number of images.
        count: usize,
        /// Whether a value is the mean of all rounds on an image. Otherwise it is one round: a control that shows the fault of
        /// counting rounds, because it errs more often than 5%.
        uses_means_of_images: bool,
    },
    /// A bisection of 64 candidates in order of time has a wrong result. If the cost changes at one of them, it ends at another
    /// candidate or finds no change. If all cost the same, it finds a change.
    Bisect {
        /// Whether the cost steps up at one of them; otherwise all cost the same.
        has_change: bool,
    },
}

impl StatisticalRule {
    /// All rules that the self-test checks under every noise.
    pub fn all() -> Vec<StatisticalRule> {
        use StatisticalRule::{
            Advice, Best, Bisect, Coverage, EValue, Equivalence, Gate, History, Images, Regret, Sequential,
        };
        let mut rules = vec![Sequential, EValue, Equivalence, Coverage];
        for has_unequal_noise in [false, true] {
            rules.extend([2, 5, 8].map(|variants| Regret { variants, has_unequal_noise }));
        }
        rules.extend(CostDifferences::ALL.map(Best));
        rules.push(Advice);
        for passing_is_error in [true, false] {
            rules.extend([1, 8].map(|tasks| Gate { tasks, passing_is_error }));
        }
        rules.extend(IMAGE_COUNTS.map(|count| Images { count, uses_means_of_images: true }));
        rules.extend([true, false].map(|has_change| Bisect { has_change }));
        rules.push(History);
        rules
    }

    /// Its name in reports.
    pub fn name(self) -> String {
        match self {
            StatisticalRule::Sequential => "group-sequential, identical variants".into(),
            StatisticalRule::EValue => "e-value after every round, identical variants".into(),
            StatisticalRule::Equivalence => "equivalence at its margin".into(),
            StatisticalRule::Coverage => "interval misses the effect at some look".into(),
            StatisticalRule::Gate { tasks, passing_is_error } => {
                let error =
                    if passing_is_error { "passes a task at its margin" } else { "fails tasks at their margin" };
                format!("gate of {} {error}", plural(tasks, "task"))
            }
            StatisticalRule::Best(differences) => format!("best of 8 variants, {}", differences.name()),
            StatisticalRule::Images { count, uses_means_of_images: true } => {
                format!("{count} aged images, identical variants")
            }
            StatisticalRule::Images { count, uses_means_of_images: false } => {
                format!("{count} aged images, ROUNDS AS IF INDEPENDENT")
            }
            StatisticalRule::History => format!("history of {} runs, confirms half a change", HISTORY_RUNS),
            StatisticalRule::Advice => "advice: 4 filesystems, then the options of the best".into(),
            StatisticalRule::Bisect { has_change: true } => "bisection of 64 candidates ends at a wrong one".into(),
            StatisticalRule::Bisect { has_change: false } => "bisection of 64 equal candidates finds one".into(),
            StatisticalRule::Regret { variants, has_unequal_noise } => {
                format!("regret of {variants} variants, {} noise", if has_unequal_noise { "unequal" } else { "equal" })
            }
        }
    }

    /// The number of runs to simulate for this rule, so that slow rules take about as long as a rule for two variants. `runs`
    /// is the number of runs for a rule for two variants.
    pub(super) fn run_count(self, runs: usize) -> usize {
        match self {
            StatisticalRule::Regret { variants, .. } => (runs / (variants - 1)).max(1),
            // With fewer runs of several tasks, chance alone would exceed the tolerance.
            StatisticalRule::Gate { tasks, .. } => (2 * runs / (tasks + 1)).max(1),
            StatisticalRule::Best(_) | StatisticalRule::Advice | StatisticalRule::History => (runs / 20).max(1),
            StatisticalRule::Bisect { .. } => (runs / 8).max(1),
            _ => runs,
        }
    }

    /// Whether the rule errs in a simulated run.
    pub(super) fn errs(self, noise: Noise, order: Order, rng: &mut impl Rng) -> bool {
        match self {
            StatisticalRule::Sequential => {
                rounds_to_find_difference(&simulate_log_ratios(noise, order, ROUNDS, rng)).is_some()
            }
            StatisticalRule::EValue => {
                let mut evidence = Evidence::against(0.0);
                simulate_log_ratios(noise, order, ROUNDS, rng).into_iter().any(|d| {
                    evidence.push(d);
                    evidence.value() * ALPHA >= 1.0
                })
            }
            StatisticalRule::Equivalence => {
                let log_margin = MARGIN.ln_1p();
                // Two one-sided tests at 0.05 each: the 90% interval lies within the margin (`c10`).
                let lies_within = |walsh: &WalshAverages, look: &Look| {
                    walsh.lies_above(look.c10, -log_margin) && walsh.lies_below(look.c10, log_margin)
                };
                rounds_at_first_look_where(&shifted_log_ratios(log_margin, noise, order, rng), lies_within).is_some()
            }
            StatisticalRule::Coverage => {
                let truth = EFFECT.ln_1p();
                // The 95% interval (`c05`) excludes the truth.
                let misses = |walsh: &WalshAverages, look: &Look| walsh.excludes(look.c05, truth);
                rounds_at_first_look_where(&shifted_log_ratios(truth, noise, order, rng), misses).is_some()
            }
            StatisticalRule::Gate { tasks, passing_is_error } => gate_errs(tasks, passing_is_error, noise, rng),
            StatisticalRule::History => history_errs(noise, alarm_error_divisor, rng),
            StatisticalRule::Regret { variants, has_unequal_noise } => {
                regret_errs(variants, has_unequal_noise, noise, order, rng)
            }
            StatisticalRule::Best(differences) => simulate_search(differences, noise, rng).0.erred,
            StatisticalRule::Advice => advice_errs(noise, rng),
            StatisticalRule::Images { count, uses_means_of_images } => {
                images_err(count, uses_means_of_images, noise, rng)
            }
            StatisticalRule::Bisect { has_change } => bisect::bisection_errs(has_change, noise, rng),
        }
    }
}

/// The log ratios of a run of two variants whose true log ratio is `truth`.
fn shifted_log_ratios(truth: f64, noise: Noise, order: Order, rng: &mut impl Rng) -> Vec<f64> {
    simulate_log_ratios(noise, order, ROUNDS, rng).into_iter().map(|d| d + truth).collect()
}

/// Whether a bound of ln(cost of variant 0/cost of the best) is below 0 at some look: all variants cost the same.
fn regret_errs(variants: usize, has_unequal_noise: bool, noise: Noise, order: Order, rng: &mut impl Rng) -> bool {
    let noise_of_best = simulate_log_ratios(noise, order, ROUNDS, rng);
    (1..variants).any(|rival| {
        let size = if has_unequal_noise { 1.0 + 2.0 * rival as f64 / (variants - 1) as f64 } else { 1.0 };
        let noise_of_rival = simulate_log_ratios(noise, order, ROUNDS, rng);
        let d: Vec<f64> = noise_of_rival.iter().zip(&noise_of_best).map(|(rival, best)| size * rival - best).collect();
        let is_below_truth = |walsh: &WalshAverages, look: &Look| {
            cautious_critical_value(look.rounds, variants - 1).is_some_and(|critical| walsh.lies_below(critical, 0.0))
        };
        rounds_at_first_look_where(&d, is_below_truth).is_some()
    })
}

/// Whether a gate errs. If passing is the error, one task is slower by exactly the margin and the others are equal; if failing
/// is the error, all tasks are slower by exactly the margin.
fn gate_errs(tasks: usize, passing_is_error: bool, noise: Noise, rng: &mut impl Rng) -> bool {
    let log_margin = MARGIN.ln_1p();
    let error = if passing_is_error { Outcome::Held } else { Outcome::Refuted };
    let simulate_task = |task| {
        let log_ratio = if task == 0 || !passing_is_error { log_margin } else { 0.0 };
        shifted_log_ratios(log_ratio, noise, Order::Random, rng)
    };
    let d_by_task: Vec<Vec<f64>> = (0..tasks).map(simulate_task).collect();
    let outcome = |rounds| gate_outcome(d_by_task.iter().map(|d| outcome_after(d, rounds, log_margin, tasks)));
    first_decision(outcome) == Some(error)
}

/// The outcome of the claim that the true log ratio is at most `log_margin`, after the first `rounds` of the log ratios `d`.
/// `error_split` is the number of claims that share the error.
fn outcome_after(d: &[f64], rounds: usize, log_margin: f64, error_split: usize) -> Outcome {
    let walsh = WalshAverages::new(d[..rounds].to_vec());
    walsh.map_or(Outcome::Inconclusive, |walsh| gate_claim_outcome(&walsh, log_margin, error_split))
}

/// The outcome at the first look that decides. None if the last look does not.
fn first_decision(outcome_after: impl Fn(usize) -> Outcome) -> Option<Outcome> {
    let outcomes = LOOKS.iter().map(|look| outcome_after(look.rounds));
    outcomes.into_iter().find(|outcome| *outcome != Outcome::Inconclusive)
}

/// Whether identical variants are called different at some look in a run that uses this number of aged images in turn. An image
/// favours one of the variants by chance, and every later round on it favours the same one. If `uses_means_of_images`, each
/// value is the mean of all rounds on an image, and after each image has had one round, a look follows each complete pass over
/// the images. Otherwise each value is a round, as if rounds on the same image were independent.
fn images_err(images: usize, uses_means_of_images: bool, noise: Noise, rng: &mut impl Rng) -> bool {
    let image_effects: Vec<f64> = (0..images).map(|_| IMAGE_EFFECT_SD * normal(rng)).collect();
    let mut d = simulate_log_ratios(noise, Order::Random, ROUNDS, rng);
    d.iter_mut().zip(image_effects.iter().cycle()).for_each(|(d, effect)| *d += effect);
    if !uses_means_of_images {
        return rounds_to_find_difference(&d).is_some();
    }
    let mut sums = vec![0.0; images];
    let mut finds_difference_after = |pass: usize, d_of_pass: &[f64]| {
        sums.iter_mut().zip(d_of_pass).for_each(|(sum, d)| *sum += d);
        let means = sums.iter().map(|sum| sum / (pass + 1) as f64).collect();
        WalshAverages::new(means).is_some_and(|walsh| excludes_zero(&walsh))
    };
    // In the first pass each round is a new image. Later passes only average out the noise of the rounds. The shifts of the
    // images stay, so each further look nearly repeats the same test, and the error hardly grows.
    rounds_to_find_difference(&d[..images]).is_some()
        || d.chunks_exact(images).enumerate().any(|(pass, d_of_pass)| finds_difference_after(pass, d_of_pass))
}

/// Whether fresh rounds wrongly confirm some change of a history, which is searched after each run. In the fresh rounds of each
/// alarm, the levels before and after it differ by exactly half of the change that the history shows: the largest difference
/// that must not confirm it. Alarm k, counted from 1, may spend 1/`error_divisor(k)` of the error.
fn history_errs(noise: Noise, error_divisor: fn(u32) -> u32, rng: &mut impl Rng) -> bool {
    let mut level = 0.0;
    let mut levels = vec![];
    for rounds in simulate_log_ratios(noise, Order::Random, HISTORY_RUNS * ROUNDS_OF_HISTORY_RUN, rng)
        .chunks(ROUNDS_OF_HISTORY_RUN)
    {
        level += HISTORY_STEP_SD * SD * normal(rng);
        levels.push(level + median(rounds).unwrap_or(0.0));
    }
    let mut alarms: Vec<(usize, bool)> = vec![];
    for runs in 2 * SHORTEST_SEGMENT..=HISTORY_RUNS {
        for (index, change) in history_changes(&levels[..runs]) {
            let alarm = (index, change > 0.0);
            if alarms.iter().any(|known| is_same_change(*known, alarm)) {
                continue;
            }
            alarms.push(alarm);
            let (half, error_split) = (change.abs() / 2.0, error_divisor(alarms.len() as u32) as usize);
            let d = shifted_log_ratios(half, noise, Order::Random, rng);
            if first_decision(|rounds| outcome_after(&d, rounds, half, error_split)) == Some(Outcome::Refuted) {
                return true;
            }
        }
    }
    false
}

/// The changes of a history with these levels. For each change: the index of its first run, and its size, which is the median
/// of the runs from this change to the next one minus the median of the runs from the previous change to this one.
fn history_changes(levels: &[f64]) -> Vec<(usize, f64)> {
    let splits = e_divisive(levels).into_iter().map(|split| split.index);
    let ends: Vec<usize> = std::iter::once(0).chain(splits).chain([levels.len()]).collect();
    let mut changes = vec![];
    for segment_ends in ends.windows(3) {
        let (start, split, end) = (segment_ends[0], segment_ends[1], segment_ends[2]);
        let medians = median(&levels[start..split]).zip(median(&levels[split..end]));
        changes.push((split, medians.map_or(0.0, |(before, after)| after - before)));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{count_runs, run_rng};

    #[test]
    fn false_confirmations_are_rare_only_if_alarms_share_the_error() {
        let wrong_runs =
            |error_divisor| count_runs(400, |run| history_errs(Noise::Normal, error_divisor, &mut run_rng(1, run)));
        let (divided, undivided) = (wrong_runs(alarm_error_divisor), wrong_runs(|_| 1));
        assert!(divided <= 20 && undivided >= 2 * divided, "{divided} {undivided}");
    }
}
