//! Forecasts the next round: which claims are open, and which variants the round runs to decide them.

use fsarena_core::claim::{Claim, Relation};
use fsarena_core::event::{Activity, ClaimStatus};
use fsarena_core::observations::claim_series;
use fsarena_core::record::RunRecord;
use fsarena_stats::comparison::median;
use fsarena_stats::judge::{JudgedClaim, judge_claims};
use fsarena_stats::{critical_values::FIRST_LOOK_ROUNDS, power, verdict::Outcome, verdict::Region};
use std::collections::{BTreeMap, BTreeSet};

/// Limits the time of a variant's only round to this many times the median of all variants, because the round may have
/// run with cold caches.
const MAX_TIMES_MEDIAN: f64 = 3.0;

/// Names of variants.
pub type VariantNames = BTreeSet<String>;

/// The forecast of the next round: whether the round helps to answer the question of the run, and which variants it
/// runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RoundForecast {
    /// Why further rounds do not help to answer the question; None if they do.
    pub answered: Option<String>,
    /// The end of the reason to stop, such as `all 9 rounds are done`: a clause that counts what is open, with its semicolon:
    /// `; one claim is left open`.
    pub open_clause: String,
    /// The variants that the next round runs.
    pub variants: VariantNames,
    /// Seconds that the next round will probably take.
    pub round_s: f64,
    /// The number of rounds that a first answer requires, warm-up rounds not counted.
    pub rounds_needed: u32,
    /// The variants that leave the run because the budget is too short for them.
    pub dropped_for_time: VariantNames,
}

/// A claim that further rounds can decide.
struct OpenClaim {
    /// The live variants that it compares.
    variants: VariantNames,
    /// Rounds that will probably decide it.
    rounds: f64,
}

/// Forecasts round number `round` (counted from 0 after the warm-up) from the samples so far. `live` are the variants
/// that have not failed. `budget_left_s` is the rest of the budget in seconds; None without a budget.
///
/// Before the first look of the sequential test every variant runs. From then on a round runs only the variants of open
/// claims. If the budget is too short to decide all claims, the round runs those that cost the fewest seconds to
/// decide.
pub fn forecast_claims(
    record: &RunRecord,
    live: &VariantNames,
    round: u32,
    budget_left_s: Option<f64>,
) -> RoundForecast {
    let is_before_first_look = (round as usize) < FIRST_LOOK_ROUNDS;
    let (mut open, mut undecidable, mut gate_failure) = (Vec::new(), 0, None);
    for judged in judge_claims(claim_series(record, &record.plan.claims)) {
        if judged.belongs_to_gate() && judged.outcome() == Outcome::Refuted {
            // One refuted claim fails the gate, whatever the others are.
            gate_failure.get_or_insert(format!("the gate fails: {} is refuted", judged.claim.text));
        }
        if !judged.is_inconclusive() {
            continue;
        }
        let lacks_variant = judged.claim.variants().iter().any(|variant| !live.contains(*variant));
        let names = judged.variants_to_measure.iter().map(|variant| record.variants[*variant].name.clone());
        let variants: VariantNames = names.filter(|variant| live.contains(variant)).collect();
        let is_unjudged = judged.why_unjudged.is_some();
        let lacks_rival = matches!(judged.claim.relation, Relation::Extreme(_)) && !is_unjudged && variants.len() < 2;
        if lacks_variant || lacks_rival || (is_unjudged && !is_before_first_look) {
            // No round can decide the claim: one of its variants or all rivals of its variant have left the run, or it
            // has no samples.
            undecidable += 1;
            continue;
        }
        open.push(OpenClaim { variants, rounds: rounds_to_decide(&judged, record.plan.stop.margin()) });
    }
    let seconds_of = |variants: &VariantNames| round_seconds(record, variants);
    let variants =
        if is_before_first_look { live.clone() } else { choose_variants(&mut open, &seconds_of, budget_left_s) };
    RoundForecast {
        answered: gate_failure.or(match (open.len(), undecidable) {
            (0, 0) => Some("every claim is decided".into()),
            (0, 1) => Some("every claim is decided but one, which no round can decide".into()),
            (0, undecidable) => Some(format!("every claim is decided but {undecidable}, which no round can decide")),
            _ => None,
        }),
        open_clause: match open.len() + undecidable {
            1 => "; one claim is left open".into(),
            open => format!("; {open} claims are left open"),
        },
        round_s: seconds_of(&variants),
        rounds_needed: FIRST_LOOK_ROUNDS as u32,
        dropped_for_time: VariantNames::new(),
        variants,
    }
}

