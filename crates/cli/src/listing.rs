//! Tables and JSON of listings.

use crate::failure::{Failure, printing};
use crate::flags::ListFormat;
use crate::terminal;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;
use std::io::Write;

/// Something that lists as a row.
pub trait Row: Serialize {
    /// The column heads.
    const HEADS: &'static [&'static str];

    /// The columns of this row, as text for people.
    fn columns(&self) -> Vec<String>;
}

/// Prints rows as a table for people or as a JSON array for programs.
pub fn print<R: Row>(rows: &[R], format: ListFormat) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = match format {
        ListFormat::Json => serde_json::to_string_pretty(rows)
            .map_err(std::io::Error::other)
            .and_then(|text| writeln!(out, "{text}")),
        ListFormat::Term => {
            let mut table = Table::new();
            table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
            if let Some(columns) = terminal::width() {
                table.set_width(columns);
            }
            table.set_header(R::HEADS);
            if let Some(names) = table.column_mut(0) {
                // A name that is broken over lines cannot be copied.
                names.set_constraint(ColumnConstraint::ContentWidth);
            }
            for row in rows {
                table.add_row(row.columns());
            }
            writeln!(out, "{}", table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n"))
        }
    };
    written.map_err(printing)
}

/// Prints text as it is.
pub fn text(text: &str) -> Result<(), Failure> {
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(printing)
}
