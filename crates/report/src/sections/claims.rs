//! The sections with the claims of a run and their verdicts, and with the conclusions of the study's author, checked on the
//! published figures and on this run.

use crate::document::{Cell, Detail, Document, Table, row};
use crate::number::{effect_and_interval, percent, plural, signed_percent, three_digits};
use crate::{chart_context::widen_range, charts::differences::claim_source, figures::unseen_stalls_clause};
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
        let verdict = Cell::from(judged.outcome().name()).highlighted_if(!judged.is_inconclusive());
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
    let round_noun = judged.column_noun;
    let rival = match (&judged.claim.relation, &judged.rival) {
        (Relation::Extreme(_), Some(rival)) => format!(" against {rival}"),
        _ => String::new(),
    };
    let mut lines = vec![format!("{}{rival}, {}", describe_claim_effect(verdict), plural(verdict.rounds, round_noun))];
    let outcome_with_all_rounds = judged.outcome_with_all_rounds.filter(|outcome| *outcome != judged.outcome());
    let excluded = plural(judged.excluded_rounds, round_noun);
    let remarks = [
        inconclusive_sentence(verdict, round_noun),
        verdict.negligible.then(|| "a significant difference, but smaller than the margin".into()),
        verdict.shapes_differ.then(|| "the sign test disagrees: the distributions differ in shape".into()),
        (judged.excluded_rounds > 0).then(|| format!("{excluded} without a ratio: a value is zero")),
        outcome_with_all_rounds.map(|outcome| format!("with all rounds: {}", outcome.name())),
        (!judged.claim.average.is_typical()).then(|| unseen_stalls_clause(verdict.rounds)),
    ];
    lines.extend(remarks.into_iter().flatten());
    lines
}

/// Why a claim is inconclusive, or the largest difference that the interval allows. `None` for any other outcome.
/// `round_noun` is `round` or `aged image`.
fn inconclusive_sentence(verdict: &Verdict, round_noun: &str) -> Option<String> {
    if let Some(why) = verdict.withheld {
        return Some(format!("no verdict by mean cost: {}", why.name()));
    }
    if verdict.outcome != Outcome::Inconclusive {
        return None;
    }
    if verdict.gate.is_some_and(|gate| gate.low.or(gate.high).is_some()) {
        return None; // The line with the effect has the bounds.
    }
    if verdict.provisional {
        return Some(format!("provisional: a verdict requires {FIRST_LOOK_ROUNDS} {round_noun}s"));
    }
    let largest = verdict.largest_possible_difference();
    Some(if largest < 1.0 {
        format!("95% sure that the difference is at most {}", percent(largest))
    } else {
        format!("95% sure that the factor is at most {}", three_digits(1.0 + largest))
    })
}

/// The effect of a verdict with its interval, or with the bounds that decide a claim of a gate.
fn describe_claim_effect(verdict: &Verdict) -> String {
    if verdict.gate.is_some() {
        return describe_bounds(verdict);
    }
    let (value, interval) = effect_and_interval(verdict.effect, verdict.interval, &verdict.edges);
    format!("{value} [{interval}]")
}

/// A sentence on how many verdicts also hold for all claims together (e-BH, a control of the false discovery rate). `None`
/// for a single claim, or if all are inconclusive.
fn family_sentence(claims: &[JudgedClaim]) -> Option<String> {
    let hold_together = decided_in_family(claims);
    let is_decided = |claim: &usize| matches!(claims[*claim].outcome(), Outcome::Held | Outcome::Refuted);
    let decided: Vec<usize> = (0..claims.len()).filter(is_decided).collect();
    if claims.len() < 2 || decided.is_empty() {
        return None;
    }
    let only_alone = decided.iter().filter(|claim| !hold_together.contains(claim));
    let only_alone: Vec<&str> = only_alone.map(|claim| claims[*claim].claim.text.as_str()).collect();
    let only_alone_note = match only_alone.len() {
        0 => String::new(),
        count if count > 6 => format!(" The other {count} hold only when each is judged alone."),
        _ => format!(" Only when judged alone: {}.", only_alone.join("; ")),
    };
    Some(format!(
        "{} of the {} verdicts on {} also hold together (e-BH at 5%: at most one in twenty of them is expected to be \
         wrong).{only_alone_note}",
        hold_together.len(),
        decided.len(),
        plural(claims.len(), "claim")
    ))
}

