//! The list of all sections of the reports for people.

mod anomalies;
pub mod answer;
pub mod baseline;
pub mod claims;
pub mod costs;
pub mod decision;
pub mod gate;
mod growth;
pub mod head;
mod hosts;
pub mod layout;
mod own_work;
pub mod pair;
pub mod ranking;
pub mod reached;
mod scaling;
pub mod schedulers;
pub mod slow_rounds;
mod standing;
pub mod tails;
pub mod tasks;
pub mod warnings;

use crate::charts;
use crate::document::Part;
use crate::section::{Chapter, Detail, Document, Report, Section};
use fsarena_stats::simulate::parallel;

/// Every section, in the order of a report.
const SECTIONS: &[Section] = &[
    head::HEAD,
    gate::GATE,
    decision::DECISION,
    standing::STANDING,
    pair::PAIR,
    costs::COSTS,
    answer::ANSWER,
    answer::LEFT_OUT,
    answer::LEGEND,
    hosts::HOSTS,
    anomalies::ANOMALIES,
    scaling::SCALING,
    growth::GROWTH,
    slow_rounds::MODES,
    slow_rounds::SLOW_ROUNDS,
    own_work::OWN_WORK,
    head::UNTESTED,
    warnings::WARNINGS,
    claims::CLAIMS,
    CHARTS,
    tasks::TASKS,
    schedulers::SCHEDULERS,
    ranking::RANKING,
    tasks::TOTALS,
    tails::TAILS,
    layout::LAYOUT,
    baseline::BASELINE,
    tasks::SAMPLES,
    claims::CONCLUSIONS,
    ranking::ROUNDS_NEEDED,
    reached::DATA_PATH,
    warnings::REMARKS,
    head::CIRCUMSTANCES,
];

/// Builds the document of a report. Builds the sections in parallel, because some take long for a large run.
pub fn document(report: &Report, detail: Detail) -> Document {
    let contents = parallel(SECTIONS.len(), |at| {
        let (mut content, section) = (Document::default(), &SECTIONS[at as usize]);
        if detail >= section.min_detail {
            (section.add)(&mut content, report, detail);
        }
        content
    });
    let mut document = Document::default();
    let mut chapter = None;
    for (section, content) in SECTIONS.iter().zip(contents) {
        if section.chapter != chapter && !content.parts.is_empty() && detail > Detail::Brief {
            chapter = section.chapter;
            document.parts.extend(chapter.map(Part::Chapter));
        }
        document.parts.extend(content.parts);
    }
    document
}

/// The section of charts.
pub const CHARTS: Section = Section::full(Chapter::Charts, add_charts);

/// Adds every chart except the one at the top of a page. Without charts in the report, adds the command that draws them.
fn add_charts(document: &mut Document, report: &Report, detail: Detail) {
    if detail == Detail::Charts {
        document.charts(
            charts::all(report).into_iter().filter(|chart| !chart.id.starts_with(charts::standing::ID)),
        );
    } else if !report.record.samples.is_empty() {
        document.text(format!(
            "This report has no charts. `fsarena report {} --format md --export svg=charts` writes them to a folder, and a \
             Markdown report that links to them.",
            report.record.id
        ));
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn every_section_is_registered() {
        crate::registry::assert_complete("sections", include_str!("sections.rs"), |line| {
            crate::registry::constant(line, "Section")
        });
    }
}
