//! The sections with the claims of a run and their verdicts, and with the conclusions of the study's author, checked on the
//! published figures and on this run.

use crate::document::{Cell, Detail, Document, Table, row};
use crate::number::{effect_and_interval, percent, plural, signed_percent, three_digits};
use crate::{chart_context::widen_range, charts::differences::claim_source, figures::unseen_stalls};
use crate::{report::Report, sections::gate::describe_bounds};
use fsarena_core::{claim::Relation, conclusion::Conclusion};
use fsarena_stats::conclusion::{CheckedConclusion, Comparisons, ConclusionVerdict};
use fsarena_stats::critical_values::FIRST_LOOK_ROUNDS;
use fsarena_stats::judge::{JudgedClaim, decided_in_family};
use fsarena_stats::verdict::{Outcome, Verdict};
use serde_json::{Value, json};

/// Adds a table of claims and verdicts, the verdict on all claims together, and why the run stopped.
pub fn add_claims(document: &mut Document, report: &Report, _: Detail) {
    if report.claims.is_empty() {
        return;
    }
    let row = |judged: &JudgedClaim| {
        let verdict = Cell::from(judged.outcome().name()).strong_if(!judged.is_inconclusive());
        let effect =
            Cell { lines: claim_lines(judged), ..Cell::default() }.with_source(claim_source(&report.record, judged));
        row![judged.claim.text.as_str(), verdict, effect]
    };
    let header = ["claim", "verdict", "left divided by right, 95% interval"];
    document.table(Table::of_words(header).with_rows(report.claims.iter().map(row)));
    let stopped = format!("The run stopped because: {}.", report.record.status.why);
    document.list(family_sentence(&report.claims).into_iter().chain([stopped]).collect());
}

/// The verdict of one claim as lines of text, the effect first.
pub fn claim_lines(judged: &JudgedClaim) -> Vec<String> {
    let Some(verdict) = &judged.verdict else { return judged.why_unjudged.iter().cloned().collect() };
    let unit = judged.column_noun;
    let rival = match (&judged.claim.relation, &judged.rival) {
        (Relation::Extreme(_), Some(rival)) => format!(" against {rival}"),
        _ => String::new(),
    };
    let mut lines = vec![format!("{}{rival}, {}", describe_effect(verdict), plural(verdict.rounds, unit))];
    let outcome_with_all_rounds = judged.outcome_with_all_rounds.filter(|outcome| *outcome != judged.outcome());
    let zeros = plural(judged.excluded, "round");
    let further = [
        inconclusive_sentence(verdict, unit),
        verdict.negligible.then(|| "a significant difference, but smaller than the margin".into()),
        verdict.shapes_differ.then(|| "the sign test disagrees: the distributions differ in shape".into()),
        (judged.excluded > 0).then(|| format!("{zeros} without a ratio: a value is zero")),
        outcome_with_all_rounds.map(|outcome| format!("with all rounds: {}", outcome.name())),
        (!judged.claim.average.is_typical()).then(|| unseen_stalls(verdict.rounds)),
    ];
    lines.extend(further.into_iter().flatten());
    lines
}

/// Why a claim is inconclusive, or the largest difference that the interval allows. `None` for any other outcome.
fn inconclusive_sentence(verdict: &Verdict, unit: &str) -> Option<String> {
    if let Some(why) = verdict.withheld {
        return Some(format!("no verdict by mean cost: {}", why.text()));
    }
    if verdict.outcome != Outcome::Inconclusive {
        return None;
    }
    if verdict.gate.is_some_and(|gate| gate.low.or(gate.high).is_some()) {
        return None; // its bounds are shown
    }
    if verdict.provisional {
        return Some(format!("provisional: a verdict requires {FIRST_LOOK_ROUNDS} {unit}s"));
    }
    let largest = verdict.largest_possible_difference();
    Some(if largest < 1.0 {
        format!("95% sure that the difference is at most {}", percent(largest))
    } else {
        format!("95% sure that the factor is at most {}", three_digits(1.0 + largest))
    })
}

/// The effect of a verdict with its interval, or with the bounds that decide a claim of a gate.
pub fn describe_effect(verdict: &Verdict) -> String {
    if verdict.gate.is_some() {
        return describe_bounds(verdict);
    }
    let (value, interval) = effect_and_interval(verdict.effect, verdict.interval, &verdict.edges);
    format!("{value} [{interval}]")
}

