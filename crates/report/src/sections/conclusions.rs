//! What the author of the study concluded: held then, held here.

use super::claims::effect;
use crate::charts::widen_range;
use crate::document::{Cell, Table, row};
use crate::number::{plural, signed};
use crate::section::{Chapter, Detail, Document, Report, Section};
use fsarena_core::conclusion::Conclusion;
use fsarena_stats::conclusion::{Answer, Checked, Comparisons};
use fsarena_stats::verdict::Outcome;
use serde_json::{Value, json};

/// What the author of the study concluded.
pub const SECTION: Section = Section::full(Chapter::Conclusions, add);

/// What became of the author's conclusions that this run can check, with a table of them.
fn add(document: &mut Document, report: &Report, _: Detail) {
    let (checked, others): (Vec<&Checked>, Vec<&Checked>) =
        report.conclusions.iter().partition(|one| one.here.outcome.is_some());
    if checked.is_empty() {
        return;
    }
    document.heading(3, "The author's conclusions that this run can check");
    document.text(summary(&checked));
    document.list(surprises(&checked));
    let row = |one: &Checked| {
        let then = if one.then.outcome.is_some() { said(&one.then) } else { "– no figures".into() };
        row![quoted(&one.conclusion), then, here(&one.here)]
    };
    document
        .table(Table::words(["the author's conclusion", "then", "here"]).with(checked.into_iter().map(row)));
    if !others.is_empty() {
        document.text(format!(
            "{} not shown: this run lacks their filesystems, tasks or figures.",
            plural(others.len(), "more conclusion")
        ));
    }
}

/// The conclusions and what the figures published with them say.
pub fn add_then(document: &mut Document, concluded: &[(Conclusion, Answer)]) {
    if !concluded.is_empty() {
        document.heading(2, "The author's conclusions, on these figures");
        let rows = concluded.iter().map(|(one, then)| row![quoted(one), said(then)]);
        document.table(Table::words(["the author's conclusion", "on these figures"]).with(rows));
    }
}

/// The conclusion, and the author's sentence that it formalises.
fn quoted(conclusion: &Conclusion) -> Cell {
    Cell::two(conclusion.says.as_str(), conclusion.origin())
}

/// The same for programs.
pub fn json_then(concluded: &[(Conclusion, Answer)]) -> Value {
    let one = |(conclusion, then): &(Conclusion, Answer)| json_with(conclusion, json!({"then": json(then)}));
    Value::Array(concluded.iter().map(one).collect())
}

/// A conclusion with its answers, for programs.
pub fn json_with(conclusion: &Conclusion, mut answers: Value) -> Value {
    answers["says"] = json!(conclusion.says);
    answers["source"] = json!(conclusion.source);
    answers["ours"] = json!(conclusion.ours);
    answers
}

/// An answer for programs.
pub fn json(answer: &Answer) -> Value {
    json!({
        "outcome": answer.outcome.map(|outcome| outcome.name()),
        "without": answer.without,
        "held": answer.comparisons.held,
        "checked": answer.comparisons.checked,
        "of": answer.comparisons.of,
    })
}

/// `3 of 16 hold here, 4 are refuted, 9 are inconclusive. On the published figures 14 of 15 hold.`
fn summary(checked: &[&Checked]) -> String {
    let count = |all: &[Outcome], outcome: Outcome| all.iter().filter(|found| **found == outcome).count();
    let then: Vec<Outcome> = checked.iter().filter_map(|one| one.then.outcome).collect();
    let here: Vec<Outcome> = checked.iter().filter_map(|one| one.here.outcome).collect();
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

/// What the data then did not show, and what is otherwise now.
fn surprises(checked: &[&Checked]) -> Vec<String> {
    let listed = |what: &str, is: fn(&Checked) -> bool| {
        let said = checked.iter().filter(|one| is(one));
        let said: Vec<&str> = said.map(|one| one.conclusion.says.trim_end_matches('.')).collect();
        (!said.is_empty()).then(|| format!("{what}: {}.", said.join("; ")))
    };
    let then = listed("Refuted by the published figures", |one| one.then.outcome == Some(Outcome::Refuted));
    let here = listed("Held on the published figures, refuted here", |one| {
        (one.then.outcome, one.here.outcome) == (Some(Outcome::Held), Some(Outcome::Refuted))
    });
    then.into_iter().chain(here).collect()
}

/// What the run says, and by how much.
fn here(answer: &Answer) -> Cell {
    let rounds = answer.verdicts.iter().map(|verdict| verdict.rounds).max().unwrap_or(0);
    let told = match answer.verdicts.as_slice() {
        [] => String::new(),
        [one] => format!("{}, {}", effect(one), plural(rounds, "round")),
        several => {
            let (low, high) =
                widen_range((f64::INFINITY, f64::NEG_INFINITY), several.iter().map(|one| one.effect));
            let [low, high] = [low, high].map(|effect| signed(effect, &[0.0]));
            format!("{low} to {high} in {} comparisons, {}", several.len(), plural(rounds, "round"))
        }
    };
    Cell::two(said(answer), told)
}

/// `refuted (2 of 21)`, `inconclusive (as far as checkable, 3 of 9 comparisons hold), without jfs`.
fn said(answer: &Answer) -> String {
    let Some(outcome) = answer.outcome else { return "–".into() };
    let Comparisons { held, checked, of } = answer.comparisons;
    let counted = match answer.counted {
        _ if outcome == Outcome::Inconclusive && checked < of => {
            format!(" (as far as checkable, {held} of {} hold)", plural(of, "comparison"))
        }
        Some((held, of)) => format!(" ({held} of {of})"),
        None => String::new(),
    };
    let names: Vec<&str> = answer.without.iter().map(String::as_str).collect();
    let without = if names.is_empty() { String::new() } else { format!(", without {}", names.join(", ")) };
    format!("{}{counted}{without}", outcome.name())
}
