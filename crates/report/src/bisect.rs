//! The page of a bisection: the candidate at which the cost changed, by how much, and how the bisection found it.

use crate::document::{Cell, Document, Part, Table};
use crate::escape::shorten;
use crate::number::{plural, three_digits_beside};
use crate::page::Page;
use fsarena_core::bisect::{Bisection, CandidateSource, Comparison, ComparisonResult, Effect, Ending, Purpose};
use fsarena_core::{exit::ExitCode, factor::KERNEL};
use serde_json::Value;

/// The page cuts the reason why a candidate was skipped at this many characters.
const MAX_SKIP_REASON_CHARS: usize = 300;

/// The exit code of a bisection: 0 if it found a candidate, 3 if nothing changed between the ends, 4 if it could not be decided or
/// goes on.
pub fn exit_code(state: &Bisection) -> ExitCode {
    match &state.ending {
        Some(Ending::Found { .. }) => ExitCode::Done,
        Some(Ending::NoChange) => ExitCode::Refuted,
        Some(Ending::Inconclusive { .. }) | None => ExitCode::Inconclusive,
    }
}

/// Makes the page of a bisection. `commands` repeat the comparisons by hand; `functions` is the page of the kernel functions
/// whose instructions differ, if the bisection sampled them.
pub fn bisection_page(state: &Bisection, commands: &[String], functions: Option<Page>) -> Page {
    let mut document = Document::default();
    let subject = &state.claim.subject;
    let (good, bad) = (state.candidate(&state.good), state.candidate(&state.bad));
    document.heading(1, format!("bisect {subject} from {} to {}", good.label, bad.label));
    for paragraph in answer_paragraphs(state) {
        document.text(paragraph);
    }
    let untested = untested_suspects(state);
    document.titled_list(
        "Can be the first bad candidate too, because it could not be tested",
        untested.iter().map(|id| state.candidate(id).title()).collect(),
    );
    document.heading(2, "Comparisons");
    let header = ["candidate", "against", "verdict", "difference, 95% interval", "rounds"];
    document.table(
        Table::of_words(header).with_rows(state.comparisons.iter().map(|comparison| comparison_row(state, comparison))),
    );
    let runs: Vec<&str> =
        state.comparisons.iter().flat_map(|comparison| &comparison.runs).map(String::as_str).collect();
    document.text(format!("The runs, in this order: {}.", runs.join(", ")));
    document.text(method_note(state));
    let skipped = state.tried.values().filter_map(|candidate| {
        Some(format!("{}: {}", candidate.title(), shorten(candidate.skip_reason.as_ref()?, MAX_SKIP_REASON_CHARS)))
    });
    document.titled_list("Skipped", skipped.collect());
    let mut json = serde_json::to_value(state).unwrap_or_default();
    if let Value::Object(fields) = &mut json {
        fields.remove("plan");
        fields.insert("exit".into(), exit_code(state).code().into());
        fields.insert("commands".into(), commands.into());
        fields.insert("functions".into(), functions.as_ref().map_or(Value::Null, |page| page.json.clone()));
    }
    for part in functions.into_iter().flat_map(|page| page.document.parts) {
        document.parts.push(match part {
            Part::Heading(level, title) => Part::Heading(level + 1, title),
            part => part,
        });
    }
    if !commands.is_empty() {
        document.heading(2, "Again");
        document.parts.push(Part::Code("sh", commands.join("\n")));
    }
    Page { document, json }
}

/// The ids of the candidates that could not be tested, and that can be the first bad one too.
fn untested_suspects(state: &Bisection) -> &[String] {
    match &state.ending {
        Some(Ending::Found { possible, .. } | Ending::Inconclusive { possible, .. }) => possible,
        _ => &[],
    }
}

/// The answer, in paragraphs.
fn answer_paragraphs(state: &Bisection) -> Vec<String> {
    let title = |id: &str| state.candidate(id).title();
    let subject = &state.claim.subject;
    let ends_sentence = state.ends_comparison().and_then(|ends| ends.effect).map_or(String::new(), |effect| {
        format!(
            "From GOOD ({}) to BAD ({}): {subject} {}.",
            title(&state.good),
            title(&state.bad),
            format_effect(&effect)
        )
    });
    let answer = match &state.ending {
        None => "The bisection goes on.".into(),
        Some(Ending::Found { last_good, first_bad, .. }) => {
            let last =
                state.comparisons.iter().rfind(|pair| pair.candidates == [last_good.as_str(), first_bad.as_str()]);
            let effect =
                last.and_then(|comparison| comparison.effect).map_or(String::new(), |effect| format_effect(&effect));
            format!(
                "{} is the first bad {}: compared with {}, {subject} changes by {effect}.",
                title(first_bad),
                candidate_kind(state),
                title(last_good)
            )
        }
        Some(Ending::NoChange) => {
            format!("No change: BAD meets the claim `{}` against GOOD, so there is nothing to find.", state.claim)
        }
        Some(Ending::Inconclusive { why, .. }) => format!(
            "Inconclusive: {why}. More rounds, a larger budget, a quieter machine or counts of instructions can decide it."
        ),
    };
    vec![answer, ends_sentence]
}

/// A change with its interval: `+1.02% [+1.01% to +1.03%]`.
fn format_effect(effect: &Effect) -> String {
    format!("{} [{} to {}]", signed_percent(effect.estimate), signed_percent(effect.low), signed_percent(effect.high))
}