/// The seconds that a round of these variants probably takes.
pub fn round_seconds(record: &RunRecord, variants: &VariantNames) -> f64 {
    variants.iter().map(|variant| mean_round_s(record, variant)).sum()
}

/// The seconds that each round spent on a variant, by the number of the round.
fn variant_rounds_s(record: &RunRecord, variant: &str) -> BTreeMap<u32, f64> {
    let mut rounds: BTreeMap<u32, u64> = BTreeMap::new();
    for cell in record.cells.iter().filter(|cell| record.variant_name(cell.variant) == variant) {
        *rounds.entry(cell.round).or_default() += cell.spent_on(Activity::Total);
    }
    rounds.into_iter().map(|(round, ns)| (round, ns as f64 / 1e9)).collect()
}

/// The mean seconds that a round spent on a variant; 0 if the variant has not run.
fn mean_round_s(record: &RunRecord, variant: &str) -> f64 {
    let rounds = variant_rounds_s(record, variant);
    rounds.values().sum::<f64>() / rounds.len().max(1) as f64
}

/// The seconds that a further round will probably spend on a variant: those of its fastest round, because the first one runs
/// with cold caches. A variant with a single round counts as at most three times the median of all. None if the variant
/// has not run.
pub fn expected_round_s(record: &RunRecord, variant: &str) -> Option<f64> {
    let fastest = |rounds: &BTreeMap<u32, f64>| rounds.values().copied().reduce(f64::min);
    let rounds = variant_rounds_s(record, variant);
    let fastest_s = fastest(&rounds)?;
    if rounds.len() > 1 {
        return Some(fastest_s);
    }
    let names = record.variant_names().into_iter();
    let fastest_of_all_s: Vec<f64> = names.filter_map(|name| fastest(&variant_rounds_s(record, name))).collect();
    Some(fastest_s.min(MAX_TIMES_MEDIAN * median(&fastest_of_all_s).unwrap_or(fastest_s)))
}

/// Chooses the variants of the next round: those of the claims that take the fewest seconds to decide. It takes as many
/// claims as can all be decided in `budget_left_s` seconds, but at least one. `seconds_of` returns the seconds of a
/// round of variants.
fn choose_variants(
    open: &mut [OpenClaim],
    seconds_of: &dyn Fn(&VariantNames) -> f64,
    budget_left_s: Option<f64>,
) -> VariantNames {
    let seconds_to_decide = |claim: &OpenClaim| claim.rounds * seconds_of(&claim.variants);
    open.sort_by(|a, b| seconds_to_decide(a).total_cmp(&seconds_to_decide(b)));
    let (mut variants, mut rounds) = (BTreeSet::new(), 0.0f64);
    for claim in open.iter() {
        let all_variants: VariantNames = variants.union(&claim.variants).cloned().collect();
        let most_rounds = rounds.max(claim.rounds);
        // A claim whose variants all run anyway takes no further time.
        let in_time = || budget_left_s.is_none_or(|left_s| most_rounds * seconds_of(&all_variants) <= left_s);
        if variants.is_empty() || all_variants == variants || in_time() {
            (variants, rounds) = (all_variants, most_rounds);
        }
    }
    variants
}

/// The number of further rounds that will probably decide a claim, at least 1; infinite if the sequential test cannot
/// decide it within its last look.
fn rounds_to_decide(judged: &JudgedClaim, margin: f64) -> f64 {
    let Some((verdict, spread)) = judged.verdict.zip(power::spread(&judged.d)) else { return 1.0 };
    let needed = |distance: f64| power::rounds_to_detect(spread, distance.exp_m1());
    let distances = distances(&judged.claim, verdict.effect.ln_1p(), margin);
    let fewest = distances.into_iter().filter_map(needed).min().map_or(f64::INFINITY, |rounds| rounds as f64);
    (fewest - verdict.rounds as f64).max(1.0)
}

