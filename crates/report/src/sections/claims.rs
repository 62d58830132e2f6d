//! The claims of a run and their verdicts.

use super::{Detail, Section};
use crate::document::source::Source;
use crate::document::{Cell, Chapter, Document, Table};
use crate::number::{beside, percent, plural, signed, three};
use crate::report::Report;
use fsarena_core::cell::TaskInfo;
use fsarena_core::claim::Relation;
use fsarena_core::record::RunRecord;
use fsarena_stats::judge::{Judged, family};
use fsarena_stats::table::FIRST_LOOK;
use fsarena_stats::verdict::{Outcome, Verdict};

/// The claims of the plan.
pub const SECTION: Section = Section { chapter: Some(Chapter::Claims), parts };

/// The verdicts, what was left open, and why the run stopped.
fn parts(report: &Report, _: Detail) -> Document {
    let mut document = Document::default();
    if report.claims.is_empty() {
        return document;
    }
    let mut table = Table::words(["claim", "verdict", "left divided by right, 95% interval"]);
    for judged in &report.claims {
        let verdict = Cell::from(judged.outcome().name());
        let told = Cell { lines: told(judged), ..Cell::default() }.made_of(made_of(&report.record, judged));
        table.rows.push(vec![
            judged.claim.text.as_str().into(),
            if judged.open() { verdict } else { verdict.strong() },
            told,
        ]);
    }
    document.table(table);
    let stopped = &report.record.status.why;
    document.list(
        as_family(&report.claims)
            .into_iter()
            .chain([format!("The run stopped because: {stopped}.")])
            .collect(),
    );
    document
}

/// The variants that were compared for a claim, in its task or in all of them.
pub fn made_of(record: &RunRecord, judged: &Judged) -> Option<Source> {
    judged.verdict.as_ref()?;
    let subject = match &judged.claim.relation {
        Relation::Pair(pair) => &pair.left,
        Relation::Extreme(extreme) => &extreme.variant,
    };
    let asked = &judged.claim.subject;
    let task = |task: &TaskInfo| asked.task.as_ref().is_some_and(|name| *name == task.id.name);
    let own = |at: &usize| {
        let params = &record.tasks[*at].id.params;
        asked.params.iter().all(|(key, value)| params.get(key) == Some(value))
    };
    let mut tasks = (0..record.tasks.len()).filter(|at| task(&record.tasks[*at])).filter(own);
    // Of several tasks that it is about, all.
    let task = tasks.next().filter(|_| tasks.next().is_none());
    let variants = std::iter::once(subject).chain(&judged.rival);
    Source::of(
        task,
        variants.filter_map(|name| record.variants.iter().position(|variant| variant.name == *name)),
    )
}

/// The verdict of one claim as lines of text, the effect first.
pub fn told(judged: &Judged) -> Vec<String> {
    let Some(verdict) = &judged.verdict else {
        return judged.missing.iter().cloned().collect();
    };
    let rival = match (&judged.claim.relation, &judged.rival) {
        (Relation::Extreme(_), Some(rival)) => format!(" against {rival}"),
        _ => String::new(),
    };
    let mut lines = vec![format!("{}{rival}, {}", effect(verdict), plural(verdict.rounds, "round"))];
    lines.extend(left_open(verdict));
    if verdict.negligible {
        lines.push("a significant difference, but smaller than the margin".into());
    }
    if verdict.shapes_differ {
        lines.push("the sign test disagrees: the distributions differ in shape".into());
    }
    if judged.excluded > 0 {
        lines.push(format!("{} without a ratio: a value is zero", plural(judged.excluded, "round")));
    }
    if let Some(outcome) = judged.with_drops.filter(|outcome| *outcome != judged.outcome()) {
        lines.push(format!("with all rounds: {}", outcome.name()));
    }
    lines
}

/// What the run could exclude, of a claim that it left open.
fn left_open(verdict: &Verdict) -> Option<String> {
    if verdict.outcome != Outcome::Inconclusive {
        return None;
    }
    Some(if verdict.provisional {
        format!("provisional: a verdict requires {FIRST_LOOK} rounds")
    } else {
        match verdict.excludes() {
            most if most < 1.0 => format!("95% sure that the difference is at most {}", percent(most)),
            most => format!("95% sure that the factor is at most {}", three(1.0 + most)),
        }
    })
}

/// The effect of a verdict with its interval.
pub fn effect(verdict: &Verdict) -> String {
    let (value, interval) = lines(verdict.effect, verdict.interval, &verdict.edges);
    format!("{value} [{interval}]")
}

/// `−4.9%` and `−5.4% to −4.3%`; from a factor of two on `3.10×` and `3.02–3.19`, easier to read than +3850%. Rounding
/// never moves a number across zero or one of `edges`, so that the text agrees with the verdict beside it.
pub fn lines(effect: f64, (low, high): (f64, f64), edges: &[f64]) -> (String, String) {
    let edges: Vec<f64> = edges.iter().copied().chain([0.0]).collect();
    if high >= 1.0 {
        let edges: Vec<f64> = edges.iter().map(|edge| 1.0 + edge).collect();
        let [value, low, high] = [effect, low, high].map(|effect| beside(1.0 + effect, &edges));
        return (format!("{value}×"), format!("{low}–{high}"));
    }
    let [value, low, high] = [effect, low, high].map(|effect| signed(effect, &edges));
    (value, format!("{low} to {high}"))
}

/// What holds of many claims together.
fn as_family(claims: &[Judged]) -> Option<String> {
    if claims.len() < 2 {
        return None;
    }
    let kept = family(claims);
    let decided: Vec<usize> = (0..claims.len())
        .filter(|at| matches!(claims[*at].outcome(), Outcome::Held | Outcome::Refuted))
        .collect();
    if decided.is_empty() {
        return None;
    }
    let lost: Vec<&str> =
        decided.iter().filter(|at| !kept.contains(at)).map(|at| claims[*at].claim.text.as_str()).collect();
    let rest = match lost.len() {
        0 => String::new(),
        n if n > 6 => format!(" The other {n} hold only when each is judged alone."),
        _ => format!(" Only when judged alone: {}.", lost.join("; ")),
    };
    Some(format!(
        "{} of the {} verdicts on {} also hold together (e-BH at 5%: at most one in twenty of them is expected to be \
         wrong).{rest}",
        kept.len(),
        decided.len(),
        plural(claims.len(), "claim")
    ))
}
