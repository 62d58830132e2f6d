//! The sections that reports for people are made of, one file and one line each.

mod anomalies;
pub mod answer;
mod charts;
mod circumstances;
pub mod claims;
pub mod conclusions;
mod decide;
pub mod decision;
pub mod head;
mod hosts;
mod left_out;
mod legend;
pub mod modes;
mod normalised;
pub mod notes;
mod own_work;
pub mod pair;
pub mod ranking;
pub mod reached;
mod samples;
mod scaling;
pub mod slow_rounds;
mod standing;
pub mod tails;
pub mod tasks;
mod totals;
mod untested;
mod warnings;

use crate::document::{Document, Part};
use crate::report::Report;
use crate::section::{Detail, Section};
use fsarena_stats::simulate::parallel;

/// Every section, in the order of a report.
const SECTIONS: &[Section] = &[
    head::SECTION,
    decision::SECTION,
    standing::SECTION,
    pair::SECTION,
    answer::SECTION,
    left_out::SECTION,
    legend::SECTION,
    hosts::SECTION,
    anomalies::SECTION,
    scaling::SECTION,
    modes::SECTION,
    slow_rounds::SECTION,
    own_work::SECTION,
    untested::SECTION,
    warnings::SECTION,
    claims::SECTION,
    charts::SECTION,
    tasks::SECTION,
    normalised::SECTION,
    ranking::SECTION,
    totals::SECTION,
    tails::SECTION,
    samples::SECTION,
    conclusions::SECTION,
    decide::SECTION,
    reached::SECTION,
    notes::SECTION,
    circumstances::SECTION,
];

/// The report as a document. Sections are made side by side, for some take long in a big run.
pub fn document(report: &Report, detail: Detail) -> Document {
    let made = parallel(SECTIONS.len(), |at| {
        let (mut made, section) = (Document::default(), &SECTIONS[at as usize]);
        if detail >= section.from {
            (section.add)(&mut made, report, detail);
        }
        made
    });
    let mut document = Document::default();
    let mut chapter = None;
    for (section, made) in SECTIONS.iter().zip(made) {
        if section.chapter != chapter && !made.parts.is_empty() && detail > Detail::Brief {
            chapter = section.chapter;
            document.parts.extend(chapter.map(Part::Chapter));
        }
        document.parts.extend(made.parts);
    }
    document
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
