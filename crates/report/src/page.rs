//! Pages: results other than the report of one run, such as comparisons, published figures, findings and histories.

use crate::document::terminal::{self, Screen};
use crate::document::{Document, write_markdown};
use crate::{error::Error, exporter::write_json, html};
use fsarena_core::names::unknown;
use serde_json::Value;
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
            "term" => terminal::write(&self.document, screen, out)?,
            "md" => write_markdown(&self.document, None, out)?,
            "html" => out.write_all(html::page_of_document(&self.document)?.as_bytes())?,
            "json" => write_json(&self.json, out)?,
            other => return Err(unknown("format", other, FORMATS).into()),
        }
        Ok(())
    }
}
