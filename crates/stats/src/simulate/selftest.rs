//! fsarena's statistical self-test: measures its error rates on simulated data, for which the truth is known.

use super::PromiseState;
use super::bisect;
use super::headline::{self, Answered, Wrong};
use super::history;
use super::images;
use super::noise::{Noise, Order, SD, differences};
use super::{count, lower_limit, parallel, stream, upper_limit};
use crate::average::median;
use crate::change_point::alarm_split;
use crate::evalue::Evidence;
use crate::gate::{gate_outcome, outcome_at};
use crate::hodges_lehmann::Walsh;
use crate::regret::Regrets;
use crate::sequential::{first_look, found_at};
use crate::table::{LOOKS, Look, cautious_bound};
use crate::verdict::Outcome;
use fsarena_core::exit::ExitCode;
use fsarena_core::number::plural;
use fsarena_core::sample::Direction;
use fsarena_core::schedule::mix;
use rand::Rng;

/// The largest error rate that every rule promises.
const ALPHA: f64 = 0.05;
/// The tolerance for the error of the simulation.
const CONCEDED: f64 = 0.01;
/// The margin at which equivalence is tested: 1%.
const MARGIN: f64 = 0.01;
/// The true effect in simulations of coverage: 5%.
const EFFECT: f64 = 0.05;
/// The number of rounds of a run.
const ROUNDS: usize = LOOKS[LOOKS.len() - 1].n;

/// The number of runs that suffices for a verdict on the rules: see [`selftest`].
pub const RUNS: usize = 20_000;

/// A statistical rule. The description of each variant is what counts as its error in a run of up to 400 rounds.
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
    /// A gate passes although one of its tasks is slower by exactly the margin, or fails although none is slower by more: at the
    /// look that decides it.
    Gate {
        /// The number of tasks.
        tasks: usize,
        /// Whether to pass is the error; otherwise to fail.
        passes: bool,
    },
    /// In a history whose level wanders from run to run, the fresh rounds of some alarm confirm a change although they differ by no
    /// more than half of it.
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
    /// Identical variants that begin with aged images in turn are called different at some look.
    Images {
        /// The number of images.
        count: usize,
        /// Whether a value is the mean of an image. Otherwise it is a round, which must err too often.
        grouped: bool,
    },
    /// A bisection of 64 candidates by time ends at a wrong one, or without one.
    Bisect {
        /// Whether the cost steps up at one of them; otherwise all cost the same.
        changed: bool,
    },
}

