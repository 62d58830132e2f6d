//! [`ComparisonReport`], the result of every kind of comparison.

use crate::document::{Chapter, Document, Part};
use crate::{drawing::Chart, page::Page};
use serde_json::Value;

/// The report on a comparison, as text and as JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparisonReport {
    /// The title, which names both sides.
    pub title: String,
    /// The facts below the title.
    pub facts: Vec<String>,
    /// The result in words.
    pub answer: Document,
    /// The chart of the ratios with their intervals, if there are any.
    pub chart: Option<Chart>,
    /// The tables.
    pub data: Document,
    /// How the sides were compared, and the circumstances of each.
    pub method: Document,
    /// The comparison as JSON, with units in names.
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
        for (chapter, parts) in chapters {
            if !parts.is_empty() {
                document.chapter(chapter);
                document.parts.extend(parts.iter().cloned());
            }
        }
        Page { document, json: self.json.clone() }
    }

    /// Adds these sentences to the answer, as a list, and to the JSON.
    pub fn set_answer(&mut self, words: Vec<String>) {
        if let Some(object) = self.json.as_object_mut() {
            object.insert("answer".into(), serde_json::json!(words));
        }
        self.answer.list(words);
    }
}
