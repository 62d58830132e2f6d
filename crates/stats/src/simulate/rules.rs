//! The statistical rules of fsarena, and simulated runs in which they can err.

use super::noise::{Noise, Order, SD, normal, simulate_log_ratios};
use super::search::{Effects, advice_errs, simulate_search};
use super::{ALPHA, ROUNDS, bisect};
use crate::average::median;
use crate::change_point::{SHORTEST_SEGMENT, alarm_error_divisor, e_divisive, is_same_change};
use crate::critical_values::{LOOKS, Look, cautious_critical_value};
use crate::evalue::Evidence;
use crate::gate::{gate_claim_outcome, gate_outcome};
use crate::hodges_lehmann::WalshAverages;
use crate::sequential::{excludes_zero, rounds_at_first_look, rounds_to_find_difference};
use crate::verdict::Outcome;
use fsarena_core::number::plural;
use rand::Rng;

/// The margin of claims of equivalence and of gates, as a fraction.
const MARGIN: f64 = 0.01;
/// The true effect in simulations of coverage, as a fraction.
const EFFECT: f64 = 0.05;
/// The numbers of aged images of a run: as many as the first verdict requires, and more.
pub(super) const IMAGE_COUNTS: [usize; 3] = [8, 24, 60];
/// An aged image shifts every log ratio measured on it. The standard deviation of that shift: three times the noise of a
/// measurement.
const IMAGE_EFFECT: f64 = 3.0 * SD;
/// The number of runs of a history.
const HISTORY_RUNS: usize = 24;
/// The number of rounds of each run of a history.
const HISTORY_ROUNDS: usize = 8;
/// The standard deviation of the change of a history's level from one run to the next, in units of the noise: large enough that
/// the search finds many changes.
const HISTORY_STEP: f64 = 0.5;

/// A statistical rule. The comment of each rule says what counts as an error of it in a run of up to 400 rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
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
        /// Whether to pass is the error; otherwise to fail.
        passes: bool,
    },
    /// In a history whose level wanders from run to run, the fresh rounds of an alarm confirm a change, although its two sides
    /// differ by no more than half of it.
    History,
    /// At some look, a bound of ln(cost of a variant/cost of the best) is below the truth.
    Regret {
        /// The number of variants.
        variants: usize,
        /// Whether the noise of the variants grows up to three times the noise of the best; otherwise it is equal.
        unequal: bool,
    },
    /// A run that searches for the best variant eliminates it, or reports too low a regret, at some look.
    Best(Effects),
    /// Advice consists of two runs that share the error. One of them eliminates its best variant, or reports too low a regret,
    /// at some look.
    Advice,
    /// Identical variants are called different at some look. Each round begins with the next aged image.
    Images {
        /// The number of images.
        count: usize,
        /// Whether a value is the mean of an image. Otherwise it is a round: a control, which must err too often.
        grouped: bool,
    },
    /// A bisection of 64 candidates by time ends at a wrong one, or without one.
    Bisect {
        /// Whether the cost steps up at one of them; otherwise all cost the same.
        changed: bool,
    },
}

impl Rule {
    /// All rules that the self-test checks under every noise.
    pub fn all() -> Vec<Rule> {
        let regret = |unequal| [2, 5, 8].map(|variants| Rule::Regret { variants, unequal });
        let pairs = [Rule::Sequential, Rule::EValue, Rule::Equivalence, Rule::Coverage];
        let gates = [(1, true), (8, true), (1, false), (8, false)];
        let gates = gates.map(|(tasks, passes)| Rule::Gate { tasks, passes });
        let regrets = [false, true].into_iter().flat_map(regret);
        pairs
            .into_iter()
            .chain(regrets)
            .chain(Effects::ALL.map(Rule::Best))
            .chain([Rule::Advice])
            .chain(gates)
            .chain(IMAGE_COUNTS.map(|count| Rule::Images { count, grouped: true }))
            .chain([true, false].map(|changed| Rule::Bisect { changed }))
            .chain([Rule::History])
            .collect()
    }

    /// Its name in reports.
    pub fn name(self) -> String {
        match self {
            Rule::Sequential => "group-sequential, identical variants".into(),
            Rule::EValue => "e-value after every round, identical variants".into(),
            Rule::Equivalence => "equivalence at its margin".into(),
            Rule::Coverage => "interval misses the effect at some look".into(),
            Rule::Gate { tasks, passes } => {
                let error = if passes { "passes a task at its margin" } else { "fails tasks at their margin" };
                format!("gate of {} {error}", plural(tasks, "task"))
            }
            Rule::Best(effects) => format!("best of 8 variants, {}", effects.name()),
            Rule::Images { count, grouped: true } => format!("{count} aged images, identical variants"),
            Rule::Images { count, grouped: false } => {
                format!("{count} aged images, ROUNDS AS IF INDEPENDENT")
            }
            Rule::History => format!("history of {} runs, confirms half a change", HISTORY_RUNS),
            Rule::Advice => "advice: 4 filesystems, then the options of the best".into(),
            Rule::Bisect { changed: true } => "bisection of 64 candidates ends at a wrong one".into(),
            Rule::Bisect { changed: false } => "bisection of 64 equal candidates finds one".into(),
            Rule::Regret { variants, unequal } => {
                format!("regret of {variants} variants, {} noise", if unequal { "unequal" } else { "equal" })
            }
        }
    }

