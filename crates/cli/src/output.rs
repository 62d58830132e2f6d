//! What commands print on standard output: rows, pages, JSON, text.

use crate::failure::{Failure, Outcome, printing};
use crate::flags::ListFormat;
use crate::terminal::{rows::table, stdout};
use fsarena_core::{exit::ExitCode, row::Row};
use fsarena_report::document::Page;
use serde::Serialize;
use std::io::{self, Write};

/// Prints rows as a table for people or as a JSON array for programs.
pub fn rows<R: Row>(rows: &[R], format: ListFormat) -> Outcome {
    match format {
        ListFormat::Json => json(rows),
        ListFormat::Term => text(table(rows, stdout::width()).map_err(not_json)?),
    }
}

/// Prints a result that is not the report of one run.
pub fn page(page: &Page, format: &str) -> Outcome {
    let mut out = Vec::new();
    page.write(format, stdout::screen(), &mut out)?;
    text(out)
}

/// Prints JSON for programs.
pub fn json(value: &(impl Serialize + ?Sized)) -> Outcome {
    text(serde_json::to_string_pretty(value).map_err(not_json)? + "\n")
}

/// Prints text as it is.
pub fn text(text: impl AsRef<[u8]>) -> Outcome {
    io::stdout().lock().write_all(text.as_ref()).map_err(printing)?;
    Ok(ExitCode::Done)
}

/// A value that does not serialize.
pub fn not_json(error: serde_json::Error) -> Failure {
    printing(io::Error::other(error))
}
