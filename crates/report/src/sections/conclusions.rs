//! What the author of the study concluded: held then, held here.

use crate::document::{Document, Table};
use crate::report::Report;
use fsarena_stats::conclusion::{Answer, Checked};
use fsarena_stats::verdict::Outcome;
use serde_json::{Value, json};

/// What became of the author's conclusions in short; in `full` with a table of all of them.
pub fn add(document: &mut Document, report: &Report, full: bool) {
    let checked = &report.conclusions;
    if checked.is_empty() {
        return;
    }
    document.heading(2, "Held then, held here");
    document.text(summary(checked));
    document.list(surprises(checked));
    if full {
        let mut table = Table::words(["the author's conclusion", "then", "here"].map(String::from).to_vec());
        for one in checked {
            table.rows.push(vec![one.says.as_str().into(), said(&one.then).into(), said(&one.here).into()]);
        }
        document.table(table);
    }
}

/// The conclusions and what the figures published with them say.
pub fn add_then(document: &mut Document, concluded: &[(String, Answer)]) {
    if concluded.is_empty() {
        return;
    }
    document.heading(2, "What the author concluded, on these figures");
    let mut table = Table::words(["the author's conclusion", "on these figures"].map(String::from).to_vec());
    table.rows = concluded.iter().map(|(says, then)| vec![says.as_str().into(), said(then).into()]).collect();
    document.table(table);
}

/// The same for programs.
pub fn json_then(concluded: &[(String, Answer)]) -> Value {
    let one = |(says, then): &(String, Answer)| json!({"says": says, "then": json(then)});
    Value::Array(concluded.iter().map(one).collect())
}

/// An answer for programs.
pub fn json(answer: &Answer) -> Value {
    json!({
        "outcome": answer.outcome.map(|outcome| outcome.name()),
        "without": answer.without,
        "held": answer.counted.map(|(held, _)| held),
        "of": answer.counted.map(|(_, of)| of),
    })
}

fn summary(checked: &[Checked]) -> String {
    let count = |of: &dyn Fn(&Checked) -> bool| checked.iter().filter(|one| of(one)).count();
    let held = |answer: &Answer| answer.outcome == Some(Outcome::Held);
    format!(
        "Of the author's {} conclusions {} can be checked on the figures published then, and {} hold there; {} \
         can be checked here, and {} hold.",
        checked.len(),
        count(&|one| one.then.outcome.is_some()),
        count(&|one| held(&one.then)),
        count(&|one| one.here.outcome.is_some()),
        count(&|one| held(&one.here)),
    )
}

/// What the data then did not show, and what is otherwise now.
fn surprises(checked: &[Checked]) -> Vec<String> {
    let listed = |what: &str, of: &dyn Fn(&Checked) -> bool| {
        let said: Vec<&str> =
            checked.iter().filter(|one| of(one)).map(|one| one.says.trim_end_matches('.')).collect();
        (!said.is_empty()).then(|| format!("{what}: {}.", said.join("; ")))
    };
    let is = |answer: &Answer, outcome| answer.outcome == Some(outcome);
    [
        listed("Refuted by the author's own figures", &|one| is(&one.then, Outcome::Refuted)),
        listed("Held then, refuted here", &|one| {
            is(&one.then, Outcome::Held) && is(&one.here, Outcome::Refuted)
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `held, without jfs`, `refuted (2 of 21)`.
fn said(answer: &Answer) -> String {
    let Some(outcome) = answer.outcome else {
        return "–".into();
    };
    let counted = answer.counted.map_or(String::new(), |(held, of)| format!(" ({held} of {of})"));
    let names: Vec<&str> = answer.without.iter().map(String::as_str).collect();
    let without = if names.is_empty() { String::new() } else { format!(", without {}", names.join(", ")) };
    format!("{}{counted}{without}", outcome.name())
}
