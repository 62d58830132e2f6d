//! The search for the best variant: which variants can still be the best, and whether the choice among them is good
//! enough.

use crate::claim_forecast::{RoundForecast, VariantNames, expected_round_s, round_seconds};
use crate::{stopping::rounds_for_candidates, work};
use fsarena_core::average::Average;
use fsarena_core::number::plural;
use fsarena_core::observations::{Grid, bare_devices};
use fsarena_core::{cell::Variant, plan::Plan, record::RunRecord, sample::Direction};
use fsarena_fs::advice;
use fsarena_stats::{critical_values, regret::Regrets};

/// Variants leave for lack of time only before rounds with a smaller number than this. The last of these decisions follows
/// the second round of each variant, because the first round may have run with cold caches.
const DROPPING_ROUNDS: u32 = 3;

/// Why a plan cannot search for the best variant; None if it can, or does not search.
pub fn why_search_impossible(plan: &Plan, variants: &[Variant]) -> Option<&'static str> {
    let candidates = variants.iter().filter(|variant| !variant.is_bare_device()).count();
    if plan.stop.best_within.is_some() && candidates < 2 {
        return Some("finding the best requires two variants or more, not counting the bare device");
    }
    None
}

/// Decides before a round which variants stay in the run, and whether the choice among them is good enough to end it.
///
/// `live` are the variants that have not failed. `round` is counted from 0 after the warm-up. `max_regret` is the fraction by
/// which the choice may cost more than the best variant. `budget_left_s` is the rest of the budget in seconds; None
/// without a budget. If that time is too short for a first answer about all variants, the last variants in the order of
/// [`by_priority`] leave in the first rounds, whatever was measured.
///
/// The confidence bounds are valid at the looks of the sequential test, the numbers of rounds after which it may decide
/// ([`critical_values`]). So only at looks variants leave because of their costs, and a good choice ends the run. Only the
/// rounds up to the last look count. A resumed run has these rounds too, so it continues with the same variants.
///
/// After any round, the run also ends if fewer than two variants are left.
pub fn eliminate(
    record: &RunRecord,
    live: &VariantNames,
    round: u32,
    max_regret: f64,
    budget_left_s: Option<f64>,
) -> RoundForecast {
    let search = BestSearch::at_last_look(record, round);
    let mut remaining = vec![];
    for (index, variant) in record.variants.iter().enumerate() {
        if !variant.is_bare_device() && live.contains(&variant.name) && search.can_be_best(index) {
            remaining.push(index);
        }
    }
    let mut dropped_for_time = VariantNames::new();
    if let Some(budget_left_s) = budget_left_s
        && round < DROPPING_ROUNDS
        && !record.cells.is_empty()
    {
        let fitting = search.fit_into_budget(&remaining, round, budget_left_s);
        let dropped = remaining.iter().filter(|index| !fitting.contains(index));
        dropped_for_time.extend(dropped.map(|index| record.variant_name(*index).to_string()));
        remaining = fitting;
    }
    let mut variants = VariantNames::new();
    for (index, variant) in record.variants.iter().enumerate() {
        let stays = remaining.contains(&index) || variant.is_bare_device();
        if stays && live.contains(&variant.name) {
            variants.insert(variant.name.clone());
        }
    }
    let mut answered = search.describe_good_choice(&remaining, max_regret);
    if answered.is_none() && remaining.len() < 2 && round > 0 {
        answered = Some("fewer than two variants are left to compare".into());
    }
    RoundForecast {
        answered,
        open_clause: format!("; {} can still be the best", plural(remaining.len(), "variant")),
        round_s: round_seconds(record, &variants),
        rounds_needed: search.rounds_needed(&remaining),
        dropped_for_time,
        variants,
    }
}

