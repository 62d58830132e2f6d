//! Decides when a run stops: at its last round, at the end of its budget, or, in an adaptive run, when the samples
//! answer its question. Also forecasts from a few pilot rounds the smallest difference that the run can detect.

use crate::{claim_forecast::RoundForecast, work};
use fsarena_core::cell::Variant;
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::observations::claim_series;
use fsarena_core::plan::{Plan, StopPlan};
use fsarena_core::setting_text::setting;
use fsarena_core::{record::RunRecord, scale::Scale};
use fsarena_stats::judge::{JudgedClaim, judge_claims};
use fsarena_stats::{critical_values, power};
use std::time::Duration;

/// The number of rounds that a first answer about these variants requires, if `error_split` runs share the error
/// probability.
pub fn rounds_for_an_answer(variants: &[Variant], error_split: usize) -> u32 {
    let candidates = variants.iter().filter(|variant| !variant.is_bare_device()).count();
    rounds_for_candidates(candidates, error_split)
}

/// The rounds that a first answer about `candidates` variants requires; see [`rounds_for_an_answer`].
pub fn rounds_for_candidates(candidates: usize, error_split: usize) -> u32 {
    critical_values::rounds_for_first_bound(error_split * candidates.saturating_sub(1)) as u32
}

/// Decides before each round whether it runs, from the plan and the times of the rounds so far.
#[derive(Debug, Clone, Default)]
pub struct StoppingRule {
    plan: StopPlan,
    /// The number of rounds that a first answer requires. The number of a forecast overrides it.
    rounds_needed: u32,
    longest_round: Duration,
    first_round: Duration,
    /// The duration of all recorded rounds.
    total: Duration,
    rounds_done: u32,
}

impl StoppingRule {
    /// The stopping rule of a plan whose first answer requires `rounds_needed` rounds.
    pub fn new(plan: &StopPlan, rounds_needed: u32) -> StoppingRule {
        StoppingRule { plan: plan.clone(), rounds_needed, ..StoppingRule::default() }
    }

    /// Records the duration of a round that this process ran from its first cell on.
    pub fn record_round(&mut self, duration: Duration) {
        self.longest_round = self.longest_round.max(duration);
        if self.rounds_done == 0 {
            self.first_round = duration;
        }
        self.total += duration;
        self.rounds_done += 1;
    }

    /// Returns why the run stops before round number `round` (counted from 0, warm-up included), or None if that round
    /// runs. `elapsed` is the time since the run began. `forecast` is set in an adaptive run only.
    ///
    /// The first round after the warm-up always runs, because a run without it has no result. Without a forecast only
    /// the rounds and the time decide, so the measured values cannot bias the number of samples. With a forecast the
    /// samples decide too, and the confidence intervals allow for it: see `docs/adr/0007`. A run may exceed a default
    /// budget by up to a quarter ([`StopPlan::extended_budget_s`]) if it then reaches its first answer.
    pub fn stop_reason(&self, round: u32, elapsed: Duration, forecast: Option<&RoundForecast>) -> Option<String> {
        if let Some(why) = forecast.and_then(|forecast| forecast.answered.clone()) {
            return Some(why);
        }
        let open_clause = forecast.map_or("", |forecast| &forecast.open_clause);
        if round >= self.plan.all_rounds() {
            return Some(match self.plan.rounds {
                1 => format!("its one round is done{open_clause}"),
                rounds => format!("all {rounds} rounds are done{open_clause}"),
            });
        }
        let budget_s = self.plan.budget_s.filter(|_| round > self.plan.warmup)?;
        let missing = self.missing_rounds(round, forecast);
        let next_round_s = match forecast {
            // An adaptive run drops variants, so the next round takes less time than those so far.
            Some(forecast) => forecast.round_s,
            // Before the first answer the usual time counts: one slow round must not prevent the answer.
            None if missing > 0 => self.usual_round_s(),
            None => self.longest_round.as_secs_f64(),
        };
        let answer_s = elapsed.as_secs_f64() + f64::from(missing) * next_round_s;
        let extended_s = self.plan.extended_budget_s().filter(|extended_s| missing > 0 && answer_s <= *extended_s);
        let is_late = elapsed.as_secs_f64() + next_round_s > extended_s.unwrap_or(budget_s);
        is_late
            .then(|| format!("a further round would not have ended within the budget of {budget_s:.0} s{open_clause}"))
    }

