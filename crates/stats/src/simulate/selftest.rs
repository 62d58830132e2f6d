//! fsarena's statistical self-test: measures its error rates on simulated data, for which the truth is known.

use super::headline::{self, TimelyRecommendations, WrongRecommendations};
use super::noise::{Noise, Order};
use super::rules::IMAGE_COUNTS;
pub use super::rules::StatisticalRule;
pub use super::search::CostDifferences;
use super::search::{SearchRun, simulate_search};
use super::{ALPHA, ErrorCount, PromiseState, in_parallel, run_rng};
use crate::average::median;
use fsarena_core::exit::ExitCode;
use fsarena_core::schedule::mix;

/// The tolerance for the error of the simulation.
const TOLERANCE: f64 = 0.01;

/// The number of runs that suffices for a verdict on the rules: see [`run_selftest`].
pub const RUNS: usize = 20_000;

/// The result of one rule with one kind of noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// The noise.
    pub noise: Noise,
    /// The rule.
    pub rule: StatisticalRule,
    /// The order of the variants within rounds.
    pub order: Order,
    /// How often the rule erred.
    pub errors: ErrorCount,
    /// For runs that search for the best: the median time as a share of the median time without elimination of variants, and
    /// the limit of this share.
    pub time_share_and_limit: Option<(f64, f64)>,
}

/// The smallest number of runs whose median time can show that a search is too slow.
const MIN_RUNS_FOR_TIME: usize = 100;

impl Check {
    /// The largest accepted error rate: 5% + 1%.
    pub fn limit(&self) -> f64 {
        ALPHA + TOLERANCE
    }

    /// Whether it is a negative test, which must err more often than the promise allows: variants in a fixed order, or
    /// an analysis that treats rounds on the same image as independent.
    pub fn is_negative_test(&self) -> bool {
        self.order == Order::Fixed || matches!(self.rule, StatisticalRule::Images { uses_means_of_images: false, .. })
    }

    /// The state of the promise about the error rate and the time; of a negative test, the state of the promise that it errs.
    pub fn state(&self) -> PromiseState {
        let is_slow = self.time_share_and_limit.is_some_and(|(share, limit)| share > limit);
        match self.errors.state(self.limit()) {
            PromiseState::Kept if self.is_negative_test() => PromiseState::Broken,
            PromiseState::Broken if self.is_negative_test() => PromiseState::Kept,
            state if is_slow && self.errors.runs < MIN_RUNS_FOR_TIME => state.max(PromiseState::Open),
            _ if is_slow => PromiseState::Broken,
            state => state,
        }
    }
}

/// The result of the simulated self-test.
#[derive(Debug, Clone, PartialEq)]
pub struct SelftestReport {
    /// Every rule under every noise, and one negative test: rounds on the same image, treated as independent.
    pub checks: Vec<Check>,
    /// The negative test of the order: with drift and a fixed order of variants, the rule [`StatisticalRule::Sequential`] must
    /// err too often.
    pub fixed_order: Check,
    /// For each noise and spread, how often the headline recommends a variant that is more than 5% worse than the best.
    pub wrong_recommendations: Vec<WrongRecommendations>,
    /// How often the headline recommends the best in time.
    pub timely_recommendations: Vec<TimelyRecommendations>,
}

impl SelftestReport {
    /// Whether every promise is kept.
    pub fn passed(&self) -> bool {
        self.states().all(|state| state == PromiseState::Kept)
    }

    /// The state of every promise.
    fn states(&self) -> impl Iterator<Item = PromiseState> {
        let checks = self.checks.iter().chain([&self.fixed_order]).map(Check::state);
        let headlines = self.wrong_recommendations.iter().filter_map(WrongRecommendations::state);
        checks.chain(headlines).chain(self.timely_recommendations.iter().filter_map(TimelyRecommendations::state))
    }

    /// The exit code: refuted for a broken promise, inconclusive if there are too few runs.
    pub fn exit_code(&self) -> ExitCode {
        match self.states().max() {
            Some(PromiseState::Broken) => ExitCode::Refuted,
            Some(PromiseState::Open) => ExitCode::Inconclusive,
            _ => ExitCode::Done,
        }
    }
}

/// Simulates `runs` runs of 400 rounds for each rule and kind of noise; fewer for slow rules. With 2,000 runs, the promise of a
/// rule whose true error rate is exactly 5% stays open by chance with probability 0.4, because the upper limit of the rate is
/// above 6% for more than 102 errors (P(B > 102), B ~ Binomial(2000, 0.05)). With 20,000 runs ([`RUNS`]) the probability is
/// 2·10⁻⁶.
pub fn run_selftest(runs: usize, seed: u64) -> SelftestReport {
    let mut checks = check_rules(runs, seed, |_| true);
    let seed_of = |number: usize| mix(seed, number as u64);
    let headline_runs = (runs / 5).max(4);
    let fixed_order = check_rule(runs, seed_of(checks.len()), Noise::Drift, StatisticalRule::Sequential, Order::Fixed);
    let ungrouped = StatisticalRule::Images { count: IMAGE_COUNTS[0], uses_means_of_images: false };
    checks.push(check_rule(runs, seed_of(checks.len() + 1), Noise::Normal, ungrouped, Order::Random));
    SelftestReport {
        fixed_order,
        checks,
        wrong_recommendations: headline::simulate_wrong_recommendations(headline_runs, seed),
        timely_recommendations: headline::simulate_timely_recommendations(headline_runs, seed),
    }
}

