//! When a run stops: by the clock and the number of rounds, and where its samples have a say, once they answer it. And
//! the smallest difference that it will have detected by then, from a pilot of a few rounds.

use crate::{claim_forecast::ClaimForecast, settings::setting, work};
use fsarena_core::cell::Variant;
use fsarena_core::claim::{Claim, Quantity, Relation};
use fsarena_core::observations::claim_series;
use fsarena_core::plan::{Plan, StopPlan};
use fsarena_core::{record::RunRecord, scale::Scale};
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::{power, table};
use std::time::Duration;

/// The rounds that a first answer about these variants requires, where the error is split among `split` runs. Where there
/// are too many variants for any, those of the first look.
pub fn rounds_for_an_answer(variants: &[Variant], split: usize) -> u32 {
    let candidates = variants.iter().filter(|variant| !variant.is_bare_device()).count();
    rounds_among(candidates, split)
}

/// The same for a number of candidates.
pub fn rounds_among(candidates: usize, split: usize) -> u32 {
    table::rounds_for_an_answer(split * candidates.saturating_sub(1)).unwrap_or(table::FIRST_LOOK) as u32
}

/// Decides before each round whether it is run.
#[derive(Debug, Clone)]
pub struct Stopping {
    plan: StopPlan,
    /// The rounds that a first answer requires, where no outlook has another number.
    needed: u32,
    longest: Duration,
    /// How long the first round took, and all rounds, and how many there were.
    first: Duration,
    all: Duration,
    rounds: u32,
}

impl Stopping {
    /// The rule of a plan whose first answer requires `needed` rounds.
    pub fn new(plan: &StopPlan, needed: u32) -> Stopping {
        let (plan, none) = (plan.clone(), Duration::ZERO);
        Stopping { plan, needed, longest: none, first: none, all: none, rounds: 0 }
    }

    /// Takes note of how long a whole round took.
    pub fn round_took(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
        if self.rounds == 0 {
            self.first = took;
        }
        self.all += took;
        self.rounds += 1;
    }

    /// Why round `number` is not run, `elapsed` after the beginning; none where it is. `outlook` is how the question
    /// stands, where the samples have a say.
    ///
    /// The first round after the warm-up always is: a run without one answers nothing. Without an outlook time alone decides, so
    /// that the samples cannot bias how many of them there are. With one the samples decide, and the
    /// intervals are made for that: see `docs/adr/0007`. A default budget may be exceeded where the first answer then is
    /// in reach.
    pub fn why(&self, number: u32, elapsed: Duration, outlook: Option<&ClaimForecast>) -> Option<String> {
        if let Some(why) = outlook.and_then(|outlook| outlook.answered.clone()) {
            return Some(why);
        }
        let open = outlook.map_or("", |outlook| &outlook.open);
        if number >= self.plan.all_rounds() {
            return Some(match self.plan.rounds {
                1 => format!("its one round is done{open}"),
                rounds => format!("all {rounds} rounds are done{open}"),
            });
        }
        let budget = self.plan.budget_s.filter(|_| number > self.plan.warmup)?;
        let missing = self.missing(number, outlook);
        // One slow round keeps no first answer away. With fewer variants than before a round takes less than those so far.
        let longest = if missing > 0 { self.usual() } else { self.longest.as_secs_f64() };
        let next = outlook.map_or(longest, |outlook| outlook.seconds);
        let answer_at = elapsed.as_secs_f64() + f64::from(missing) * next;
        let extended = self.plan.extended_s().filter(|extended| missing > 0 && answer_at <= *extended);
        let late = elapsed.as_secs_f64() + next > extended.unwrap_or(budget);
        late.then(|| format!("a further round would not have ended within the budget of {budget:.0} s{open}"))
    }

    /// The rounds that the first answer still requires before round `number`.
    fn missing(&self, number: u32, outlook: Option<&ClaimForecast>) -> u32 {
        let needed = outlook.map_or(self.needed, |outlook| outlook.needed);
        // Who asks for fewer rounds gets no more.
        if needed > self.plan.rounds {
            0
        } else {
            needed.saturating_sub(number.saturating_sub(self.plan.warmup))
        }
    }