/// A sentence on how many verdicts also hold for all claims together (e-BH, a control of the false discovery rate). `None` for a
/// single claim, or if all are inconclusive.
fn family_sentence(claims: &[JudgedClaim]) -> Option<String> {
    let hold_together = decided_in_family(claims);
    let is_decided = |at: &usize| matches!(claims[*at].outcome(), Outcome::Held | Outcome::Refuted);
    let decided: Vec<usize> = (0..claims.len()).filter(is_decided).collect();
    if claims.len() < 2 || decided.is_empty() {
        return None;
    }
    let only_alone = decided.iter().filter(|at| !hold_together.contains(at));
    let only_alone: Vec<&str> = only_alone.map(|at| claims[*at].claim.text.as_str()).collect();
    let rest = match only_alone.len() {
        0 => String::new(),
        n if n > 6 => format!(" The other {n} hold only when each is judged alone."),
        _ => format!(" Only when judged alone: {}.", only_alone.join("; ")),
    };
    Some(format!(
        "{} of the {} verdicts on {} also hold together (e-BH at 5%: at most one in twenty of them is expected to be \
         wrong).{rest}",
        hold_together.len(),
        decided.len(),
        plural(claims.len(), "claim")
    ))
}

/// Adds a summary and a table of the author's conclusions that this run can check.
pub fn add_conclusions(document: &mut Document, report: &Report, _: Detail) {
    let (checked, others): (Vec<&CheckedConclusion>, Vec<&CheckedConclusion>) =
        report.conclusions.iter().partition(|one| one.run_verdict.outcome.is_some());
    if checked.is_empty() {
        return;
    }
    document.heading(3, "The author's conclusions that this run can check");
    document.text(conclusions_summary(&checked));
    document.list(surprising_conclusions(&checked));
    let unit = report.analyses.first().map_or("round", |analysis| analysis.grid.column_noun());
    let row = |one: &CheckedConclusion| {
        let then = if one.published_verdict.outcome.is_some() {
            describe_answer(&one.published_verdict)
        } else {
            "– no figures".into()
        };
        row![conclusion_cell(&one.conclusion), then, answer_cell(&one.run_verdict, unit)]
    };
    document
        .table(Table::of_words(["the author's conclusion", "then", "here"]).with_rows(checked.into_iter().map(row)));
    let (elsewhere, others): (Vec<&CheckedConclusion>, Vec<&CheckedConclusion>) =
        others.into_iter().partition(|one| one.conclusion.rotating_disk);
    let sentences = elsewhere.iter().filter_map(|one| {
        let (says, why) = (one.conclusion.says.trim_end_matches('.'), one.run_verdict.missing.as_ref()?);
        Some(format!("Not checkable here: {says} ({why})."))
    });
    document.list(sentences.collect());
    if !others.is_empty() {
        document.text(format!(
            "{} not shown: this run lacks their filesystems, tasks or figures.",
            plural(others.len(), "more conclusion")
        ));
    }
}

/// Adds a table of the conclusions with their answers on the published figures.
pub fn add_published_conclusions(document: &mut Document, concluded: &[(Conclusion, ConclusionVerdict)]) {
    if !concluded.is_empty() {
        document.heading(2, "The author's conclusions, on these figures");
        let rows = concluded.iter().map(|(one, then)| row![conclusion_cell(one), describe_answer(then)]);
        document.table(Table::of_words(["the author's conclusion", "on these figures"]).with_rows(rows));
    }
}

/// The conclusion in fsarena's words, and below it the source.
fn conclusion_cell(conclusion: &Conclusion) -> Cell {
    Cell::two_lines(conclusion.says.as_str(), conclusion.origin())
}

/// The author's conclusions with their answers on the published figures, as JSON.
pub fn published_conclusions_json(concluded: &[(Conclusion, ConclusionVerdict)]) -> Value {
    let with_answer = |(conclusion, then): &(Conclusion, ConclusionVerdict)| {
        conclusion_json(conclusion, json!({"then": answer_json(then)}))
    };
    Value::Array(concluded.iter().map(with_answer).collect())
}