    /// The number of runs to simulate for this rule, so that slow rules take about as long as a rule for two variants. `runs`
    /// is the number for those.
    pub(super) fn run_count(self, runs: usize) -> usize {
        match self {
            Rule::Regret { variants, .. } => (runs / (variants - 1)).max(1),
            // With fewer runs of several tasks, chance alone would exceed the tolerance.
            Rule::Gate { tasks, .. } => (2 * runs / (tasks + 1)).max(1),
            Rule::Best(_) | Rule::Advice | Rule::History => (runs / 20).max(1),
            Rule::Bisect { .. } => (runs / 8).max(1),
            _ => runs,
        }
    }

    /// Whether the rule errs in a simulated run.
    pub(super) fn errs(self, noise: Noise, order: Order, rng: &mut impl Rng) -> bool {
        match self {
            Rule::Sequential => rounds_to_find_difference(&simulate_log_ratios(noise, order, ROUNDS, rng)).is_some(),
            Rule::EValue => {
                let mut evidence = Evidence::against(0.0);
                simulate_log_ratios(noise, order, ROUNDS, rng).into_iter().any(|d| {
                    evidence.push(d);
                    evidence.value() * ALPHA >= 1.0
                })
            }
            Rule::Equivalence => {
                let edge = MARGIN.ln_1p();
                let lies_within = |walsh: &WalshAverages, look: &Look| {
                    walsh.lies_above(look.c10, -edge) && walsh.lies_below(look.c10, edge)
                };
                rounds_at_first_look(&shifted_differences(edge, noise, order, rng), lies_within).is_some()
            }
            Rule::Coverage => {
                let truth = EFFECT.ln_1p();
                let misses = |walsh: &WalshAverages, look: &Look| walsh.excludes(look.c05, truth);
                rounds_at_first_look(&shifted_differences(truth, noise, order, rng), misses).is_some()
            }
            Rule::Gate { tasks, passes } => gate_errs(tasks, passes, noise, rng),
            Rule::History => history_errs(noise, alarm_error_divisor, rng),
            Rule::Regret { variants, unequal } => regret_errs(variants, unequal, noise, order, rng),
            Rule::Best(effects) => simulate_search(effects, noise, rng).0.erred,
            Rule::Advice => advice_errs(noise, rng),
            Rule::Images { count, grouped } => images_err(count, grouped, noise, rng),
            Rule::Bisect { changed } => bisect::errs(changed, noise, rng),
        }
    }
}

/// The log ratios of a run of two variants whose true log ratio is `truth`.
fn shifted_differences(truth: f64, noise: Noise, order: Order, rng: &mut impl Rng) -> Vec<f64> {
    simulate_log_ratios(noise, order, ROUNDS, rng).into_iter().map(|d| d + truth).collect()
}

/// Whether a bound of ln(cost of variant 0/cost of the best) is below 0 at some look: all variants cost the same.
fn regret_errs(variants: usize, unequal: bool, noise: Noise, order: Order, rng: &mut impl Rng) -> bool {
    let of_best = simulate_log_ratios(noise, order, ROUNDS, rng);
    (1..variants).any(|rival| {
        let size = if unequal { 1.0 + 2.0 * rival as f64 / (variants - 1) as f64 } else { 1.0 };
        let of_rival = simulate_log_ratios(noise, order, ROUNDS, rng);
        let d: Vec<f64> = of_rival.iter().zip(&of_best).map(|(rival, best)| size * rival - best).collect();
        let is_below_truth = |walsh: &WalshAverages, look: &Look| {
            cautious_critical_value(look.rounds, variants - 1).is_some_and(|critical| walsh.lies_below(critical, 0.0))
        };
        rounds_at_first_look(&d, is_below_truth).is_some()
    })
}

/// Whether a gate ends in the error that `passes` names. If passing is the error, one task is slower by exactly the margin
/// and the others are equal; if failing is, all tasks are slower by it.
fn gate_errs(tasks: usize, passes: bool, noise: Noise, rng: &mut impl Rng) -> bool {
    let (edge, error) = (MARGIN.ln_1p(), if passes { Outcome::Held } else { Outcome::Refuted });
    let of_task = |task| {
        let slower = if task == 0 || !passes { edge } else { 0.0 };
        shifted_differences(slower, noise, Order::Random, rng)
    };
    let d_of_tasks: Vec<Vec<f64>> = (0..tasks).map(of_task).collect();
    first_decision(|rounds| gate_outcome(d_of_tasks.iter().map(|d| outcome_after(d, rounds, edge, tasks))))
        == Some(error)
}