/// The state of the search for the best variant at the last look of the sequential test. Variants are indices into the
/// record.
struct BestSearch<'a> {
    record: &'a RunRecord,
    /// The regrets among all variants.
    regrets: Regrets,
    /// The variants that give up no safety guarantee; all variants if each gives up one.
    safe: Vec<usize>,
    /// The regrets among the safe variants.
    among_safe: Regrets,
    /// The variants that have figures, including those that left the run.
    measured: Vec<usize>,
}

impl<'a> BestSearch<'a> {
    /// The state at the last look before round number `round`, counted from 0 after the warm-up.
    fn at_last_look(record: &'a RunRecord, round: u32) -> BestSearch<'a> {
        // Before the first sample the run has no main metric: without costs, every variant can still be the best.
        let grid = Grid::find(record, &work::main_metric_of_run(record)).ok();
        let grid = grid.map(|grid| grid.with_average(record.plan.stop.best_by));
        let direction = grid.as_ref().map_or(Direction::Neutral, |grid| grid.metric.direction);
        let mut costs = grid.as_ref().map_or(vec![], Grid::combined);
        // This comes before the columns are cut off, so that a variant counts as measured even if all its figures are
        // from rounds after the last look.
        let has_figures = |variant: &usize| costs[*variant].iter().any(|cost| *cost > 0.0);
        let measured = (0..costs.len()).filter(has_figures).collect();
        let look = critical_values::last_look_by(round as usize).map_or(0, |look| look.rounds as u32);
        let end = record.plan.stop.warmup + look;
        // `costs` has one column for each round, or in a run with aged images one for each image. `grid.rounds` has the round
        // of each column; for an image, its first round. The bounds use the columns whose round is one of the first `end`.
        let columns = grid.map_or(0, |grid| grid.rounds.partition_point(|round| *round < end));
        for rounds in &mut costs {
            rounds.truncate(columns);
        }
        let compute = if compares_means(record) { Regrets::compute_by_mean } else { Regrets::compute };
        // `error_split` is the number of runs that share the error probability of one answer.
        let regrets = compute(&costs, &bare_devices(record), direction, record.plan.error_split());
        // The bare device shows the highest possible speed. It is never a candidate.
        let candidates: Vec<usize> =
            (0..record.variants.len()).filter(|index| !record.variants[*index].is_bare_device()).collect();
        let safe = record.with_full_guarantees(&candidates);
        let among_safe = regrets.among(&safe);
        BestSearch { record, regrets, safe, among_safe, measured }
    }

    /// Whether the variant can still be the best: no other is shown to be better. Only safe variants can rule out a
    /// safe one.
    fn can_be_best(&self, variant: usize) -> bool {
        let regrets = if self.safe.contains(&variant) { &self.among_safe } else { &self.regrets };
        self.regrets.provisional || !regrets.is_dominated(variant)
    }

    /// Chooses one of these variants, and describes the choice if it costs at most the fraction `max_regret` more than
    /// the best; else None. Chooses a variant that gives up safety only if no safe one is left.
    fn describe_good_choice(&self, remaining: &[usize], max_regret: f64) -> Option<String> {
        let mut eligible: Vec<usize> =
            remaining.iter().copied().filter(|variant| self.safe.contains(variant)).collect();
        let mut regrets = self.among_safe.clone();
        if eligible.is_empty() {
            eligible = remaining.to_vec();
            regrets = self.regrets.among(remaining);
        }
        let choice = regrets.choose(&eligible)?;
        let regret = regrets.regret_of(choice)?.exp_m1();
        if self.regrets.provisional || regret > max_regret {
            return None;
        }
        let average = if compares_means(self.record) { " by mean cost" } else { "" };
        let (name, percent) = (self.record.variant_name(choice), 100.0 * regret);
        Some(format!("{name} costs at most {percent:.2}% more than the best{average}"))
    }

    /// The number of rounds that a first answer about these variants requires. Variants with figures count too, even if
    /// they have left the run.
    fn rounds_needed(&self, remaining: &[usize]) -> u32 {
        let mut candidates = 0;
        for (index, variant) in self.record.variants.iter().enumerate() {
            if !variant.is_bare_device() && (remaining.contains(&index) || self.measured.contains(&index)) {
                candidates += 1;
            }
        }
        rounds_for_candidates(candidates, self.record.plan.error_split())
    }

    /// The variants, at least two, whose remaining rounds up to a first answer fit into `budget_left_s` seconds.
    fn fit_into_budget(&self, variants: &[usize], round: u32, budget_left_s: f64) -> Vec<usize> {
        let record = self.record;
        let mut fitting = by_priority(&record.plan, &record.variants);
        fitting.retain(|variant| variants.contains(variant));
        let bare_devices = record.variants.iter().filter(|variant| variant.is_bare_device());
        let bare_devices_s: f64 = bare_devices.filter_map(|variant| expected_round_s(record, &variant.name)).sum();
        let variant_s = |variant: &usize| expected_round_s(record, record.variant_name(*variant)).unwrap_or(0.0);
        while fitting.len() > 2 {
            let round_s: f64 = bare_devices_s + fitting.iter().map(variant_s).sum::<f64>();
            let rounds = self.rounds_needed(&fitting).saturating_sub(round);
            if f64::from(rounds) * round_s <= budget_left_s {
                break;
            }
            fitting.pop();
        }
        fitting.sort_unstable();
        fitting
    }
}

/// Whether a run compares variants by their mean cost instead of their typical one.
fn compares_means(record: &RunRecord) -> bool {
    record.plan.stop.best_by == Average::Mean
}

/// The indices of the variants in the order in which a short budget keeps them: the order of the plan if it lists its
/// variants, else common filesystems first.
pub fn by_priority(plan: &Plan, variants: &[Variant]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..variants.len()).collect();
    if plan.variants.is_empty() {
        order.sort_by_key(|index| advice::short_budget_rank(&variants[*index]));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EXT2_EXT4_XFS, simulated_run};
    use fsarena_core::event::{Activity, Note, NoteKind};
    use fsarena_core::factor;

