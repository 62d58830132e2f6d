//! The claims of a run and their verdicts.

use crate::charts::differences::claim_source;
use crate::document::{Cell, Table, row};
use crate::mean_cost;
use crate::number::{effect_lines, percent, plural, three};
use crate::section::{Chapter, Detail, Document, Report, Section};
use fsarena_core::claim::Relation;
use fsarena_stats::judge::{Judged, family};
use fsarena_stats::table::FIRST_LOOK;
use fsarena_stats::verdict::{Outcome, Verdict};

/// The claims of the plan.
pub const SECTION: Section = Section::new(Chapter::Claims, add);

/// The verdicts, what was left open, and why the run stopped.
fn add(document: &mut Document, report: &Report, _: Detail) {
    if report.claims.is_empty() {
        return;
    }
    let row = |judged: &Judged| {
        let verdict = Cell::from(judged.outcome().name()).strong_if(!judged.open());
        let told =
            Cell { lines: told(judged), ..Cell::default() }.made_of(claim_source(&report.record, judged));
        row![judged.claim.text.as_str(), verdict, told]
    };
    let header = ["claim", "verdict", "left divided by right, 95% interval"];
    document.table(Table::words(header).with(report.claims.iter().map(row)));
    let stopped = format!("The run stopped because: {}.", report.record.status.why);
    document.list(as_family(&report.claims).into_iter().chain([stopped]).collect());
}

/// The verdict of one claim as lines of text, the effect first.
pub fn told(judged: &Judged) -> Vec<String> {
    let Some(verdict) = &judged.verdict else { return judged.missing.iter().cloned().collect() };
    let rival = match (&judged.claim.relation, &judged.rival) {
        (Relation::Extreme(_), Some(rival)) => format!(" against {rival}"),
        _ => String::new(),
    };
    let mut lines = vec![format!("{}{rival}, {}", effect(verdict), plural(verdict.rounds, "round"))];
    let with_drops = judged.with_drops.filter(|outcome| *outcome != judged.outcome());
    let zeros = plural(judged.excluded, "round");
    let further = [
        left_open(verdict),
        verdict.negligible.then(|| "a significant difference, but smaller than the margin".into()),
        verdict.shapes_differ.then(|| "the sign test disagrees: the distributions differ in shape".into()),
        (judged.excluded > 0).then(|| format!("{zeros} without a ratio: a value is zero")),
        with_drops.map(|outcome| format!("with all rounds: {}", outcome.name())),
        (!judged.claim.average.is_typical()).then(|| mean_cost::unseen(verdict.rounds)),
    ];
    lines.extend(further.into_iter().flatten());
    lines
}

/// What the run could exclude, of a claim that it left open.
fn left_open(verdict: &Verdict) -> Option<String> {
    let most = verdict.excludes();
    if let Some(why) = verdict.withheld {
        return Some(format!("no verdict by mean cost: {}", why.words()));
    }
    (verdict.outcome == Outcome::Inconclusive).then(|| match verdict.provisional {
        true => format!("provisional: a verdict requires {FIRST_LOOK} rounds"),
        false if most < 1.0 => format!("95% sure that the difference is at most {}", percent(most)),
        false => format!("95% sure that the factor is at most {}", three(1.0 + most)),
    })
}

/// The effect of a verdict with its interval.
pub fn effect(verdict: &Verdict) -> String {
    let (value, interval) = effect_lines(verdict.effect, verdict.interval, &verdict.edges);
    format!("{value} [{interval}]")
}

/// What holds of many claims together.
fn as_family(claims: &[Judged]) -> Option<String> {
    let kept = family(claims);
    let decided = |at: &usize| matches!(claims[*at].outcome(), Outcome::Held | Outcome::Refuted);
    let decided: Vec<usize> = (0..claims.len()).filter(decided).collect();
    if claims.len() < 2 || decided.is_empty() {
        return None;
    }
    let lost = decided.iter().filter(|at| !kept.contains(at));
    let lost: Vec<&str> = lost.map(|at| claims[*at].claim.text.as_str()).collect();
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