/// The outcome of a claim "at most `edge` more" after some rounds with the log ratios `d`. `split` is the number of claims that
/// share the error.
fn outcome_after(d: &[f64], rounds: usize, edge: f64, split: usize) -> Outcome {
    let walsh = WalshAverages::new(d[..rounds].to_vec());
    walsh.map_or(Outcome::Inconclusive, |walsh| gate_claim_outcome(&walsh, edge, split))
}

/// The outcome at the first look that decides. None if the last look does not.
fn first_decision(outcome_after: impl Fn(usize) -> Outcome) -> Option<Outcome> {
    let outcomes = LOOKS.iter().map(|look| outcome_after(look.rounds));
    outcomes.into_iter().find(|outcome| *outcome != Outcome::Inconclusive)
}

/// Whether identical variants are called different at some look in a run that takes this many aged images in turn. An image
/// favours one of the variants by chance, and every later round on it favours the same one. If `grouped`, each value is the
/// mean of an image, and after the first pass the run looks after complete passes only; otherwise each value is a round, as if
/// rounds on the same image were independent.
fn images_err(images: usize, grouped: bool, noise: Noise, rng: &mut impl Rng) -> bool {
    let effects: Vec<f64> = (0..images).map(|_| IMAGE_EFFECT * normal(rng)).collect();
    let mut d = simulate_log_ratios(noise, Order::Random, ROUNDS, rng);
    d.iter_mut().zip(effects.iter().cycle()).for_each(|(d, effect)| *d += effect);
    if !grouped {
        return rounds_to_find_difference(&d).is_some();
    }
    let mut sums = vec![0.0; images];
    let mut finds_difference_after = |pass: usize, of_pass: &[f64]| {
        sums.iter_mut().zip(of_pass).for_each(|(sum, d)| *sum += d);
        let means = sums.iter().map(|sum| sum / (pass + 1) as f64).collect();
        WalshAverages::new(means).is_some_and(|walsh| excludes_zero(&walsh))
    };
    // In the first pass each round is a new image. Later passes only average out the noise of the rounds. The shifts of the
    // images stay, so each further look nearly repeats the same test, and the error hardly grows.
    rounds_to_find_difference(&d[..images]).is_some()
        || d.chunks_exact(images).enumerate().any(|(pass, of_pass)| finds_difference_after(pass, of_pass))
}

/// Whether fresh rounds wrongly confirm some change of a history, which is searched after each run. In the fresh rounds of each
/// alarm, the sides differ by exactly half of the change that the history shows: the largest difference that must not confirm
/// it. The k-th alarm may spend 1/`split(k)` of the error.
fn history_errs(noise: Noise, split: fn(u32) -> u32, rng: &mut impl Rng) -> bool {
    let mut level = 0.0;
    let mut levels = vec![];
    for rounds in simulate_log_ratios(noise, Order::Random, HISTORY_RUNS * HISTORY_ROUNDS, rng).chunks(HISTORY_ROUNDS) {
        level += HISTORY_STEP * SD * normal(rng);
        levels.push(level + median(rounds).unwrap_or(0.0));
    }
    let mut alarms: Vec<(usize, bool)> = vec![];
    for runs in 2 * SHORTEST_SEGMENT..=HISTORY_RUNS {
        for (at, change) in history_changes(&levels[..runs]) {
            let alarm = (at, change > 0.0);
            if alarms.iter().any(|known| is_same_change(*known, alarm)) {
                continue;
            }
            alarms.push(alarm);
            let (half, split) = (change.abs() / 2.0, split(alarms.len() as u32) as usize);
            let d = shifted_differences(half, noise, Order::Random, rng);
            if first_decision(|rounds| outcome_after(&d, rounds, half, split)) == Some(Outcome::Refuted) {
                return true;
            }
        }
    }
    false
}

/// The changes of a history with these levels: for each its first run, and by how much the median of the runs up to the next
/// change is above that of the runs since the previous change.
fn history_changes(levels: &[f64]) -> Vec<(usize, f64)> {
    let places = e_divisive(levels).into_iter().map(|split| split.at);
    let ends: Vec<usize> = std::iter::once(0).chain(places).chain([levels.len()]).collect();
    let mut found = vec![];
    for segment_ends in ends.windows(3) {
        let medians =
            median(&levels[segment_ends[0]..segment_ends[1]]).zip(median(&levels[segment_ends[1]..segment_ends[2]]));
        found.push((segment_ends[1], medians.map_or(0.0, |(before, after)| after - before)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{count_runs, run_rng};

    #[test]
    fn only_smaller_shares_of_the_error_for_later_alarms_keep_false_confirmations_rare() {
        let wrong = |split| count_runs(400, |run| history_errs(Noise::Normal, split, &mut run_rng(1, run)));
        let (with, without) = (wrong(alarm_error_divisor), wrong(|_| 1));
        assert!(with <= 20 && without >= 2 * with, "{with} {without}");
    }
}