    /// The number of rounds that the first answer still requires, before round number `round`.
    fn missing_rounds(&self, round: u32, forecast: Option<&RoundForecast>) -> u32 {
        let rounds_needed = forecast.map_or(self.rounds_needed, |forecast| forecast.rounds_needed);
        if rounds_needed > self.plan.rounds {
            return 0; // A plan with fewer rounds than an answer requires runs only its own.
        }
        rounds_needed.saturating_sub(round.saturating_sub(self.plan.warmup))
    }

    /// Returns whether the budget is long enough for the rounds of a first answer, before round number `round`. None if
    /// the run has no budget, has its first answer, or has not measured a round after the warm-up.
    pub fn budget_fit(
        &self,
        round: u32,
        elapsed: Duration,
        forecast: Option<&RoundForecast>,
        size: &RunSize,
    ) -> Option<BudgetFit> {
        let rounds_done = round.saturating_sub(self.plan.warmup);
        let (budget_s, extended_s) = (self.plan.budget_s?, self.plan.extended_budget_s()?);
        let missing = self.missing_rounds(round, forecast);
        if rounds_done == 0 || missing == 0 {
            return None;
        }
        let round_s = forecast.map_or(self.usual_round_s(), |forecast| forecast.round_s);
        let elapsed_s = elapsed.as_secs_f64();
        let rounds_needed = rounds_done + missing;
        let answer_s = elapsed_s + f64::from(missing) * round_s;
        if answer_s <= budget_s {
            return Some(BudgetFit::Fits);
        }
        if answer_s <= extended_s {
            return Some(BudgetFit::ExceedsDefault(format!(
                "A first answer takes {rounds_needed} rounds, about {}: this run exceeds its default budget of {} for it.",
                format_duration(answer_s),
                format_duration(budget_s)
            )));
        }
        let further_rounds = (budget_s - elapsed_s).max(0.0) / round_s.max(1e-3);
        Some(BudgetFit::TooShort(Shortfall {
            round_s,
            budget_s,
            rounds_done,
            rounds_in_budget: rounds_done + further_rounds as u32,
            rounds_needed,
            remedy: size.remedy(answer_s, round_s, budget_s),
        }))
    }

    /// The mean seconds of the rounds so far; None before the first one has ended.
    pub fn mean_round_s(&self) -> Option<f64> {
        (self.rounds_done > 0).then(|| self.total.as_secs_f64() / f64::from(self.rounds_done))
    }

    /// The usual seconds of a round. The first round runs with cold caches, so it counts only while it is the only one.
    fn usual_round_s(&self) -> f64 {
        match self.rounds_done {
            0 | 1 => self.total.as_secs_f64(),
            rounds => (self.total - self.first_round).as_secs_f64() / f64::from(rounds - 1),
        }
    }
}

/// Whether a budget is long enough for the rounds of a first answer: up to the first look at which the sequential test
/// can decide.
#[derive(Debug, Clone, PartialEq)]
pub enum BudgetFit {
    /// The budget is long enough.
    Fits,
    /// The run will exceed its default budget to reach the answer; the message for the user.
    ExceedsDefault(String),
    /// The budget is too short.
    TooShort(Shortfall),
}

/// A budget that is too short for the rounds of a first answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortfall {
    /// Seconds of a round, and of the budget.
    round_s: f64,
    budget_s: f64,
    /// Rounds that the run has done.
    rounds_done: u32,
    /// Rounds that the budget probably has time for.
    rounds_in_budget: u32,
    /// Rounds that the answer requires.
    rounds_needed: u32,
    /// Settings that would make the budget long enough: `budget=4m or scale=tiny`.
    pub remedy: String,
}

impl Shortfall {
    /// The message while the run continues: how many of the needed rounds the budget has time for.
    pub fn forecast_message(&self) -> String {
        let Shortfall { rounds_in_budget, rounds_needed, remedy, .. } = self;
        format!(
            "A round takes about {}, so the budget of {} holds about {rounds_in_budget} of the {rounds_needed} rounds that a first answer \
             requires. For an answer: {remedy}.",
            format_short_duration(self.round_s),
            format_duration(self.budget_s)
        )
    }

    /// The message at the end of the run: how many of the needed rounds ran.
    pub fn final_message(&self) -> String {
        let Shortfall { rounds_done, rounds_needed, .. } = self;
        let budget = format_duration(self.budget_s);
        format!("the budget of {budget} held {rounds_done} of the {rounds_needed} rounds that a first answer requires")
    }
}