impl Rule {
    /// All of them.
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
            .chain(images::COUNTS.map(|count| Rule::Images { count, grouped: true }))
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
                let errs = if passes { "passes a task at its margin" } else { "fails tasks at their margin" };
                format!("gate of {} {errs}", plural(tasks, "task"))
            }
            Rule::Best(effects) => format!("best of 8 variants, {}", effects.name()),
            Rule::Images { count, grouped: true } => format!("{count} aged images, identical variants"),
            Rule::Images { count, grouped: false } => {
                format!("{count} aged images, ROUNDS AS IF INDEPENDENT")
            }
            Rule::History => format!("history of {} runs, confirms half a change", history::RUNS),
            Rule::Advice => "advice: 4 filesystems, then the options of the best".into(),
            Rule::Bisect { changed: true } => "bisection of 64 candidates ends at a wrong one".into(),
            Rule::Bisect { changed: false } => "bisection of 64 equal candidates finds one".into(),
            Rule::Regret { variants, unequal } => {
                format!("regret of {variants} variants, {} noise", if unequal { "unequal" } else { "equal" })
            }
        }
    }

    /// The number of runs to simulate for this rule, so that slow rules take about as long as a rule for two variants.
    fn share(self, runs: usize) -> usize {
        match self {
            Rule::Regret { variants, .. } => (runs / (variants - 1)).max(1),
            // With fewer runs of several tasks, chance alone would exceed what is conceded.
            Rule::Gate { tasks, .. } => (2 * runs / (tasks + 1)).max(1),
            Rule::Best(_) | Rule::Advice | Rule::History => (runs / 20).max(1),
            Rule::Bisect { .. } => (runs / 8).max(1),
            _ => runs,
        }
    }

    /// Whether the rule errs in a simulated run.
    fn errs(self, noise: Noise, order: Order, rng: &mut impl Rng) -> bool {
        if self == Rule::Advice {
            return advice(noise, rng);
        }
        if self == Rule::History {
            return history::confirms_wrongly(noise, alarm_split, rng);
        }
        if let Rule::Gate { tasks, passes } = self {
            return gate_errs(tasks, passes, noise, rng);
        }
        if let Rule::Images { count, grouped } = self {
            return images::errs(count, grouped, noise, rng);
        }
        if let Rule::Bisect { changed } = self {
            return bisect::errs(changed, noise, rng);
        }
        let d = differences(noise, order, ROUNDS, rng);
        let Rule::Regret { variants, unequal } = self else { return self.errs_on(&d) };
        (1..variants).any(|rival| {
            let size = if unequal { 1.0 + 2.0 * rival as f64 / (variants - 1) as f64 } else { 1.0 };
            let of_rival = differences(noise, order, ROUNDS, rng);
            let to_best: Vec<f64> =
                of_rival.iter().zip(&d).map(|(rival, best)| size * rival - best).collect();
            first_look(&to_best, |walsh, look| {
                cautious_bound(look.n, variants - 1).is_some_and(|c| walsh.lies_below(c, 0.0))
            })
            .is_some()
        })
    }

    /// Whether a rule for two variants errs in a run with these log ratios of identical variants.
    fn errs_on(self, d: &[f64]) -> bool {
        match self {
            Rule::Gate { .. }
            | Rule::Regret { .. }
            | Rule::Best(_)
            | Rule::Advice
            | Rule::History
            | Rule::Images { .. }
            | Rule::Bisect { .. } => false,
            Rule::Sequential => found_at(d).is_some(),
            Rule::EValue => {
                let mut evidence = Evidence::against(0.0);
                d.iter().any(|d| {
                    evidence.push(*d);
                    evidence.value() * ALPHA >= 1.0
                })
            }
            Rule::Equivalence => {
                let edge = MARGIN.ln_1p();
                let within = |walsh: &Walsh, look: &Look| {
                    walsh.lies_above(look.c10, -edge) && walsh.lies_below(look.c10, edge)
                };
                first_look(&shifted(d, edge), within).is_some()
            }
            Rule::Coverage => {
                let truth = EFFECT.ln_1p();
                first_look(&shifted(d, truth), |walsh, look| walsh.excludes(look.c05, truth)).is_some()
            }
        }
    }
}

/// Whether a gate ends in the error that `passes` names. One task is slower by exactly the margin if to pass is the error, every
/// task if to fail is; the others are equal.
fn gate_errs(tasks: usize, passes: bool, noise: Noise, rng: &mut impl Rng) -> bool {
    let (edge, error) = (MARGIN.ln_1p(), if passes { Outcome::Held } else { Outcome::Refuted });
    let d: Vec<Vec<f64>> = (0..tasks)
        .map(|task| {
            let slower = if task == 0 || !passes { edge } else { 0.0 };
            shifted(&differences(noise, Order::Random, ROUNDS, rng), slower)
        })
        .collect();
    let at = |look: &Look| {
        gate_outcome(d.iter().map(|d| {
            Walsh::new(d[..look.n].to_vec())
                .map_or(Outcome::Inconclusive, |walsh| outcome_at(&walsh, edge, tasks))
        }))
    };
    LOOKS.iter().map(at).find(|outcome| *outcome != Outcome::Inconclusive) == Some(error)
}

fn shifted(d: &[f64], by: f64) -> Vec<f64> {
    d.iter().map(|d| d + by).collect()
}

/// The result of one rule with one kind of noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// The noise.
    pub noise: Noise,
    /// The rule.
    pub rule: Rule,
    /// The order of the variants within rounds.
    pub order: Order,
    /// The number of runs in which the rule erred.
    pub wrong: usize,
    /// The number of runs.
    pub runs: usize,
    /// For runs that search for the best: the median time as a share of the time of running every variant in every round, and
    /// the limit of this share.
    pub time: Option<(f64, f64)>,
}

impl Check {
    /// The share of runs in which the rule erred.
    pub fn rate(&self) -> f64 {
        self.wrong as f64 / self.runs as f64
    }

    /// The upper 95% confidence limit of the error rate.
    pub fn upper(&self) -> f64 {
        upper_limit(self.wrong, self.runs)
    }

    /// The largest accepted error rate: 5% + 1%.
    pub fn limit(&self) -> f64 {
        ALPHA + CONCEDED
    }

    /// Whether the runs take longer than the limit.
    pub fn slow(&self) -> bool {
        self.time.is_some_and(|(time, limit)| time > limit)
    }

