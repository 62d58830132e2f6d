//! A result that is not the report of one run: comparisons, published figures, findings, histories.

use crate::document::terminal::{self, Screen};
use crate::document::{Document, write_markdown};
use crate::{error::Error, exporter::write_json, html};
use fsarena_core::names::unknown;
use serde_json::Value;
use std::io::Write;

/// A result for people and for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// For people.
    pub document: Document,
    /// For programs, with units in names.
    pub json: Value,
}

/// The formats of a page.
pub const FORMATS: [&str; 4] = ["term", "md", "html", "json"];

impl Page {
    /// Writes the page in one of [`FORMATS`].
    ///
    /// # Errors
    /// When the format is none of these, a chart cannot be drawn, or `out` fails.
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