/// The parts of a plan that decide how long its run takes, and that a user can reduce: its scale and its number of
/// variants.
#[derive(Debug, Clone, Copy)]
pub struct RunSize {
    /// The next smaller scale; None if no workload of the plan has a smaller one.
    pub smaller_scale: Option<Scale>,
    /// Number of variants that are compared.
    pub candidates: usize,
    /// Number of runs that share the error probability.
    pub error_split: usize,
}

impl RunSize {
    /// The size of a plan that compares this many variants.
    pub fn of_plan(plan: &Plan, candidates: usize) -> RunSize {
        // Commands of the user have no scale. Larger values of `Scale` are smaller scales.
        let scaled = plan.workloads.iter().any(|workload| workload.name != "command");
        let smaller_scale = Scale::ALL.into_iter().find(|scale| scaled && *scale > plan.scale);
        RunSize { smaller_scale, candidates, error_split: plan.error_split() }
    }

    /// Lists the settings that would make the budget long enough. The first answer takes `answer_s` seconds in all, a
    /// round takes `round_s`, and the budget is `budget_s`.
    fn remedy(&self, answer_s: f64, round_s: f64, budget_s: f64) -> String {
        // Runs that share the error probability share the budget too.
        let mut remedies = vec![setting("budget", &round_up_duration(1.1 * answer_s * self.error_split as f64))];
        if let Some(scale) = self.smaller_scale {
            remedies.push(setting("scale", scale.name()));
        }
        let variant_s = round_s / self.candidates.max(1) as f64;
        for count in (2..self.candidates).rev() {
            let cell_count = count as u32 * rounds_for_candidates(count, self.error_split);
            if variant_s * f64::from(cell_count) <= budget_s {
                remedies.push(format!("fewer variants (about {count} fit)"));
                break;
            }
        }
        join_alternatives(&remedies)
    }
}

/// Joins alternatives: `a, b or c`.
fn join_alternatives(alternatives: &[String]) -> String {
    match alternatives {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => alternatives.concat(),
    }
}

/// Formats seconds; a time below 2 s gets one decimal: `0.4 s`, `4 s`, `2 min 30 s`.
fn format_short_duration(seconds: f64) -> String {
    if seconds < 2.0 { format!("{seconds:.1} s") } else { format_duration(seconds) }
}