    /// Whether it is a negative test: in fixed order, or with rounds on the same image as if they were independent, even the
    /// lower limit of the error rate must break the promise.
    pub fn is_negative(&self) -> bool {
        self.order == Order::Fixed || matches!(self.rule, Rule::Images { grouped: false, .. })
    }

    /// Whether the check passed: the upper limit of the error rate keeps the promise, or a negative test breaks it.
    pub fn passed(&self) -> bool {
        if self.is_negative() {
            return lower_limit(self.wrong, self.runs) > self.limit();
        }
        self.upper() <= self.limit() && !self.slow()
    }
}

/// The result of the simulated self-test.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Every rule under every noise.
    pub checks: Vec<Check>,
    /// The negative test: with drift and a fixed order of variants, the first rule must err too often.
    pub negative: Check,
    /// For each noise and spread, how often the headline recommends a variant that is more than 5% worse than the best.
    pub wrong: Vec<Wrong>,
    /// How often the headline recommends the best in time.
    pub answered: Vec<Answered>,
}

impl Report {
    /// Whether everything passed.
    pub fn passed(&self) -> bool {
        self.states().all(|state| state == PromiseState::Kept)
    }

    /// The state of every promise.
    pub fn states(&self) -> impl Iterator<Item = PromiseState> {
        let checks = self.checks.iter().chain([&self.negative]).map(Check::state);
        let headlines = self.wrong.iter().filter_map(Wrong::state);
        checks.chain(headlines).chain(self.answered.iter().filter_map(Answered::state))
    }
}

impl Check {
    /// The state of the promise.
    pub fn state(&self) -> PromiseState {
        let above = lower_limit(self.wrong, self.runs) > self.limit();
        match (self.passed(), self.is_negative()) {
            (true, _) => PromiseState::Kept,
            (false, false) if above || self.slow() && self.runs >= 100 => PromiseState::Broken,
            // A negative test must err, so the promise is broken if it certainly does not.
            (false, true) if self.upper() <= self.limit() => PromiseState::Broken,
            (false, _) => PromiseState::Open,
        }
    }
}

impl Report {
    /// The exit code: refuted for a broken promise, inconclusive if there are too few runs.
    pub fn exit_code(&self) -> ExitCode {
        match self.states().max() {
            Some(PromiseState::Broken) => ExitCode::Refuted,
            Some(PromiseState::Open) => ExitCode::Inconclusive,
            _ => ExitCode::Done,
        }
    }
}

/// Simulates `runs` runs of 400 rounds for each rule and kind of noise; fewer for slow rules. With 2,000 runs, a rule whose true
/// error rate is exactly 5% fails by chance in four of ten such tests (P(B > 102), B ~ Binomial(2000, 0.05)). With
/// 20,000 runs ([`RUNS`]), it fails in two of a million.
pub fn selftest(runs: usize, seed: u64) -> Report {
    let mut checks = checks(runs, seed, |_| true);
    let seed_of = |number: usize| mix(seed, number as u64);
    let of_headline = (runs / 5).max(4);
    let negative = check((runs, seed_of(checks.len())), Noise::Drift, Rule::Sequential, Order::Fixed);
    let as_rounds = Rule::Images { count: images::COUNTS[0], grouped: false };
    checks.push(check((runs, seed_of(checks.len() + 1)), Noise::Normal, as_rounds, Order::Random));
    Report {
        negative,
        checks,
        wrong: headline::wrong(of_headline, seed),
        answered: headline::answered(of_headline, seed),
    }
}

/// The checks of [`selftest`] for the rules whose names `is_wanted` accepts.
pub fn checks(runs: usize, seed: u64, is_wanted: impl Fn(&str) -> bool) -> Vec<Check> {
    let pairs = Rule::all().into_iter().flat_map(|rule| Noise::ALL.map(|noise| (rule, noise)));
    let mut checks = vec![];
    for (number, (rule, noise)) in (0..).zip(pairs) {
        if is_wanted(&rule.name()) {
            checks.push(check((runs, mix(seed, number)), noise, rule, Order::Random));
        }
    }
    checks
}

/// Checks one rule with one kind of noise by simulated runs with this seed.
fn check((runs, seed): (usize, u64), noise: Noise, rule: Rule, order: Order) -> Check {
    let runs = rule.share(runs);
    let rng = |run| stream(seed, run);
    if let Rule::Best(effects) = rule {
        return best(effects, noise, parallel(runs, |run| search(effects, noise, &mut rng(run))));
    }
    let wrong = count(runs, |run| rule.errs(noise, order, &mut rng(run)));
    Check { noise, rule, order, wrong, runs, time: None }
}