/// A fraction in per cent with its sign and three significant digits, more than for variants: the changes between candidates
/// are small.
fn signed_percent(fraction: f64) -> String {
    let sign = if fraction < 0.0 { "" } else { "+" };
    format!("{sign}{}%", three_digits_beside(100.0 * fraction, &[0.0]))
}

/// The word for a candidate: `commit`, `kernel` or `level`.
fn candidate_kind(state: &Bisection) -> &'static str {
    match state.source {
        CandidateSource::Git { .. } => "commit",
        CandidateSource::List(_) if state.template.contains_key(KERNEL) => "kernel",
        CandidateSource::List(_) => "level",
    }
}

/// The row of a comparison.
fn comparison_row(state: &Bisection, comparison: &Comparison) -> Vec<Cell> {
    let label = |id: &str| state.candidate(id).label;
    let tested = label(comparison.tested_candidate());
    let (name, against) = match comparison.purpose {
        Purpose::Step => (tested, "GOOD and BAD".to_string()),
        Purpose::Ends => (format!("{tested} (BAD)"), "GOOD".to_string()),
        Purpose::Confirmation => (tested, format!("{}, the last good one", label(&comparison.candidates[0]))),
    };
    let rounds = comparison.effect.map_or(String::new(), |effect| effect.rounds.to_string());
    let verdict = comparison.result.map_or("open", ComparisonResult::name);
    let effect = comparison.effect.map_or(String::new(), |effect| format_effect(&effect));
    [name, against, verdict.into(), effect, rounds].into_iter().map(|text| text.as_str().into()).collect()
}

/// Explains how the bisection decides, and with what error probability.
fn method_note(state: &Bisection) -> String {
    let candidates = plural(state.candidate_count, candidate_kind(state));
    let error_split = state.comparisons.iter().map(|comparison| comparison.error_split).max().unwrap_or(1);
    let error_note =
        format!("The error probability of all comparisons together is 5%; each uses at least 5%/{error_split}.");
    let counts_note = if state.figures_are_counts {
        " Counts repeat, so a step is decided if the candidate is near the same end in each of two rounds; the ends and the first bad candidate have enough rounds for an interval."
    } else {
        ""
    };
    format!(
        "{candidates} after GOOD can be the first bad one. A step measures GOOD, the candidate and BAD in the same rounds; the \
         difference in its row is that against GOOD. {error_note}{counts_note}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::terminal::Screen;
    use fsarena_core::bisect::{Candidate, FORMAT_VERSION, VariantLevels};

    fn bisection(ending: Ending) -> Bisection {
        let candidate = |label: &str, subject: &str| Candidate {
            label: label.into(),
            subject: subject.into(),
            ..Candidate::default()
        };
        let mut ends = Comparison::new(Purpose::Ends, &["a", "d"], 3);
        ends.effect = Some(Effect { estimate: 0.02, low: 0.0199, high: 0.0201, rounds: 10 });
        ends.result = Some(ComparisonResult::More);
        let mut confirmation = Comparison { candidates: vec!["b".into(), "c".into()], ..ends.clone() };
        confirmation.purpose = Purpose::Confirmation;
        confirmation.result = Some(ComparisonResult::Confirmed);
        let skipped = Candidate { skip_reason: Some("make: exit 2".into()), ..candidate("5", "Break it") };
        Bisection {
            format: FORMAT_VERSION,
            id: "1".into(),
            command: vec![],
            source: CandidateSource::Git { repo: "/r".into(), build: vec![], first_parent: false, paths: vec![] },
            template: VariantLevels::new(),
            plan: "secret".into(),
            claim: "total.elapsed: candidate <= baseline within 1%".parse().unwrap(),
            user: None,
            figures_are_counts: false,
            max_rounds: 400,
            budget_s: None,
            elapsed_s: 1.0,
            good: "a".into(),
            bad: "d".into(),
            candidate_count: 2,
            tried: [
                ("a", candidate("1", "A")),
                ("b", candidate("2", "B")),
                ("c", candidate("3", "C")),
                ("d", candidate("4", "D")),
                ("e", skipped),
            ]
            .map(|(id, candidate)| (id.to_string(), candidate))
            .into(),
            comparisons: vec![ends, confirmation],
            ending: Some(ending),
        }
    }

    #[test]
    fn the_page_leads_with_the_commit_and_its_size() {
        let ending = Ending::Found { last_good: "b".into(), first_bad: "c".into(), possible: vec!["e".into()] };
        let page = bisection_page(&bisection(ending), &["git show c".into()], None);
        let mut out = vec![];
        page.write("term", Screen { width: Some(400), has_colour: false }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let answer =
            "3 (C) is the first bad commit: compared with 2 (B), total.elapsed changes by +2.00% [+1.99% to +2.01%].";
        assert!(text.contains(answer), "{text}");
        assert!(text.contains("5 (Break it): make: exit 2") && text.contains("git show c"), "{text}");
        assert_eq!((&page.json["exit"], &page.json["ending"]["child"]), (&0.into(), &"c".into()));
        assert_eq!(page.json["plan"], Value::Null);
    }

    #[test]
    fn the_exit_code_depends_on_the_ending() {
        let code = |ending| exit_code(&bisection(ending)).code();
        let inconclusive = Ending::Inconclusive { why: "x".into(), possible: vec![] };
        assert_eq!([code(Ending::NoChange), code(inconclusive)], [3, 4]);
    }
}
