//! A run beside another run, or beside published figures; samples of other tools beside each other; what
//! requests cost on several services.

mod answer;
mod cost;
mod order;
mod picture;
mod proxies;
mod published;
mod runs;
mod samples;

use crate::document::{Chapter, Document, Page, Part};
use crate::{drawing::Chart, error::Error};
use fsarena_core::record::RunRecord;
use serde_json::Value;

pub use proxies::compare_services;
pub use published::{compare_published, compare_sets};
pub use samples::compare_samples;

/// Compares runs: of watches what a request costs on each, of others each with the first. One run is compared with
/// nothing.
///
/// # Errors
/// Where a run does not know the metric, or has no variant or no task in common with the first; where the first is a watch
/// and another is none.
pub fn compare_all(records: &[RunRecord], metric: &str) -> Result<ComparisonReport, Error> {
    match records.first().is_some_and(cost::is_watch) {
        true => cost::compare_watches(records),
        false => runs::compare_runs(records, metric),
    }
}

/// A comparison for people and for programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparisonReport {
    /// The two sides.
    pub title: String,
    /// The facts below the title.
    pub facts: Vec<String>,
    /// The result in words.
    pub answer: Document,
    /// The ratios with their intervals, where there are some.
    pub chart: Option<Chart>,
    /// The tables.
    pub data: Document,
    /// How it was compared, and what of.
    pub method: Document,
    /// For programs, with units in names.
    pub json: Value,
}

impl ComparisonReport {
    /// The comparison as a page.
    pub fn page(&self) -> Page {
        let mut document = Document::default();
        document.heading(1, &*self.title);
        if !self.facts.is_empty() {
            document.parts.push(Part::Facts(self.facts.clone()));
        }
        let mut charts = Document::default();
        charts.charts(self.chart.clone());
        let chapters = [
            (Chapter::Answer, &self.answer.parts),
            (Chapter::Charts, &charts.parts),
            (Chapter::Data, &self.data.parts),
            (Chapter::Method, &self.method.parts),
        ];
        for (chapter, made) in chapters.into_iter().filter(|(_, made)| !made.is_empty()) {
            document.chapter(chapter);
            document.parts.extend(made.iter().cloned());
        }
        Page { document, json: self.json.clone() }
    }

    /// Puts the answer's words at the head, and into the JSON too.
    pub fn set_answer(&mut self, words: Vec<String>) {
        if let Some(object) = self.json.as_object_mut() {
            object.insert("answer".into(), serde_json::json!(words));
        }
        self.answer.list(words);
    }
}
