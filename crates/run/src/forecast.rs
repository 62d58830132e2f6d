//! Forecasts the smallest detectable difference within a budget, from a pilot of a few rounds.

use crate::work;
use fsarena_core::claim::{Claim, Quantity, Relation};
use fsarena_core::record::RunRecord;
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::power;

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
