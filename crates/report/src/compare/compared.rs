//! A comparison, whatever was compared: the answer, a picture, the tables, and how it was done.

use crate::document::{Document, Part};
use crate::error::Error;
use crate::html;
use crate::page;
use crate::plot::Chart;
use serde_json::Value;
use std::io::Write;

/// The formats of a comparison.
pub const FORMATS: [&str; 4] = ["term", "md", "html", "json"];

/// A comparison for people and for programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compared {
    /// What is compared with what.
    pub title: String,
    /// What stands below that on a page.
    pub facts: Vec<String>,
    /// What it comes to, in words.
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

impl Compared {
    /// All that is words and tables, from top to bottom.
    pub fn document(&self) -> Document {
        let mut parts = vec![Part::Heading(1, self.title.clone())];
        let all = [&self.answer, &self.data, &self.method];
        parts.extend(all.into_iter().flat_map(|document| document.parts.iter().cloned()));
        Document { parts }
    }

    /// Writes it in one of [`FORMATS`].
    ///
    /// # Errors
    /// Where the format is none of these, the picture cannot be drawn, or `out` fails.
    pub fn write(
        &self,
        format: &str,
        width: Option<u16>,
        colour: bool,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        if format == "html" {
            return Ok(out.write_all(html::comparison(self)?.as_bytes())?);
        }
        page::write(&self.document(), &self.json, (format, width, colour), out)
    }

    /// Puts the answer's words at the head, and into the JSON too.
    pub fn say(&mut self, words: Vec<String>) {
        if let Some(object) = self.json.as_object_mut() {
            object.insert("answer".into(), serde_json::json!(words));
        }
        self.answer.list(words);
    }
}