/// Adds a summary and a table of the author's conclusions that this run can check.
pub fn add_conclusions(document: &mut Document, report: &Report, _: Detail) {
    let (checked, others): (Vec<&CheckedConclusion>, Vec<&CheckedConclusion>) =
        report.conclusions.iter().partition(|checked| checked.run_verdict.outcome.is_some());
    if checked.is_empty() {
        return;
    }
    document.heading(3, "The author's conclusions that this run can check");
    document.text(conclusions_summary(&checked));
    document.list(surprising_conclusions(&checked));
    let round_noun = report.analyses.first().map_or("round", |analysis| analysis.grid.column_noun());
    let row = |checked: &CheckedConclusion| {
        let published = if checked.published_verdict.outcome.is_some() {
            describe_conclusion_verdict(&checked.published_verdict)
        } else {
            "– no figures".into()
        };
        row![conclusion_cell(&checked.conclusion), published, run_verdict_cell(&checked.run_verdict, round_noun)]
    };
    document
        .table(Table::of_words(["the author's conclusion", "then", "here"]).with_rows(checked.into_iter().map(row)));
    let (about_rotating_disks, others): (Vec<&CheckedConclusion>, Vec<&CheckedConclusion>) =
        others.into_iter().partition(|unchecked| unchecked.conclusion.requires_rotating_disk);
    let sentences = about_rotating_disks.iter().filter_map(|unchecked| {
        let reason = unchecked.run_verdict.why_unjudged.as_ref()?;
        Some(format!("Not checkable here: {} ({reason}).", unchecked.conclusion.statement.trim_end_matches('.')))
    });
    document.list(sentences.collect());
    if !others.is_empty() {
        document.text(format!(
            "{} not shown: this run lacks their filesystems, tasks or figures.",
            plural(others.len(), "more conclusion")
        ));
    }
}

/// Adds a table of the conclusions with their verdicts on the published figures.
pub fn add_published_conclusions(document: &mut Document, conclusions: &[(Conclusion, ConclusionVerdict)]) {
    if !conclusions.is_empty() {
        document.heading(2, "The author's conclusions, on these figures");
        let rows = conclusions
            .iter()
            .map(|(conclusion, verdict)| row![conclusion_cell(conclusion), describe_conclusion_verdict(verdict)]);
        document.table(Table::of_words(["the author's conclusion", "on these figures"]).with_rows(rows));
    }
}

/// The conclusion in fsarena's words, and below it the source.
fn conclusion_cell(conclusion: &Conclusion) -> Cell {
    Cell::two_lines(conclusion.statement.as_str(), conclusion.origin())
}

/// The author's conclusions with their verdicts on the published figures, as JSON.
pub fn published_conclusions_json(conclusions: &[(Conclusion, ConclusionVerdict)]) -> Value {
    let published_json = |(conclusion, verdict): &(Conclusion, ConclusionVerdict)| {
        conclusion_json(conclusion, json!({"then": conclusion_verdict_json(verdict)}))
    };
    Value::Array(conclusions.iter().map(published_json).collect())
}

/// Adds a conclusion to its verdicts, a JSON object.
pub fn conclusion_json(conclusion: &Conclusion, mut verdicts: Value) -> Value {
    verdicts["says"] = json!(conclusion.statement);
    verdicts["source"] = json!(conclusion.source);
    verdicts["ours"] = json!(conclusion.our_addition);
    verdicts
}

/// A verdict on a conclusion as JSON.
pub fn conclusion_verdict_json(verdict: &ConclusionVerdict) -> Value {
    json!({
        "outcome": verdict.outcome.map(|outcome| outcome.name()),
        "without": verdict.missing_variants,
        "held": verdict.comparisons.held,
        "checked": verdict.comparisons.checked,
        "of": verdict.comparisons.all,
    })
}

