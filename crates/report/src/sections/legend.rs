//! How to read the answer.

use crate::section::{Chapter, Detail, Document, Report, Section};

/// How to read the answer.
pub const SECTION: Section = Section::full(Chapter::Answer, add);

/// What the figures of the answer and their brackets are; nothing where it compares no variants.
fn add(document: &mut Document, report: &Report, _: Detail) {
    let names = report.record.names();
    let Some(first) = report.analyses.first().filter(|_| names.len() > 1) else { return };
    let metrics = report.analyses.iter().map(|analysis| &analysis.metric);
    let metrics = metrics.map(|metric| format!("{} ({})", metric.id, metric.help));
    let metrics = metrics.collect::<Vec<_>>().join("; and by ");
    let brackets = if first.provisional() {
        "are the smallest and the largest of the rounds so far: fewer than 8 rounds give no exact interval"
    } else {
        "is its 95% confidence interval; an interval that contains 1 means no significant difference"
    };
    // As far as people read.
    let more = names.len().saturating_sub(6);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names[..names.len() - more].join(", ");
    document.text(format!(
        "How to read this: the variants are {names}{rest}, compared by {metrics}. Every round runs each variant once, and a \
         figure is the ratio to the best variant in a typical round: 1.20 is 1.20 times as much. In brackets {brackets}. Rare \
         slow rounds hardly change a typical round; the ratio of mean cost counts them."
    ));
}