/// The distances from the estimate `theta` (the logarithm of a ratio) to the thresholds that could decide the claim.
fn distances(claim: &Claim, theta: f64, margin: f64) -> Vec<f64> {
    let (region, centre) = match &claim.relation {
        Relation::Pair(pair) => (Region::of_claim(pair, Some(margin)), pair.factor.ln()),
        Relation::Extreme(_) => (Region::around(0.0, 0.0), 0.0),
    };
    let nearest = (theta - region.low).abs().min((theta - region.high).abs());
    let mut distances = vec![nearest];
    // Proof that the variants are equivalent decides strict claims too.
    let inside = margin.ln_1p() - (theta - centre).abs();
    if inside > 0.0 {
        distances.push(inside);
    }
    distances
}

/// The status of each claim, for displays.
pub fn claim_statuses(record: &RunRecord) -> Vec<ClaimStatus> {
    judge_claims(claim_series(record, &record.plan.claims))
        .into_iter()
        .map(|judged| ClaimStatus {
            claim: judged.claim.text.clone(),
            outcome: judged.outcome(),
            open: judged.is_inconclusive(),
            rounds: judged.verdict.map_or(0, |verdict| verdict.rounds as u32),
            provisional: judged.verdict.is_none_or(|verdict| verdict.provisional),
            effect: judged.verdict.map(|verdict| (verdict.effect, verdict.interval.0, verdict.interval.1)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EXT2_EXT4_XFS, simulated_run};

    fn names(variants: &VariantNames) -> Vec<&str> {
        variants.iter().map(String::as_str).collect()
    }

    #[test]
    fn every_variant_runs_until_the_first_look() {
        let (record, live) = simulated_run(&EXT2_EXT4_XFS, &["touch.elapsed: ext2 < xfs"], 7);
        let forecast = forecast_claims(&record, &live, 7, None);
        assert_eq!(names(&forecast.variants), ["ext2", "ext4", "xfs"]);
        assert_eq!((forecast.answered, forecast.open_clause.as_str()), (None, "; one claim is left open"));
    }

    #[test]
    fn only_variants_of_open_claims_run_on() {
        let claims = ["touch.elapsed: ext2 < xfs", "touch.elapsed: ext2 < ext4"];
        let (record, live) = simulated_run(&EXT2_EXT4_XFS, &claims, 8);
        let forecast = forecast_claims(&record, &live, 8, None);
        assert_eq!((names(&forecast.variants), forecast.answered), (vec!["ext2", "ext4"], None));
    }

    #[test]
    fn no_variant_runs_when_every_claim_is_decided() {
        let claims = ["touch.elapsed: ext2 < xfs", "touch.elapsed: worst is xfs"];
        let (record, live) = simulated_run(&EXT2_EXT4_XFS, &claims, 8);
        let forecast = forecast_claims(&record, &live, 8, None);
        assert_eq!(forecast.answered.as_deref(), Some("every claim is decided"));
        assert!(forecast.variants.is_empty());
    }

    #[test]
    fn a_gate_ends_the_run_as_soon_as_one_of_its_claims_is_refuted() {
        let claims = ["touch.elapsed: xfs <= ext2 within 5%", "touch.elapsed: ext4 <= ext2 within 0.0001%"];
        let (mut record, live) = simulated_run(&EXT2_EXT4_XFS, &claims, 8);
        assert_eq!(forecast_claims(&record, &live, 8, None).answered, None);
        record.plan.stop.has_gate = true;
        let answered = forecast_claims(&record, &live, 8, None).answered;
        assert_eq!(answered.as_deref(), Some("the gate fails: touch.elapsed: xfs <= ext2 within 5% is refuted"));
    }

    #[test]
    fn a_claim_whose_variant_failed_cannot_be_decided() {
        let claims = ["touch.elapsed: ext2 < ext4"];
        let (record, mut live) = simulated_run(&EXT2_EXT4_XFS, &claims, 8);
        live.remove("ext4");
        let forecast = forecast_claims(&record, &live, 8, None);
        assert!(forecast.answered.unwrap().starts_with("every claim is decided but one"));
        assert!(forecast.variants.is_empty());
    }

    #[test]
    fn a_claim_whose_rivals_all_failed_cannot_be_decided() {
        let (record, mut live) = simulated_run(&EXT2_EXT4_XFS, &["touch.elapsed: best is ext2"], 8);
        let forecast = forecast_claims(&record, &live, 8, None);
        assert_eq!((names(&forecast.variants), forecast.answered), (vec!["ext2", "ext4"], None));
        // xfs was slower in all rounds, so only ext4 could decide the claim.
        live.remove("ext4");
        let forecast = forecast_claims(&record, &live, 8, None);
        assert!(forecast.answered.unwrap().starts_with("every claim is decided but one"));
    }

    #[test]
    fn the_seconds_of_a_round_are_those_of_its_cells() {
        let (record, _) = simulated_run(&EXT2_EXT4_XFS, &[], 2);
        assert_eq!((mean_round_s(&record, "ext4"), mean_round_s(&record, "btrfs")), (2.0, 0.0));
    }

    fn open_claim(variants: &[&str], rounds: f64) -> OpenClaim {
        OpenClaim { variants: variants.iter().map(|variant| variant.to_string()).collect(), rounds }
    }

    #[test]
    fn a_short_budget_goes_to_the_cheapest_claims() {
        // A round takes one second for each variant, so the claims take 2·30 s and 2·10 s. Both together need 30 rounds
        // of 4 s.
        let seconds_of = |variants: &VariantNames| variants.len() as f64;
        let mut open = [open_claim(&["a", "b"], 30.0), open_claim(&["c", "d"], 10.0)];
        assert_eq!(names(&choose_variants(&mut open, &seconds_of, Some(119.0))), ["c", "d"]);
        assert_eq!(names(&choose_variants(&mut open, &seconds_of, Some(120.0))), ["a", "b", "c", "d"]);
        assert_eq!(names(&choose_variants(&mut open, &seconds_of, None)), ["a", "b", "c", "d"]);
        // The budget is too short for any claim: the one that takes the least time runs.
        assert_eq!(names(&choose_variants(&mut open, &seconds_of, Some(1.0))), ["c", "d"]);
        // A claim on variants that run anyway takes no further time.
        let mut shared = [open_claim(&["c", "d"], f64::INFINITY), open_claim(&["c", "d"], 10.0)];
        assert_eq!(names(&choose_variants(&mut shared, &seconds_of, Some(30.0))), ["c", "d"]);
    }

    #[test]
    fn distances_are_to_the_thresholds_that_decide_a_claim() {
        let distances = |text: &str, margin| super::distances(&text.parse().unwrap(), 0.1, margin);
        assert_eq!(distances("x: a < b", 0.01), [0.1]);
        assert_eq!(distances("x: best is a", 0.01), [0.1]);
        let is_near = |distance: f64, expected: f64| (distance - expected).abs() < 1e-12;
        assert!(is_near(distances("x: a < b by 5%", 0.01)[0], 0.1 - 0.95f64.ln()));
        let equal = distances("x: a == b within 20%", 0.2);
        assert!(is_near(equal[0], 1.2f64.ln() - 0.1) && is_near(equal[1], 1.2f64.ln() - 0.1));
    }

    #[test]
    fn the_status_of_every_claim_is_listed() {
        let (record, _) = simulated_run(&EXT2_EXT4_XFS, &["touch.elapsed: ext2 < xfs", "touch.user: ext2 < xfs"], 8);
        let statuses = claim_statuses(&record);
        assert_eq!((statuses[0].outcome.name(), statuses[0].open, statuses[0].rounds), ("held", false, 8));
        assert_eq!((statuses[1].outcome.name(), statuses[1].effect), ("inconclusive", None));
    }
}