/// The number of conclusions by outcome: `3 of 16 hold here, 4 refuted, 9 inconclusive. On the published figures 14 of 15
/// hold.`
fn conclusions_summary(checked: &[&CheckedConclusion]) -> String {
    let count = |outcomes: &[Outcome], outcome: Outcome| outcomes.iter().filter(|other| **other == outcome).count();
    let published: Vec<Outcome> =
        checked.iter().filter_map(|conclusion| conclusion.published_verdict.outcome).collect();
    let here: Vec<Outcome> = checked.iter().filter_map(|conclusion| conclusion.run_verdict.outcome).collect();
    let published_sentence = match published.len() {
        0 => "The published figures can check none of them.".into(),
        all => format!("On the published figures {} of {all} hold.", count(&published, Outcome::Held)),
    };
    format!(
        "{} of {} hold here, {} refuted, {} inconclusive. {published_sentence}",
        count(&here, Outcome::Held),
        here.len(),
        count(&here, Outcome::Refuted),
        count(&here, Outcome::Inconclusive)
    )
}

/// Sentences with the conclusions that the published figures refute, and with those that hold on the published figures and are
/// refuted here.
fn surprising_conclusions(checked: &[&CheckedConclusion]) -> Vec<String> {
    let (mut refuted_by_figures, mut refuted_here) = (vec![], vec![]);
    for conclusion in checked {
        let text = conclusion.conclusion.statement.trim_end_matches('.');
        match (conclusion.published_verdict.outcome, conclusion.run_verdict.outcome) {
            (Some(Outcome::Refuted), _) => refuted_by_figures.push(text),
            (Some(Outcome::Held), Some(Outcome::Refuted)) => refuted_here.push(text),
            _ => {}
        }
    }
    let mut sentences = vec![];
    for (title, texts) in [
        ("Refuted by the published figures", refuted_by_figures),
        ("Held on the published figures, refuted here", refuted_here),
    ] {
        if !texts.is_empty() {
            sentences.push(format!("{title}: {}.", texts.join("; ")));
        }
    }
    sentences
}

/// The cell with the verdict of this run on a conclusion, and below it the effect.
fn run_verdict_cell(verdict: &ConclusionVerdict, round_noun: &str) -> Cell {
    let rounds = verdict.verdicts.iter().map(|verdict| verdict.rounds).max().unwrap_or(0);
    let effect = match verdict.verdicts.as_slice() {
        [] => String::new(),
        [only] => format!("{}, {}", describe_claim_effect(only), plural(rounds, round_noun)),
        several => {
            let (low, high) =
                widen_range((f64::INFINITY, f64::NEG_INFINITY), several.iter().map(|verdict| verdict.effect));
            let [low, high] = [low, high].map(|effect| signed_percent(effect, &[0.0]));
            format!("{low} to {high} in {} comparisons, {}", several.len(), plural(rounds, round_noun))
        }
    };
    Cell::two_lines(describe_conclusion_verdict(verdict), effect)
}

/// A verdict on a conclusion in words: `refuted (2 of 21)`, `inconclusive (as far as checkable, 3 of 9 comparisons hold),
/// without jfs`.
fn describe_conclusion_verdict(verdict: &ConclusionVerdict) -> String {
    let Some(outcome) = verdict.outcome else { return "–".into() };
    let Comparisons { held, checked, all } = verdict.comparisons;
    let count_note = match verdict.held_of_claims {
        _ if outcome == Outcome::Inconclusive && checked < all => {
            format!(" (as far as checkable, {held} of {} hold)", plural(all, "comparison"))
        }
        Some((held, all_claims)) => format!(" ({held} of {all_claims})"),
        None => String::new(),
    };
    let names: Vec<&str> = verdict.missing_variants.iter().map(String::as_str).collect();
    let without = if names.is_empty() { String::new() } else { format!(", without {}", names.join(", ")) };
    format!("{}{count_note}{without}", outcome.name())
}