    /// Whether the budget holds the rounds of a first answer, before round `number`. None where the run has no budget or
    /// has the answer, and before the first round after the warm-up is done.
    pub fn fit(
        &self,
        number: u32,
        elapsed: Duration,
        outlook: Option<&ClaimForecast>,
        work: &Work,
    ) -> Option<Fit> {
        let done = number.saturating_sub(self.plan.warmup);
        let (budget, extended) = (self.plan.budget_s?, self.plan.extended_s()?);
        let missing = self.missing(number, outlook);
        if done == 0 || missing == 0 {
            return None;
        }
        let (round, elapsed) =
            (outlook.map_or(self.usual(), |outlook| outlook.seconds), elapsed.as_secs_f64());
        let (needed, takes) = (done + missing, elapsed + f64::from(missing) * round);
        if takes <= budget {
            return Some(Fit::Holds);
        }
        if takes <= extended {
            return Some(Fit::Exceeds(format!(
                "A first answer takes {needed} rounds, about {}: this run exceeds its default budget of {} for it.",
                format_duration(takes),
                format_duration(budget)
            )));
        }
        let further = (budget - elapsed).max(0.0) / round.max(1e-3);
        Some(Fit::Short(Shortfall {
            round,
            budget,
            done,
            held: done + further as u32,
            needed,
            remedy: work.remedy(takes, round, budget),
        }))
    }

    /// The seconds of a usual round: the first one finds cold caches, so it counts only where it is the only one.
    fn usual(&self) -> f64 {
        match self.rounds {
            0 | 1 => self.all.as_secs_f64(),
            rounds => (self.all - self.first).as_secs_f64() / f64::from(rounds - 1),
        }
    }
}

/// How the rounds of a first answer fit a budget.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    /// It holds them.
    Holds,
    /// The run exceeds a default budget for them, in a sentence.
    Exceeds(String),
    /// It does not hold them.
    Short(Shortfall),
}

/// A budget that does not hold the rounds of a first answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortfall {
    /// Seconds of a round, and of the budget.
    round: f64,
    budget: f64,
    /// Rounds that are done, that the budget probably holds, and that the answer requires.
    done: u32,
    held: u32,
    needed: u32,
    /// What helps.
    pub remedy: String,
}

impl Shortfall {
    /// What to expect, before the rounds.
    pub fn ahead(&self) -> String {
        let Shortfall { held, needed, remedy, .. } = self;
        format!(
            "A round takes about {}, so the budget of {} holds about {held} of the {needed} rounds that a first answer \
             requires. For an answer: {remedy}.",
            seconds(self.round),
            format_duration(self.budget)
        )
    }

    /// What came of it, at the end of the run.
    pub fn afterwards(&self) -> String {
        let Shortfall { done, needed, .. } = self;
        let budget = format_duration(self.budget);
        format!("the budget of {budget} held {done} of the {needed} rounds that a first answer requires")
    }
}

/// What a run could do less of.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// The next smaller scale, where the work has one.
    pub smaller: Option<Scale>,
    /// How many variants are compared.
    pub candidates: usize,
    /// Runs among which the error is split.
    pub split: usize,
}

impl Work {
    /// The work of a plan whose variants are these.
    pub fn of(plan: &Plan, candidates: usize) -> Work {
        let scaled = plan.workloads.iter().any(|workload| workload.name != "command");
        let smaller = Scale::ALL.into_iter().find(|scale| scaled && *scale > plan.scale);
        Work { smaller, candidates, split: plan.error_split() }
    }

    /// What makes room for a first answer that takes this long in all, where a round takes `round` seconds.
    fn remedy(&self, takes: f64, round: f64, budget: f64) -> String {
        // Runs that share the error share the budget too.
        let mut ways = vec![setting("budget", &round_up_duration(1.1 * takes * self.split as f64))];
        ways.extend(self.smaller.map(|scale| setting("scale", scale.name())));
        let cell = round / self.candidates.max(1) as f64;
        let takes =
            |candidates: usize| cell * (candidates as u32 * rounds_among(candidates, self.split)) as f64;
        let fewer = (2..self.candidates).rev().find(|candidates| takes(*candidates) <= budget);
        ways.extend(fewer.map(|fewer| format!("fewer variants (about {fewer} fit)")));
        either(&ways)
    }
}

/// `a, b or c`.
fn either(ways: &[String]) -> String {
    match ways {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => ways.concat(),
    }
}

/// `0.4 s`, `4 s`, `2 min 30 s`.
fn seconds(seconds: f64) -> String {
    if seconds < 2.0 { format!("{seconds:.1} s") } else { format_duration(seconds) }
}

