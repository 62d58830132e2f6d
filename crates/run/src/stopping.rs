//! When a run stops: by the clock and the number of rounds, and where its samples have a say, once they answer it. And
//! the smallest difference that it will have detected by then, from a pilot of a few rounds.

use crate::{deciding::Outlook, work};
use fsarena_core::claim::{Claim, Quantity, Relation};
use fsarena_core::{plan::StopPlan, record::RunRecord};
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::power;
use std::time::Duration;

/// Decides before each round whether it is run.
#[derive(Debug, Clone)]
pub struct Stopping {
    plan: StopPlan,
    longest: Duration,
}

impl Stopping {
    /// The rule of a plan.
    pub fn new(plan: &StopPlan) -> Stopping {
        Stopping { plan: plan.clone(), longest: Duration::ZERO }
    }

    /// Takes note of how long a whole round took.
    pub fn round_took(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
    }

    /// Why round `number` is not run, `elapsed` after the beginning; none where it is. `outlook` is how the question
    /// stands, where the samples have a say.
    ///
    /// The first round after the warm-up always is: a run without one answers nothing. Without an outlook time alone decides, so
    /// that the samples cannot bias how many of them there are. With one the samples decide, and the
    /// intervals are made for that: see `docs/adr/0007`.
    pub fn why(&self, number: u32, elapsed: Duration, outlook: Option<&Outlook>) -> Option<String> {
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
        // With fewer variants than before a round takes less than the longest so far.
        let next = outlook.map_or(self.longest.as_secs_f64(), |outlook| outlook.seconds);
        let late = elapsed.as_secs_f64() + next > budget;
        late.then(|| format!("a further round would not have ended within the budget of {budget:.0} s{open}"))
    }
}

/// Says what `budget_s` seconds can resolve where a round takes `round_s`: of the claims the one whose d spreads
/// most, or where nothing is claimed, of the two variants that do, by the main metric of all tasks together. At
/// most the rounds of the plan are run. None under three rounds.
pub fn forecast(record: &RunRecord, round_s: f64, budget_s: f64) -> Option<String> {
    let budget_s = budget_s.min(f64::from(record.plan.stop.rounds) * round_s);
    let claimed = !record.plan.claims.is_empty();
    let claims = if claimed { record.plan.claims.clone() } else { pairs(record) };
    let judged = judge_all(record, &claims);
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
    let metrics = work::metrics(&record.plan);
    let names: Vec<&str> = record.variants.iter().map(|variant| variant.name.as_str()).collect();
    let pairs = (0..names.len()).flat_map(|i| (i + 1..names.len()).map(move |j| (i, j)));
    let subject = |metric: &&str| Quantity::of_all(metric);
    let Some(subject) = metrics.first().map(subject) else { return vec![] };
    pairs.map(|(i, j)| Claim::same(subject.clone(), names[i], names[j], None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn rule(rounds: u32, budget_s: Option<f64>) -> Stopping {
        Stopping::new(&StopPlan { rounds, budget_s, ..StopPlan::default() })
    }

    #[test]
    fn the_number_of_rounds_ends_a_run() {
        assert_eq!(rule(2, None).why(1, Duration::from_secs(9999), None), None);
        assert!(rule(2, None).why(2, Duration::ZERO, None).is_some());
    }

    #[test]
    fn no_round_is_started_that_would_end_too_late() {
        let mut rule = rule(8, Some(100.0));
        rule.round_took(Duration::from_secs(30));
        rule.round_took(Duration::from_secs(20));
        assert_eq!(rule.why(2, Duration::from_secs(69), None), None);
        assert!(rule.why(2, Duration::from_secs(71), None).is_some());
    }

    #[test]
    fn the_first_round_and_those_that_warm_up_are_always_run() {
        let mut plan = StopPlan { rounds: 8, budget_s: Some(1.0), ..StopPlan::default() };
        let late = |plan: &StopPlan, number| Stopping::new(plan).why(number, Duration::from_secs(5), None);
        assert_eq!(late(&plan, 0), None);
        plan.warmup = 2;
        assert_eq!([1, 2].map(|number| late(&plan, number)), [None, None]);
        assert!(late(&plan, 3).is_some());
        plan.budget_s = None;
        assert_eq!(late(&plan, 9), None);
        assert!(late(&plan, 10).unwrap().starts_with("all 8 rounds are done"));
    }

    fn outlook(open: &str, seconds: f64) -> Outlook {
        Outlook { answered: None, open: open.into(), variants: Default::default(), seconds }
    }

    #[test]
    fn an_answered_question_ends_a_run() {
        let answered = Outlook { answered: Some("every claim is decided".into()), ..outlook("", 1.0) };
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
