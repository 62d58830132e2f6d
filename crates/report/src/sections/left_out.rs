//! The tasks that rank no variant, because a figure of them did not measure what it claims.

use crate::number::plural;
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::typical::absolute;
use crate::words::{few, few_of};
use fsarena_core::observations::{InvalidReason, invalid_figures, invalid_reason};
use fsarena_core::record::RunRecord;
use fsarena_stats::analyse::{Analysis, TaskAnalysis};

/// What the ranking leaves out.
pub const SECTION: Section = Section::new(Chapter::Answer, add);

fn add(document: &mut Document, report: &Report, detail: Detail) {
    // In full, the tables of tasks have them.
    let values = if detail < Detail::Full { values(report) } else { vec![] };
    document.list(sentences(report).into_iter().chain(values).collect());
}

/// The most tasks of which a screen shows the values.
const MOST: usize = 3;

/// What the tasks that rank no variant measured: `untar, not ranked: ext4 402 ms, xfs 440 ms`.
fn values(report: &Report) -> Vec<String> {
    let Some(first) = report.analyses.first() else { return vec![] };
    let of_task = |task: &TaskAnalysis| {
        let variants = task.comparison.variants.iter().zip(report.record.names());
        let values = variants.filter(|(variant, _)| variant.median.is_some());
        let values =
            values.map(|(variant, name)| format!("{name} {}", absolute(variant.median, first.metric.unit)));
        format!(
            "{}, not ranked: {} (medians of {}).",
            task.task.id,
            few(values.collect()).join(", "),
            first.metric.id
        )
    };
    few_of(first.tasks().filter(|task| task.excluded.is_some()).map(of_task).collect(), MOST)
}

/// The tasks that rank no variant, each with the reason.
fn sentences(report: &Report) -> Vec<String> {
    let Some(first) = report.analyses.first() else { return vec![] };
    let record = &report.record;
    let mut figures = invalid_figures(record, &first.metric.id);
    figures.retain(|(_, variant), _| !record.variants[*variant].is_bare_device());
    let sentence = |doubt: InvalidReason| {
        let named = figures.iter().filter(|(_, why)| **why == doubt);
        let named = named
            .map(|((task, variant), _)| format!("{} at {}", record.name(*variant), record.tasks[*task].id));
        let subject = few(named.collect()).join(", ");
        (!subject.is_empty())
            .then(|| format!("{subject} {}: left out of the ranking, for all variants.", doubt.words()))
    };
    let of_any_metric = InvalidReason::ALL.into_iter().filter(|doubt| *doubt != InvalidReason::FewRequests);
    let of_tails = report.analyses.iter().filter_map(|one| tails(record, one));
    of_any_metric.filter_map(sentence).chain(of_tails).collect()
}

/// The tasks that a percentile does not rank, for they have too few requests.
fn tails(record: &RunRecord, analysis: &Analysis) -> Option<String> {
    let short = analysis.tasks().filter(|task| task.excluded == Some(InvalidReason::FewRequests));
    let tasks: Vec<usize> = short.filter_map(|task| record.task(&task.task.id)).collect();
    let why = invalid_reason(record, &analysis.metric.id, *tasks.first()?)?;
    let more = match tasks.len() - 1 {
        0 => String::new(),
        more => format!("; likewise {}", plural(more, "more task")),
    };
    Some(format!("Not ranked by {}: {why}{more}.", analysis.metric.id))
}