/// The checks of [`run_selftest`] for the rules whose names `is_wanted` accepts.
pub fn check_rules(runs: usize, seed: u64, is_wanted: impl Fn(&str) -> bool) -> Vec<Check> {
    let pairs = StatisticalRule::all().into_iter().flat_map(|rule| Noise::TESTED.map(|noise| (rule, noise)));
    let mut checks = vec![];
    for (number, (rule, noise)) in (0..).zip(pairs) {
        if is_wanted(&rule.name()) {
            checks.push(check_rule(runs, mix(seed, number), noise, rule, Order::Random));
        }
    }
    checks
}

/// Checks one rule with one kind of noise by `runs` simulated runs with this seed; fewer for slow rules.
fn check_rule(runs: usize, seed: u64, noise: Noise, rule: StatisticalRule, order: Order) -> Check {
    let runs = rule.run_count(runs);
    let rng = |run| run_rng(seed, run);
    if let StatisticalRule::Best(differences) = rule {
        let searches = in_parallel(runs, |run| simulate_search(differences, noise, &mut rng(run)));
        let wrong = searches.iter().filter(|(search, _)| search.erred).count();
        // The limits of the time are for normal noise of 3%.
        let share = median_time_share(&searches).filter(|_| noise == Noise::Normal);
        let time_share_and_limit = share.map(|share| (share, differences.max_median_time_share()));
        return Check { noise, rule, order, errors: ErrorCount { wrong, runs }, time_share_and_limit };
    }
    let errors = ErrorCount::simulate(runs, |run| rule.errs(noise, order, &mut rng(run)));
    Check { noise, rule, order, errors, time_share_and_limit: None }
}

/// The median time of the searches, as a share of the median time of the same runs without elimination.
fn median_time_share(searches: &[(SearchRun, f64)]) -> Option<f64> {
    let times: Vec<f64> = searches.iter().map(|(search, _)| search.time).collect();
    let without_elimination: Vec<f64> = searches.iter().map(|(_, time)| *time).collect();
    Some(median(&times)? / median(&without_elimination)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_selftest_has_every_check_and_repeats_itself() {
        let report = run_selftest(5, 1);
        assert_eq!(report.checks.len(), 145);
        let (negative, others): (Vec<&Check>, _) = report.checks.iter().partition(|check| check.is_negative_test());
        assert!(others.iter().all(|check| check.errors.wrong < 4), "{report:?}");
        assert!(negative.iter().all(|check| check.errors.wrong > 1), "{negative:?}");
        assert_eq!(report.fixed_order.state(), PromiseState::Kept, "{:?}", report.fixed_order);
        assert_eq!(report, run_selftest(5, 1));
    }

    fn check(order: Order, wrong: usize, runs: usize) -> Check {
        let errors = ErrorCount { wrong, runs };
        Check { noise: Noise::Normal, rule: StatisticalRule::Sequential, order, errors, time_share_and_limit: None }
    }

    #[test]
    fn a_rate_over_its_bound_is_broken_and_too_few_runs_leave_it_open() {
        let state_of = |wrong, runs| check(Order::Random, wrong, runs).state();
        assert_eq!([state_of(100, 2_000), state_of(110, 2_000)], [PromiseState::Kept, PromiseState::Open]);
        assert_eq!(
            [state_of(1_000, 20_000), state_of(1_400, 20_000), state_of(5, 100)],
            [PromiseState::Kept, PromiseState::Broken, PromiseState::Open]
        );
        let fixed_order = check(Order::Fixed, 80, 100);
        let report = |checks: Vec<Check>| SelftestReport {
            checks,
            fixed_order,
            wrong_recommendations: vec![],
            timely_recommendations: vec![],
        };
        let codes = [vec![(1_000, 20_000)], vec![(1_400, 20_000), (5, 100)], vec![(5, 100)]].map(|checks| {
            let checks = checks.into_iter().map(|(wrong, runs)| check(Order::Random, wrong, runs));
            report(checks.collect()).exit_code()
        });
        assert_eq!(codes, [ExitCode::Done, ExitCode::Refuted, ExitCode::Inconclusive]);
    }

    #[test]
    fn a_negative_test_that_does_not_err_is_broken() {
        let state_of = |wrong, runs| check(Order::Fixed, wrong, runs).state();
        assert_eq!([state_of(80, 100), state_of(1_600, 2_000)], [PromiseState::Kept; 2]);
        assert_eq!([state_of(100, 2_000), state_of(900, 20_000)], [PromiseState::Broken; 2]);
    }

    #[test]
    fn a_search_that_takes_too_long_breaks_its_promise_after_enough_runs() {
        let slow = |runs| Check { time_share_and_limit: Some((1.2, 1.05)), ..check(Order::Random, 0, runs) }.state();
        assert_eq!([slow(60), slow(2_000)], [PromiseState::Open, PromiseState::Broken]);
    }
}