    fn remaining_and_answer(
        task_seconds: &[(&str, f64)],
        rounds: u32,
        round: u32,
        max_regret: f64,
    ) -> (Vec<String>, Option<String>) {
        let (record, live) = simulated_run(task_seconds, &[], rounds);
        let forecast = eliminate(&record, &live, round, max_regret, None);
        (forecast.variants.into_iter().collect(), forecast.answered)
    }

    #[test]
    fn a_search_requires_two_variants_besides_the_bare_device() {
        let (mut record, _) = simulated_run(&EXT2_EXT4_XFS, &[], 1);
        record.plan.stop.best_within = Some(0.01);
        let levels = [(factor::FS.to_string(), factor::RAW.to_string())].into();
        let mut variants = vec![record.variants[0].clone(), Variant { name: "raw".into(), levels }];
        assert!(why_search_impossible(&record.plan, &variants).is_some());
        variants.push(record.variants[1].clone());
        assert_eq!(why_search_impossible(&record.plan, &variants), None);
    }

    #[test]
    fn a_variant_leaves_at_the_look_at_which_it_cannot_be_the_best() {
        assert_eq!(
            remaining_and_answer(&EXT2_EXT4_XFS, 7, 7, 0.001),
            (["ext2", "ext4", "xfs"].map(String::from).to_vec(), None)
        );
        for round in [8, 9] {
            assert_eq!(
                remaining_and_answer(&EXT2_EXT4_XFS, round, round, 0.001),
                (["ext2", "ext4"].map(String::from).to_vec(), None)
            );
        }
    }

    #[test]
    fn without_a_live_safe_variant_the_choice_is_among_the_others() {
        let (mut record, mut live) = simulated_run(&[("ext2", 1.0), ("ext4", 1.0), ("xfs", 1.0)], &[], 8);
        for name in ["ext4", "xfs"] {
            record.notes.push((None, Note::new(NoteKind::Weaker, "no barriers").variant(name)));
        }
        live.remove("ext2");
        let answer = eliminate(&record, &live, 8, 0.05, None).answered.unwrap();
        assert!(answer.contains(" costs at most ") && !answer.starts_with("ext2"), "{answer}");
    }