/// `2 min 30 s`.
pub fn format_duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, 0) => format!("{min} min"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

/// A budget that is not shorter than this time: `40s`, `4m`.
pub fn round_up_duration(seconds: f64) -> String {
    match seconds {
        short if short <= 90.0 => format!("{}s", 10.0 * (short / 10.0).ceil()),
        long => format!("{}m", (long / 60.0).ceil()),
    }
}

/// Says what `budget_s` seconds can resolve where a round takes `round_s`: of the claims the one whose d spreads
/// most, or where nothing is claimed, of the two variants that do, by the main metric of all tasks together. At
/// most the rounds of the plan are run. None under three rounds.
pub fn forecast(record: &RunRecord, round_s: f64, budget_s: f64) -> Option<String> {
    let budget_s = budget_s.min(f64::from(record.plan.stop.rounds) * round_s);
    let claimed = !record.plan.claims.is_empty();
    let claims = if claimed { record.plan.claims.clone() } else { pairs(record) };
    let judged = judge_all(claim_series(record, &claims));
    let spread = |judged: &&Judged| power::spread(&judged.d).unwrap_or(0.0);
    let widest = judged.iter().max_by(|a, b| spread(a).total_cmp(&spread(b)))?;
    let text = power::forecast(&widest.d, round_s, budget_s, wanted(widest, record))?.to_string();
    if claimed {
        return Some(text);
    }
    let (metric, variants) = (&widest.claim.subject.metric, widest.claim.variants().join(" against "));
    Some(format!("{text} ({metric} of all tasks, {variants}: the pair that varies most)"))
}

/// The difference that a claim asks for, as a fraction.
fn wanted(judged: &Judged, record: &RunRecord) -> f64 {
    let margin = record.plan.stop.margin();
    match &judged.claim.relation {
        Relation::Pair(pair) => pair.fraction().unwrap_or(margin),
        Relation::Extreme(_) => margin,
    }
}

/// Every two variants by the main metric.
fn pairs(record: &RunRecord) -> Vec<Claim> {
    let subject = Quantity::of_all(&work::main_of_run(record));
    let names: Vec<&str> = record.variants.iter().map(|variant| variant.name.as_str()).collect();
    let pairs = (0..names.len()).flat_map(|i| (i + 1..names.len()).map(move |j| (i, j)));
    pairs.map(|(i, j)| Claim::same(subject.clone(), names[i], names[j], None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn rule(rounds: u32, budget_s: Option<f64>) -> Stopping {
        Stopping::new(&StopPlan { rounds, budget_s, ..StopPlan::default() }, 8)
    }

    #[test]
    fn the_number_of_rounds_ends_a_run() {
        assert_eq!(rule(2, None).why(1, Duration::from_secs(9999), None), None);
        assert!(rule(2, None).why(2, Duration::ZERO, None).is_some());
    }

    #[test]
    fn no_round_is_started_that_would_end_too_late() {
        let mut rule = rule(30, Some(100.0));
        rule.round_took(Duration::from_secs(30));
        rule.round_took(Duration::from_secs(20));
        assert_eq!(rule.why(8, Duration::from_secs(69), None), None);
        assert!(rule.why(8, Duration::from_secs(71), None).is_some());
        // Before the first answer a usual round counts, not the longest.
        assert_eq!(rule.why(7, Duration::from_secs(79), None), None);
        assert!(rule.why(7, Duration::from_secs(81), None).is_some());
    }

    #[test]
    fn a_default_budget_is_exceeded_by_a_quarter_for_the_first_answer_only() {
        let stop =
            StopPlan { rounds: 30, budget_s: Some(100.0), default_budget: true, ..StopPlan::default() };
        let runs = |stop: &StopPlan, needed, number, elapsed| {
            let mut rule = Stopping::new(stop, needed);
            rule.round_took(Duration::from_secs(13));
            rule.why(number, Duration::from_secs(elapsed), None).is_none()
        };
        // Seven rounds took 91 s; the eighth ends at 104 s.
        assert!(runs(&stop, 8, 7, 91));
        assert!(!runs(&stop, 8, 8, 104), "the answer is there");
        assert!(!runs(&stop, 10, 7, 91), "three more rounds end at 130 s, beyond a quarter more");
        assert!(runs(&stop, 9, 7, 91), "two more end at 117 s");
        let own = StopPlan { default_budget: false, ..stop };
        assert!(!runs(&own, 8, 7, 91), "a budget of the user is kept");
    }

    #[test]
    fn what_the_budget_does_not_hold_is_said_with_what_would() {
        let fit = |default_budget, rounds: &[f64], work: Work| {
            let stop = StopPlan { rounds: 30, budget_s: Some(100.0), default_budget, ..StopPlan::default() };
            let mut rule = Stopping::new(&stop, 10);
            assert_eq!(rule.fit(0, Duration::ZERO, None, &work), None);
            rounds.iter().for_each(|seconds| rule.round_took(Duration::from_secs_f64(*seconds)));
            let elapsed = Duration::from_secs_f64(rounds.iter().sum());
            rule.fit(rounds.len() as u32, elapsed, None, &work)
        };
        let short = |rounds: &[f64], work| match fit(false, rounds, work) {
            Some(Fit::Short(short)) => short,
            other => panic!("{other:?}"),
        };
        let work = Work { smaller: Some(Scale::Tiny), candidates: 6, split: 1 };
        assert_eq!(fit(false, &[10.0], work), Some(Fit::Holds));
        assert_eq!(
            short(&[20.0], work).ahead(),
            "A round takes about 20 s, so the budget of 1 min 40 s holds about 5 of the 10 rounds that a first answer \
             requires. For an answer: budget=4m, scale=tiny or fewer variants (about 3 fit)."
        );
        assert_eq!(short(&[40.0], Work { smaller: None, candidates: 2, split: 1 }).remedy, "budget=8m");
        assert_eq!(short(&[40.0], Work { smaller: None, candidates: 2, split: 2 }).remedy, "budget=15m");
        assert_eq!(fit(false, &[20.0, 8.0], work), Some(Fit::Holds), "the first round found cold caches");
        assert_eq!(
            short(&[20.0, 20.0, 20.0, 20.0], work).afterwards(),
            "the budget of 1 min 40 s held 4 of the 10 rounds that a first answer requires"
        );
        assert_eq!(
            fit(true, &[12.0], work),
            Some(Fit::Exceeds(
                "A first answer takes 10 rounds, about 2 min: this run exceeds its default budget of 1 min 40 s for it."
                    .into()
            ))
        );
        assert_eq!(fit(true, &[10.0; 10], work), None, "the answer is there");
    }

    #[test]
    fn the_first_round_and_those_that_warm_up_are_always_run() {
        let mut plan = StopPlan { rounds: 8, budget_s: Some(1.0), ..StopPlan::default() };
        let late = |plan: &StopPlan, number| Stopping::new(plan, 8).why(number, Duration::from_secs(5), None);
        assert_eq!(late(&plan, 0), None);
        plan.warmup = 2;
        assert_eq!([1, 2].map(|number| late(&plan, number)), [None, None]);
        assert!(late(&plan, 3).is_some());
        plan.budget_s = None;
        assert_eq!(late(&plan, 9), None);
        assert!(late(&plan, 10).unwrap().starts_with("all 8 rounds are done"));
    }

    fn outlook(open: &str, seconds: f64) -> ClaimForecast {
        ClaimForecast { open: open.into(), seconds, needed: 8, ..ClaimForecast::default() }
    }

    #[test]
    fn an_answered_question_ends_a_run() {
        let answered = ClaimForecast { answered: Some("every claim is decided".into()), ..outlook("", 1.0) };
        assert_eq!(
            rule(400, None).why(9, Duration::ZERO, Some(&answered)).unwrap(),
            "every claim is decided"
        );
        assert_eq!(rule(400, None).why(9, Duration::ZERO, Some(&outlook("; x", 1.0))), None);
    }

    #[test]
    fn what_is_left_open_is_told() {
        let one = outlook("; one claim is left open", 30.0);
        assert_eq!(
            rule(9, None).why(9, Duration::ZERO, Some(&one)).unwrap(),
            "all 9 rounds are done; one claim is left open"
        );
        let mut rule = rule(400, Some(100.0));
        rule.round_took(Duration::from_secs(90));
        assert_eq!(rule.why(9, Duration::from_secs(70), Some(&one)), None, "fewer variants, shorter round");
        let late = outlook("; 2 claims are left open", 31.0);
        assert!(
            rule.why(9, Duration::from_secs(70), Some(&late))
                .unwrap()
                .ends_with("100 s; 2 claims are left open")
        );
    }

    const THREE: [(&str, f64); 3] = [("ext2", 1.0), ("ext4", 1.0), ("xfs", 1.5)];

    #[test]
    fn the_forecast_is_about_what_is_hardest() {
        let claims = ["touch.elapsed: ext2 < ext4"];
        let text = forecast(&record(&THREE, &claims, 3).0, 10.0, 600.0).unwrap();
        assert!(text.starts_with("smallest detectable difference in 10 minutes: 0."), "{text}");
        assert!(text.contains("; 1% requires ") && !text.contains("against"), "{text}");
        assert_eq!(forecast(&record(&THREE, &claims, 2).0, 10.0, 600.0), None);
    }

    #[test]
    fn without_claims_it_is_about_the_pair_that_varies_most() {
        let text = forecast(&record(&THREE, &[], 3).0, 10.0, 600.0).unwrap();
        assert!(text.contains("(elapsed of all tasks, "), "{text}");
        assert!(text.contains(" against ") && text.contains("detectable difference"), "{text}");
    }

    #[test]
    fn a_run_does_not_go_on_beyond_its_rounds() {
        // 400 rounds of a second, though the budget has room for more.
        let text = forecast(&record(&THREE, &[], 3).0, 1.0, 3600.0).unwrap();
        assert!(text.contains(" in 400 seconds"), "{text}");
    }
}
