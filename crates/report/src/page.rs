//! Pages: results other than the report of one run, such as comparisons, published figures, findings and histories.

use crate::document::terminal::{self, Screen};
use crate::document::{Chapter, Document, Part, markdown};
use crate::{drawing::Chart, error::Error, exporter::write_json, html};
use fsarena_core::names::unknown_name;
use serde_json::{Value, json};
use std::io::Write;

/// A result as a document for people and as JSON for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The document, for people.
    pub document: Document,
    /// The same result as JSON, for programs. The names of figures contain their units: `elapsed_s`.
    pub json: Value,
}

/// The formats of a page.
pub const FORMATS: [&str; 4] = ["term", "md", "html", "json"];

impl Page {
    /// Writes the page in one of [`FORMATS`].
    ///
    /// # Errors
    /// The format is unknown, a chart cannot be drawn, or writing to `out` fails.
    pub fn write(&self, format: &str, screen: Screen, out: &mut dyn Write) -> Result<(), Error> {
        match format {
            "term" => terminal::write_terminal(&self.document, screen, out)?,
            "md" => markdown::write_markdown(&self.document, None, out)?,
            "html" => out.write_all(html::page_of_document(&self.document)?.as_bytes())?,
            "json" => write_json(&self.json, out)?,
            other => return Err(unknown_name("format", other, FORMATS).into()),
        }
        Ok(())
    }
}

/// A comparison of two runs or sets of samples, in the chapters of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparisonReport {
    /// The title, which names both runs or sets of samples.
    pub title: String,
    /// The facts below the title.
    pub facts: Vec<String>,
    /// The result in words.
    pub answer: Document,
    /// The chart of the ratios with their intervals, if there are any.
    pub chart: Option<Chart>,
    /// The tables.
    pub data: Document,
    /// How the two were compared, and the circumstances of each.
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
    pub fn add_answer(&mut self, sentences: Vec<String>) {
        if let Some(object) = self.json.as_object_mut() {
            object.insert("answer".into(), json!(sentences));
        }
        self.answer.list(sentences);
    }
}