/// A conclusion with its answers as JSON.
pub fn conclusion_json(conclusion: &Conclusion, mut answers: Value) -> Value {
    answers["says"] = json!(conclusion.says);
    answers["source"] = json!(conclusion.source);
    answers["ours"] = json!(conclusion.ours);
    answers
}

/// An answer as JSON.
pub fn answer_json(answer: &ConclusionVerdict) -> Value {
    json!({
        "outcome": answer.outcome.map(|outcome| outcome.name()),
        "without": answer.missing_variants,
        "held": answer.comparisons.held,
        "checked": answer.comparisons.checked,
        "of": answer.comparisons.all,
    })
}

/// The number of conclusions by outcome: `3 of 16 hold here, 4 refuted, 9 inconclusive. On the published figures 14 of 15 hold.`
fn conclusions_summary(checked: &[&CheckedConclusion]) -> String {
    let count = |all: &[Outcome], outcome: Outcome| all.iter().filter(|found| **found == outcome).count();
    let then: Vec<Outcome> = checked.iter().filter_map(|one| one.published_verdict.outcome).collect();
    let here: Vec<Outcome> = checked.iter().filter_map(|one| one.run_verdict.outcome).collect();
    let published = match then.len() {
        0 => "The published figures can check none of them.".into(),
        all => format!("On the published figures {} of {all} hold.", count(&then, Outcome::Held)),
    };
    format!(
        "{} of {} hold here, {} refuted, {} inconclusive. {published}",
        count(&here, Outcome::Held),
        here.len(),
        count(&here, Outcome::Refuted),
        count(&here, Outcome::Inconclusive)
    )
}

/// Sentences with the conclusions that the published figures refute, and with those that hold on the published figures and are
/// refuted here.
fn surprising_conclusions(checked: &[&CheckedConclusion]) -> Vec<String> {
    let list = |title: &str, matches: fn(&CheckedConclusion) -> bool| {
        let conclusions = checked.iter().filter(|one| matches(one));
        let texts: Vec<&str> = conclusions.map(|one| one.conclusion.says.trim_end_matches('.')).collect();
        (!texts.is_empty()).then(|| format!("{title}: {}.", texts.join("; ")))
    };
    let then = list("Refuted by the published figures", |one| one.published_verdict.outcome == Some(Outcome::Refuted));
    let here = list("Held on the published figures, refuted here", |one| {
        one.published_verdict.outcome == Some(Outcome::Held) && one.run_verdict.outcome == Some(Outcome::Refuted)
    });
    then.into_iter().chain(here).collect()
}

/// The cell with the answer of this run to a conclusion, and below it the effect.
fn answer_cell(answer: &ConclusionVerdict, unit: &str) -> Cell {
    let rounds = answer.verdicts.iter().map(|verdict| verdict.rounds).max().unwrap_or(0);
    let effect = match answer.verdicts.as_slice() {
        [] => String::new(),
        [one] => format!("{}, {}", describe_effect(one), plural(rounds, unit)),
        several => {
            let (low, high) = widen_range((f64::INFINITY, f64::NEG_INFINITY), several.iter().map(|one| one.effect));
            let [low, high] = [low, high].map(|effect| signed_percent(effect, &[0.0]));
            format!("{low} to {high} in {} comparisons, {}", several.len(), plural(rounds, unit))
        }
    };
    Cell::two_lines(describe_answer(answer), effect)
}

/// An answer in words: `refuted (2 of 21)`, `inconclusive (as far as checkable, 3 of 9 comparisons hold), without jfs`.
fn describe_answer(answer: &ConclusionVerdict) -> String {
    let Some(outcome) = answer.outcome else { return "–".into() };
    let Comparisons { held, checked, all } = answer.comparisons;
    let counted = match answer.held_of_claims {
        _ if outcome == Outcome::Inconclusive && checked < all => {
            format!(" (as far as checkable, {held} of {} hold)", plural(all, "comparison"))
        }
        Some((held, of)) => format!(" ({held} of {of})"),
        None => String::new(),
    };
    let names: Vec<&str> = answer.missing_variants.iter().map(String::as_str).collect();
    let without = if names.is_empty() { String::new() } else { format!(", without {}", names.join(", ")) };
    format!("{}{counted}{without}", outcome.name())
}
