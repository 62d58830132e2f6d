//! A result that is not the report of one run: published figures, findings, histories. Comparisons have pictures too.

use crate::document::{Document, markdown, terminal};
use crate::error::Error;
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
pub const FORMATS: [&str; 3] = ["term", "md", "json"];

impl Page {
    /// Writes the page in one of [`FORMATS`].
    ///
    /// # Errors
    /// Where the format is none of these, or `out` fails.
    pub fn write(
        &self,
        format: &str,
        width: Option<u16>,
        colour: bool,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        write(&self.document, &self.json, (format, width, colour), out)
    }
}

/// Writes words and tables, or what programs read, in one of [`FORMATS`]; with the columns of the terminal and whether it
/// shows colours.
///
/// # Errors
/// Where the format is none of these, or `out` fails.
pub(crate) fn write(
    document: &Document,
    json: &Value,
    (format, width, colour): (&str, Option<u16>, bool),
    out: &mut dyn Write,
) -> Result<(), Error> {
    match format {
        "term" => terminal::write(document, width, colour, out)?,
        "md" => markdown::write(document, out)?,
        "json" => {
            serde_json::to_writer_pretty(&mut *out, json)?;
            writeln!(out)?;
        }
        other => return Err(Error::Format(other.into())),
    }
    Ok(())
}