    #[test]
    fn a_choice_that_is_good_enough_ends_the_run_at_a_look() {
        assert!(remaining_and_answer(&EXT2_EXT4_XFS, 8, 8, 0.05).1.unwrap().contains(" costs at most "));
        let two = [("ext2", 1.0), ("xfs", 1.5)];
        assert_eq!(remaining_and_answer(&two, 8, 8, 0.001).1.unwrap(), "ext2 costs at most 0.00% more than the best");
    }

    #[test]
    fn by_mean_cost_the_first_look_that_decides_is_at_24_rounds() {
        let answer = |rounds: u32| {
            let (mut record, live) = simulated_run(&[("ext2", 1.0), ("xfs", 1.5)], &[], rounds);
            record.plan.stop.best_by = Average::Mean;
            eliminate(&record, &live, rounds, 0.05, None).answered
        };
        assert_eq!(answer(23), None);
        assert_eq!(answer(24).unwrap(), "ext2 costs at most 0.00% more than the best by mean cost");
    }

    #[test]
    fn warm_up_rounds_do_not_count() {
        let (mut record, live) = simulated_run(&EXT2_EXT4_XFS, &[], 9);
        record.plan.stop.warmup = 2;
        assert_eq!(eliminate(&record, &live, 8, 0.001, None).variants.len(), 3, "seven rounds are too few");
        record.plan.stop.warmup = 1;
        let remaining = eliminate(&record, &live, 8, 0.001, None).variants;
        assert_eq!(remaining.into_iter().collect::<Vec<_>>(), ["ext2", "ext4"]);
    }

    #[test]
    fn a_short_budget_keeps_the_usual_filesystems_whatever_their_pilot_took() {
        let names = ["btrfs", "ext2", "ext3", "ext4", "f2fs", "xfs"];
        let (mut record, live) = simulated_run(&names.map(|name| (name, 1.0)), &[], 1);
        // Each cell takes two seconds, except the first cell, of ext4: it ran with cold caches and took 19 s.
        let remaining_dropped_and_rounds = |record: &RunRecord, budget_left_s| {
            let forecast = eliminate(record, &live, 1, 0.01, Some(budget_left_s));
            (forecast.variants.into_iter().collect::<Vec<_>>(), forecast.dropped_for_time.len(), forecast.rounds_needed)
        };
        let ext4 = record.cells.iter_mut().find(|cell| record.variants[cell.variant].name == "ext4").unwrap();
        ext4.spent = vec![(Activity::Total, 19_000_000_000)];
        // The best of six variants is compared with 5 others, so the answer needs 10 rounds, of which 9 are left. In a
        // round, five cells take 2 s each, and that of ext4 counts as at most three times the median, 6 s: 9 · 16 s =
        // 144 s.
        assert_eq!(remaining_dropped_and_rounds(&record, 150.0), (names.map(String::from).to_vec(), 0, 10));
        let three = ["btrfs", "ext4", "xfs"].map(String::from).to_vec();
        assert_eq!(remaining_dropped_and_rounds(&record, 95.0), (three, 3, 10));
        assert_eq!(remaining_dropped_and_rounds(&record, 1.0), (["ext4", "xfs"].map(String::from).to_vec(), 4, 10));
    }

    #[test]
    fn rounds_after_the_last_look_change_nothing() {
        // A resumed run can have values of further rounds. They count only from the next look on, at ten rounds.
        assert_eq!(
            remaining_and_answer(&EXT2_EXT4_XFS, 10, 9, 0.001),
            remaining_and_answer(&EXT2_EXT4_XFS, 8, 8, 0.001)
        );
    }
}
