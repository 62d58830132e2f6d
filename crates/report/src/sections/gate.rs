//! The section with the result of a gate: whether the candidate is worse than the baseline by at most the margin of each
//! claim.

use crate::document::{Detail, Document};
use crate::number::{effect_and_interval, percent, plural, signed_percent, three_digits};
use crate::report::Report;
use fsarena_stats::critical_values::LAST_LOOK_ROUNDS;
use fsarena_stats::power::{rounds_to_pass, spread};
use fsarena_stats::verdict::{self, GateBounds, Outcome, Verdict};
use fsarena_stats::{gate::gate_outcome, judge::JudgedClaim};
use serde_json::{Value, json};

/// The claims of the run's gate; empty if it has none.
fn gate_claims(report: &Report) -> Vec<&JudgedClaim> {
    let is_of_gate = |judged: &&JudgedClaim| report.record.plan.gate_error_split(&judged.claim).is_some();
    report.claims.iter().filter(is_of_gate).collect()
}

/// Adds the result in a sentence, and a line for each claim.
pub fn add_gate(document: &mut Document, report: &Report, _: Detail) {
    let claims = gate_claims(report);
    if claims.is_empty() {
        return;
    }
    let outcome = gate_outcome(claims.iter().map(|judged| judged.outcome()));
    document.heading(3, format!("Gate {}", gate_outcome_name(outcome)));
    document.text(gate_summary(outcome, &claims));
    document.list(claims.iter().map(|judged| claim_sentence(judged, report.margin)).collect());
}

/// The word for the outcome of a gate or of one of its claims.
fn gate_outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held | Outcome::Equivalent => "passed",
        Outcome::Refuted => "failed",
        Outcome::Inconclusive => "inconclusive",
    }
}

/// A sentence about the whole gate.
fn gate_summary(outcome: Outcome, claims: &[&JudgedClaim]) -> String {
    let count = |outcome: Outcome| claims.iter().filter(|judged| judged.outcome() == outcome).count();
    let claim_count = plural(claims.len(), "claim");
    match outcome {
        Outcome::Held | Outcome::Equivalent if claims.len() == 1 => {
            "With 95% confidence the candidate is within the margin.".into()
        }
        Outcome::Held | Outcome::Equivalent => {
            format!("With 95% confidence the candidate is within the margin of each of the {claim_count}.")
        }
        Outcome::Refuted if claims.len() == 1 => {
            "With 95% confidence the candidate is worse than the baseline by more than the margin.".into()
        }
        Outcome::Refuted => format!(
            "In {} of {claim_count} the candidate is worse than the baseline by more than the margin, with 95% confidence for all \
             claims together.",
            count(Outcome::Refuted)
        ),
        Outcome::Inconclusive => format!("The run cannot decide {} of {claim_count}.", count(Outcome::Inconclusive)),
    }
}

/// A line about one claim: `total.elapsed passed: +0.12%, at most +0.31%; margin 0.5%`.
fn claim_sentence(judged: &JudgedClaim, margin: f64) -> String {
    let (name, outcome) = (&judged.claim.subject, gate_outcome_name(judged.outcome()));
    let margin = judged.claim.margin_or(margin);
    let round_noun = judged.column_noun;
    let result = match (&judged.verdict, &judged.why_unjudged) {
        (Some(verdict), _) => format!("{}, {}", describe_bounds(verdict), plural(verdict.rounds, round_noun)),
        // Without a verdict there always is a reason.
        (None, why_unjudged) => why_unjudged.clone().unwrap_or_default(),
    };
    let needed = match (judged.is_inconclusive(), spread(&judged.d)) {
        (true, Some(spread)) => match rounds_to_pass(spread, margin) {
            Some(rounds) => {
                format!("; with this spread, an equal candidate passes in about {}", plural(rounds, round_noun))
            }
            None => format!("; with this spread, {} do not suffice", plural(LAST_LOOK_ROUNDS, round_noun)),
        },
        _ => String::new(),
    };
    format!("{name} {outcome}: {result}; margin {}{needed}", percent(margin))
}

/// The effect of a claim of a gate, and the bounds that decide it: `+0.12%, at most +0.31%`. Without bounds, the effect and its
/// interval.
pub fn describe_bounds(verdict: &Verdict) -> String {
    let (value, range) = effect_and_interval(verdict.effect, verdict.interval, &verdict.edges);
    let Some(GateBounds { low, high }) = verdict.gate.filter(|gate| gate.low.or(gate.high).is_some()) else {
        return format!("{value} [{range}]");
    };
    // `edges` are the lower and the upper end of the claim's region. A claim of the form `<=` has only an upper end, and one
    // of the form `>=` only a lower end; a gate has no others. The bound that decides the claim is shown: the one towards
    // this end if it holds, the other one if it is refuted, and both if it is inconclusive.
    let has_upper_margin = verdict.edges[1].is_finite();
    let (low, high) = match verdict.outcome {
        Outcome::Held if has_upper_margin => (None, high),
        Outcome::Held => (low, None),
        Outcome::Refuted if has_upper_margin => (low, None),
        Outcome::Refuted => (None, high),
        _ => (low, high),
    };
    let mut parts = vec![value];
    let as_factors = parts[0].ends_with('×');
    let format_bound = |bound: f64| {
        if as_factors { format!("{}×", three_digits(1.0 + bound)) } else { signed_percent(bound, &verdict.edges) }
    };
    parts.extend(low.map(|low| format!("at least {}", format_bound(low))));
    parts.extend(high.map(|high| format!("at most {}", format_bound(high))));
    parts.join(", ")
}

/// The gate as JSON; null if the run has none.
pub fn gate_json(report: &Report) -> Value {
    let claims = gate_claims(report);
    if claims.is_empty() {
        return Value::Null;
    }
    let outcome = gate_outcome(claims.iter().map(|judged| judged.outcome()));
    let claim_json = |judged: &&JudgedClaim| {
        let bounds = judged.verdict.and_then(|verdict| verdict.gate);
        let ratio = |bound: fn(GateBounds) -> Option<f64>| bounds.and_then(bound).map(|bound| 1.0 + bound);
        json!({
            "quantity": judged.claim.subject.to_string(),
            "margin_percent": 100.0 * judged.claim.margin_or(report.margin),
            "outcome": gate_outcome_name(judged.outcome()),
            "exit": verdict::exit_code(&[judged.outcome()]).code(),
            "effect_ratio": judged.verdict.map(|verdict| 1.0 + verdict.effect),
            "lower_bound_ratio": ratio(|bounds| bounds.low),
            "upper_bound_ratio": ratio(|bounds| bounds.high),
            "rounds": judged.verdict.map(|verdict| verdict.rounds),
        })
    };
    json!({
        "outcome": gate_outcome_name(outcome),
        "exit": verdict::exit_code(&[outcome]).code(),
        "claims": claims.iter().map(claim_json).collect::<Vec<_>>(),
    })
}
