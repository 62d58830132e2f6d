//! The list of all sections of the reports for people.

mod anomalies;
pub mod answer;
pub mod baseline;
pub mod claims;
pub mod data_path;
pub mod decision;
pub mod gate;
pub mod head;
mod hosts;
pub mod layout;
pub mod level_costs;
pub mod pair;
pub mod ranking;
mod scaling;
pub mod schedulers;
pub mod slow_rounds;
mod standing;
pub mod tails;
pub mod tasks;
pub mod warnings;

use crate::document::{Chapter, Detail, Document, Part};
use crate::{advice, charts, report::Report};
use fsarena_stats::simulate::in_parallel;

/// A section of a report.
struct Section {
    /// The chapter of the section; `None` for a section directly below the title.
    chapter: Option<Chapter>,
    /// The lowest level of detail that includes the section.
    min_detail: Detail,
    /// Adds the content of the section to a document; nothing if it has no content for this report.
    add_content: fn(&mut Document, &Report, Detail),
}

/// A section of every report.
const fn brief_section(chapter: Chapter, add_content: fn(&mut Document, &Report, Detail)) -> Section {
    Section { chapter: Some(chapter), min_detail: Detail::Brief, add_content }
}

/// A section of full reports only, because it needs more room than a screen has.
const fn full_section(chapter: Chapter, add_content: fn(&mut Document, &Report, Detail)) -> Section {
    Section { chapter: Some(chapter), min_detail: Detail::Full, add_content }
}

/// All sections, in the order of a report.
const SECTIONS: &[Section] = &[
    Section { chapter: None, min_detail: Detail::Brief, add_content: head::add_head },
    brief_section(Chapter::Answer, gate::add_gate),
    brief_section(Chapter::Answer, decision::add_decision),
    brief_section(Chapter::Answer, standing::add_standing),
    brief_section(Chapter::Answer, pair::add_pair),
    brief_section(Chapter::Answer, level_costs::add_level_costs),
    brief_section(Chapter::Answer, answer::add_answer),
    brief_section(Chapter::Answer, answer::add_unranked_tasks),
    full_section(Chapter::Answer, answer::add_answer_legend),
    brief_section(Chapter::Answer, hosts::add_hosts),
    brief_section(Chapter::Answer, anomalies::add_anomalies),
    brief_section(Chapter::Answer, scaling::add_scaling),
    brief_section(Chapter::Answer, scaling::add_growth),
    brief_section(Chapter::Answer, slow_rounds::add_two_speeds),
    brief_section(Chapter::Answer, slow_rounds::add_slow_rounds),
    brief_section(Chapter::Answer, warnings::add_unsuitable_tasks),
    brief_section(Chapter::Answer, head::add_untested),
    brief_section(Chapter::Answer, warnings::add_warnings),
    brief_section(Chapter::Claims, claims::add_claims),
    full_section(Chapter::Charts, add_charts),
    brief_section(Chapter::Data, tasks::add_tasks),
    full_section(Chapter::Data, schedulers::add_schedulers),
    brief_section(Chapter::Data, ranking::add_ranking),
    full_section(Chapter::Data, tasks::add_totals),
    full_section(Chapter::Data, tails::add_tails),
    full_section(Chapter::Data, layout::add_layout),
    full_section(Chapter::Data, baseline::add_baseline),
    full_section(Chapter::Data, tasks::add_samples),
    full_section(Chapter::Conclusions, claims::add_conclusions),
    full_section(Chapter::Method, ranking::add_rounds_needed),
    full_section(Chapter::Method, data_path::add_data_path),
    full_section(Chapter::Method, warnings::add_remarks),
    full_section(Chapter::Method, head::add_circumstances),
];

/// Builds the document of a report. Builds the sections in parallel, because some take long for a large run.
pub fn report_document(report: &Report, detail: Detail) -> Document {
    let contents = in_parallel(SECTIONS.len(), |index| {
        let (mut content, section) = (Document::default(), &SECTIONS[index as usize]);
        if detail >= section.min_detail {
            (section.add_content)(&mut content, report, detail);
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

/// Adds every chart except the one at the top of a page. Without charts in the report, adds the command that draws them.
fn add_charts(document: &mut Document, report: &Report, detail: Detail) {
    if detail == Detail::Charts {
        document.charts(
            charts::charts_of_report(report)
                .into_iter()
                .filter(|chart| !chart.id.starts_with(charts::standing::ID_PREFIX)),
        );
    } else if !report.record.samples.is_empty() {
        let command = advice::charts_command(&report.record.id);
        document.text(format!(
            "This report has no charts. {command} writes them to a folder, and a Markdown report that links to them."
        ));
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn every_section_is_registered() {
        let name_of_section = |line: &str| {
            let (name, parameters) = line.strip_prefix("pub fn ")?.split_once('(')?;
            parameters.starts_with("document: &mut Document, report: &Report, ").then(|| name.to_string())
        };
        crate::registry::assert_complete("sections", include_str!("sections.rs"), name_of_section);
    }
}