fn best(effects: Effects, noise: Noise, runs: Vec<(Search, f64)>) -> Check {
    let median = |time: &dyn Fn(&(Search, f64)) -> f64| median(&runs.iter().map(time).collect::<Vec<f64>>());
    let share =
        median(&|(run, _)| run.time).zip(median(&|(_, of_all)| *of_all)).map(|(time, all)| time / all);
    Check {
        noise,
        rule: Rule::Best(effects),
        order: Order::Random,
        wrong: runs.iter().filter(|(run, _)| run.wrong).count(),
        runs: runs.len(),
        // The limits of the time are for normal noise of 3%.
        time: share.filter(|_| noise == Noise::Normal).map(|share| (share, effects.time_limit())),
    }
}

/// The noise of a measurement, as a fraction.
const NOISE: f64 = 0.03;
/// The regret at which a run ends.
const WITHIN: f64 = 0.01;

/// The costs of eight variants relative to the cheapest.
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

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Effects::Spread => "0, 1, … 7%",
            Effects::Two => "0, 1, 15, 15, … %",
            Effects::Equal => "equal",
        }
    }

    /// The limit of the median time, as a share of the time of running every variant in every round.
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

/// Simulates a run that searches for the best variant, to the last look at most. Also returns the time of the same run without
/// elimination of variants.
pub fn search(effects: Effects, noise: Noise, rng: &mut impl Rng) -> (Search, f64) {
    let truth: Vec<f64> = (0..8).map(|variant| effects.truth(variant)).collect();
    let all = measured(&truth, noise, rng);
    // The same run with all variants in all rounds; only its time is used.
    let of_all = run(&all, &truth, false, 1).time;
    (run(&all, &truth, true, 1), of_all)
}

/// Simulates advice: a run of four filesystems that cost 0, 1, 3 and 8% more than the best, then a run of the survivors with
/// options that save 2% or cost 0, 1 or 5%. Returns whether either run, which share the error, is wrong.
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
    // The noise of a difference has the variance of two measurements.
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
    /// Whether at some look the best was eliminated, or a variant's regret was below the truth.
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
        // If several variants are equally good, the best is lost only with the last of them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_selftest_has_every_check_and_repeats_itself() {
        let report = selftest(5, 1);
        assert_eq!(report.checks.len(), 145);
        let (negative, others): (Vec<&Check>, _) =
            report.checks.iter().partition(|check| check.is_negative());
        assert!(others.iter().all(|check| check.wrong < 4), "{report:?}");
        assert!(negative.iter().all(|check| check.wrong > 1), "{negative:?}");
        assert!(report.negative.passed(), "{:?}", report.negative);
        assert_eq!(report, selftest(5, 1));
    }

    #[test]
    fn a_rule_that_errs_too_often_fails() {
        let check = |wrong, order| Check {
            noise: Noise::Normal,
            rule: Rule::Sequential,
            order,
            wrong,
            runs: 2000,
            time: None,
        };
        assert!(check(100, Order::Random).passed() && !check(110, Order::Random).passed());
        assert!(check(1600, Order::Fixed).passed() && !check(100, Order::Fixed).passed());
    }

    fn check(order: Order, wrong: usize, runs: usize) -> Check {
        Check { noise: Noise::Normal, rule: Rule::Sequential, order, wrong, runs, time: None }
    }

    #[test]
    fn a_rate_over_its_bound_is_broken_and_too_few_runs_leave_it_open() {
        let of = |wrong, runs| check(Order::Random, wrong, runs).state();
        assert_eq!(
            [of(1_000, 20_000), of(1_400, 20_000), of(5, 100)],
            [PromiseState::Kept, PromiseState::Broken, PromiseState::Open]
        );
        let negative = check(Order::Fixed, 80, 100);
        let report = |checks: Vec<Check>| Report { checks, negative, wrong: vec![], answered: vec![] };
        let codes = [vec![(1_000, 20_000)], vec![(1_400, 20_000), (5, 100)], vec![(5, 100)]].map(|checks| {
            report(checks.into_iter().map(|(w, n)| check(Order::Random, w, n)).collect()).exit_code()
        });
        assert_eq!(codes, [ExitCode::Done, ExitCode::Refuted, ExitCode::Inconclusive]);
    }

    #[test]
    fn a_negative_test_that_does_not_err_is_broken() {
        assert_eq!(check(Order::Fixed, 80, 100).state(), PromiseState::Kept);
        assert_eq!(check(Order::Fixed, 900, 20_000).state(), PromiseState::Broken);
    }
}