/// Formats seconds: `2 min 30 s`.
pub fn format_duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, 0) => format!("{min} min"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

/// Formats a duration in seconds as the value of a budget, rounded up: `40s`, `4m`.
pub fn round_up_duration(seconds: f64) -> String {
    if seconds <= 90.0 {
        format!("{}s", 10.0 * (seconds / 10.0).ceil())
    } else {
        format!("{}m", (seconds / 60.0).ceil())
    }
}

/// Forecasts the smallest difference that a run of `budget_s` seconds can detect if a round takes `round_s`, in words.
///
/// The forecast is for the claim whose differences between variants vary most. In a run without claims it is for the
/// pair of variants that varies most, by the main metric of all tasks together. The run never has more rounds than its
/// plan. None with fewer than three rounds.
pub fn forecast_difference(record: &RunRecord, round_s: f64, budget_s: f64) -> Option<String> {
    let budget_s = budget_s.min(f64::from(record.plan.stop.rounds) * round_s);
    let has_claims = !record.plan.claims.is_empty();
    let claims = if has_claims { record.plan.claims.clone() } else { claims_of_all_pairs(record) };
    let judged = judge_claims(claim_series(record, &claims));
    let spread = |judged: &&JudgedClaim| power::spread(&judged.d).unwrap_or(0.0);
    let most_varied = judged.iter().max_by(|a, b| spread(a).total_cmp(&spread(b)))?;
    let difference = most_varied.claim.margin_or(record.plan.stop.margin());
    let text = power::forecast(&most_varied.d, round_s, budget_s, difference)?.to_string();
    if has_claims {
        return Some(text);
    }
    let (metric, variants) = (&most_varied.claim.subject.metric, most_varied.claim.variants().join(" against "));
    Some(format!("{text} ({metric} of all tasks, {variants}: the pair that varies most)"))
}

/// One claim for each pair of variants with a filesystem: that the main metric has the same value for both.
fn claims_of_all_pairs(record: &RunRecord) -> Vec<Claim> {
    let subject = Quantity::of_all(&work::main_metric_of_run(record));
    let candidates = record.variants.iter().filter(|variant| !variant.is_bare_device());
    let names: Vec<&str> = candidates.map(|variant| variant.name.as_str()).collect();
    let mut claims = vec![];
    for (index, first) in names.iter().enumerate() {
        for second in &names[index + 1..] {
            claims.push(Claim::equality(subject.clone(), first, second, None));
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EXT2_EXT4_XFS, simulated_run};

    fn rule(rounds: u32, budget_s: Option<f64>) -> StoppingRule {
        StoppingRule::new(&StopPlan { rounds, budget_s, ..StopPlan::default() }, 8)
    }

    #[test]
    fn the_number_of_rounds_ends_a_run() {
        assert_eq!(rule(2, None).stop_reason(1, Duration::from_secs(9999), None), None);
        assert!(rule(2, None).stop_reason(2, Duration::ZERO, None).is_some());
    }

    #[test]
    fn no_round_is_started_that_would_end_too_late() {
        let mut rule = rule(30, Some(100.0));
        rule.record_round(Duration::from_secs(30));
        rule.record_round(Duration::from_secs(20));
        assert_eq!(rule.stop_reason(8, Duration::from_secs(69), None), None);
        assert!(rule.stop_reason(8, Duration::from_secs(71), None).is_some());
        // Before the first answer a usual round counts, not the longest.
        assert_eq!(rule.stop_reason(7, Duration::from_secs(79), None), None);
        assert!(rule.stop_reason(7, Duration::from_secs(81), None).is_some());
    }

    #[test]
    fn a_default_budget_is_exceeded_by_a_quarter_for_the_first_answer_only() {
        let stop = StopPlan { rounds: 30, budget_s: Some(100.0), has_default_budget: true, ..StopPlan::default() };
        let runs = |stop: &StopPlan, rounds_needed, round, elapsed_s| {
            let mut rule = StoppingRule::new(stop, rounds_needed);
            rule.record_round(Duration::from_secs(13));
            rule.stop_reason(round, Duration::from_secs(elapsed_s), None).is_none()
        };
        // Seven rounds took 91 s; the eighth ends at 104 s.
        assert!(runs(&stop, 8, 7, 91));
        assert!(!runs(&stop, 8, 8, 104), "the answer is there");
        assert!(!runs(&stop, 10, 7, 91), "three more rounds end at 130 s, after the extended budget of 125 s");
        assert!(runs(&stop, 9, 7, 91), "two more end at 117 s");
        let chosen_by_user = StopPlan { has_default_budget: false, ..stop };
        assert!(!runs(&chosen_by_user, 8, 7, 91), "a budget of the user is not exceeded");
    }

    #[test]
    fn a_budget_that_is_too_short_is_reported_with_settings_that_help() {
        let fit = |has_default_budget, rounds_s: &[f64], size: RunSize| {
            let stop = StopPlan { rounds: 30, budget_s: Some(100.0), has_default_budget, ..StopPlan::default() };
            let mut rule = StoppingRule::new(&stop, 10);
            assert_eq!(rule.budget_fit(0, Duration::ZERO, None, &size), None, "no round has run");
            rounds_s.iter().for_each(|seconds| rule.record_round(Duration::from_secs_f64(*seconds)));
            let elapsed = Duration::from_secs_f64(rounds_s.iter().sum());
            rule.budget_fit(rounds_s.len() as u32, elapsed, None, &size)
        };
        let shortfall = |rounds_s: &[f64], size| match fit(false, rounds_s, size) {
            Some(BudgetFit::TooShort(shortfall)) => shortfall,
            other => panic!("{other:?}"),
        };
        let size = RunSize { smaller_scale: Some(Scale::Tiny), candidates: 6, error_split: 1 };
        assert_eq!(fit(false, &[10.0], size), Some(BudgetFit::Fits));
        assert_eq!(
            shortfall(&[20.0], size).forecast_message(),
            "A round takes about 20 s, so the budget of 1 min 40 s holds about 5 of the 10 rounds that a first answer \
             requires. For an answer: budget=4m, scale=tiny or fewer variants (about 3 fit)."
        );
        assert_eq!(
            shortfall(&[40.0], RunSize { smaller_scale: None, candidates: 2, error_split: 1 }).remedy,
            "budget=8m"
        );
        assert_eq!(
            shortfall(&[40.0], RunSize { smaller_scale: None, candidates: 2, error_split: 2 }).remedy,
            "budget=15m"
        );
        assert_eq!(fit(false, &[20.0, 8.0], size), Some(BudgetFit::Fits), "the first round found cold caches");
        assert_eq!(
            shortfall(&[20.0, 20.0, 20.0, 20.0], size).final_message(),
            "the budget of 1 min 40 s held 4 of the 10 rounds that a first answer requires"
        );
        assert_eq!(
            fit(true, &[12.0], size),
            Some(BudgetFit::ExceedsDefault(
                "A first answer takes 10 rounds, about 2 min: this run exceeds its default budget of 1 min 40 s for it."
                    .into()
            ))
        );
        assert_eq!(fit(true, &[10.0; 10], size), None, "the answer is there");
    }

    #[test]
    fn warm_up_rounds_and_the_first_round_after_them_always_run() {
        let mut plan = StopPlan { rounds: 8, budget_s: Some(1.0), ..StopPlan::default() };
        let stop_reason =
            |plan: &StopPlan, round| StoppingRule::new(plan, 8).stop_reason(round, Duration::from_secs(5), None);
        assert_eq!(stop_reason(&plan, 0), None);
        plan.warmup = 2;
        assert_eq!([1, 2].map(|round| stop_reason(&plan, round)), [None, None]);
        assert!(stop_reason(&plan, 3).is_some());
        plan.budget_s = None;
        assert_eq!(stop_reason(&plan, 9), None);
        assert!(stop_reason(&plan, 10).unwrap().starts_with("all 8 rounds are done"));
    }

    fn open_forecast(open_clause: &str, round_s: f64) -> RoundForecast {
        RoundForecast { open_clause: open_clause.into(), round_s, rounds_needed: 8, ..RoundForecast::default() }
    }

    #[test]
    fn an_answered_question_ends_a_run() {
        let answered = RoundForecast { answered: Some("every claim is decided".into()), ..open_forecast("", 1.0) };
        assert_eq!(rule(400, None).stop_reason(9, Duration::ZERO, Some(&answered)).unwrap(), "every claim is decided");
        assert_eq!(rule(400, None).stop_reason(9, Duration::ZERO, Some(&open_forecast("; x", 1.0))), None);
    }

    #[test]
    fn the_reason_to_stop_counts_the_open_claims() {
        let one_open = open_forecast("; one claim is left open", 30.0);
        assert_eq!(
            rule(9, None).stop_reason(9, Duration::ZERO, Some(&one_open)).unwrap(),
            "all 9 rounds are done; one claim is left open"
        );
        let mut rule = rule(400, Some(100.0));
        rule.record_round(Duration::from_secs(90));
        assert_eq!(
            rule.stop_reason(9, Duration::from_secs(70), Some(&one_open)),
            None,
            "fewer variants, shorter round"
        );
        let two_open = open_forecast("; 2 claims are left open", 31.0);
        assert!(
            rule.stop_reason(9, Duration::from_secs(70), Some(&two_open))
                .unwrap()
                .ends_with("100 s; 2 claims are left open")
        );
    }

    #[test]
    fn the_forecast_is_for_the_claim_that_varies_most() {
        let claims = ["touch.elapsed: ext2 < ext4"];
        let text = forecast_difference(&simulated_run(&EXT2_EXT4_XFS, &claims, 3).0, 10.0, 600.0).unwrap();
        assert!(text.starts_with("smallest detectable difference in 10 minutes: 0."), "{text}");
        assert!(text.contains("; 1% requires ") && !text.contains("against"), "{text}");
        assert_eq!(forecast_difference(&simulated_run(&EXT2_EXT4_XFS, &claims, 2).0, 10.0, 600.0), None);
    }

    #[test]
    fn without_claims_the_forecast_is_for_the_pair_that_varies_most() {
        let text = forecast_difference(&simulated_run(&EXT2_EXT4_XFS, &[], 3).0, 10.0, 600.0).unwrap();
        assert!(text.contains("(elapsed of all tasks, "), "{text}");
        assert!(text.contains(" against ") && text.contains("detectable difference"), "{text}");
    }

    #[test]
    fn the_forecast_compares_no_bare_device() {
        let seconds = [("ext2", 1.0), ("ext4", 1.0), (fsarena_core::factor::RAW, 0.5)];
        let text = forecast_difference(&simulated_run(&seconds, &[], 3).0, 10.0, 600.0).unwrap();
        assert!(text.contains("ext2 against ext4"), "{text}");
        let text = forecast_difference(&simulated_run(&seconds[1..], &[], 3).0, 10.0, 600.0);
        assert_eq!(text, None, "one filesystem has no other to compare with");
    }

    #[test]
    fn the_forecast_assumes_no_more_rounds_than_the_plan() {
        // 400 rounds of a second, though the budget has room for more.
        let text = forecast_difference(&simulated_run(&EXT2_EXT4_XFS, &[], 3).0, 1.0, 3600.0).unwrap();
        assert!(text.contains(" in 400 seconds"), "{text}");
    }
}
