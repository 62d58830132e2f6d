//! The sections that reports for people are made of, one file and one line each.

mod anomalies;
pub mod answer;
mod circumstances;
pub mod claims;
pub mod conclusions;
mod decide;
pub mod decision;
pub mod head;
mod hosts;
pub mod modes;
pub mod normalised;
pub mod notes;
mod own_work;
pub mod pair;
mod pictures;
pub mod ranking;
pub mod reached;
mod samples;
mod scaling;
mod standing;
pub mod tails;
pub mod tasks;
pub mod totals;
mod untested;
mod warnings;

use crate::document::{Chapter, Document, Part};
use crate::report::Report;
use fsarena_core::cell::TaskInfo;
use fsarena_stats::simulate::parallel;

/// A section of a report.
pub struct Section {
    /// The chapter that it belongs to; none for what stands below the title.
    pub chapter: Option<Chapter>,
    /// What it says; empty where it has nothing to say.
    pub parts: fn(&Report, Detail) -> Document,
}

/// How much of a report a format shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// What fits on a screen.
    Brief,
    /// Everything but charts.
    Full,
    /// Everything.
    Charts,
}

/// Every section, in the order of a report.
const SECTIONS: &[Section] = &[
    head::SECTION,
    decision::SECTION,
    standing::SECTION,
    pair::SECTION,
    answer::SECTION,
    hosts::SECTION,
    anomalies::SECTION,
    scaling::SECTION,
    modes::SECTION,
    own_work::SECTION,
    untested::SECTION,
    warnings::SECTION,
    claims::SECTION,
    pictures::SECTION,
    conclusions::SECTION,
    tasks::SECTION,
    normalised::SECTION,
    ranking::SECTION,
    totals::SECTION,
    tails::SECTION,
    samples::SECTION,
    decide::SECTION,
    reached::SECTION,
    notes::SECTION,
    circumstances::SECTION,
];

/// The report as a document. Sections are made side by side, for some take long in a big run.
pub fn document(report: &Report, detail: Detail) -> Document {
    let made = parallel(SECTIONS.len(), |at| (SECTIONS[at as usize].parts)(report, detail));
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

/// A task as tables name it: `009 Untar the kernel tree`.
pub fn label(task: &TaskInfo) -> String {
    let mut label = task.number.as_ref().map_or(String::new(), |number| format!("{number} "));
    label.push_str(&task.title);
    // What the title says already is not said again.
    let said = |value: &str| task.title.split(|c: char| !c.is_alphanumeric()).any(|word| word == value);
    let params = task.id.params.iter().filter(|(_, value)| !said(value));
    let params: Vec<String> = params.map(|(key, value)| format!("{key}={value}")).collect();
    if !params.is_empty() {
        label.push_str(&format!(" ({})", params.join(", ")));
    }
    label
}

/// `a, b or c`.
pub fn either(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_is_registered() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sections")).unwrap();
        let files = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        for file in files {
            let line = format!("    {}::SECTION,", file.file_stem().unwrap().to_string_lossy());
            assert!(include_str!("sections.rs").lines().any(|found| found == line), "{line}");
        }
    }
}
