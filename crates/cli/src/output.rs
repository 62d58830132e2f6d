//! What commands print on standard output: rows, pages, JSON, text.

use crate::failure::{Outcome, printing};
use crate::{flags::ListFormat, terminal};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use fsarena_core::exit::ExitCode;
use fsarena_report::page::Page;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

/// Something that lists as a row, with a field for each column.
pub trait Row: Serialize {
    /// The fields to show, in order. The head of a column is the name of its field, unless another follows: `fix: REMEDY`.
    const COLUMNS: &'static [&'static str];

    /// A field as text for people, where that is not the same as for programs.
    fn for_people(&self, _field: &str) -> Option<String> {
        None
    }
}

/// Prints rows as a table for people or as a JSON array for programs.
pub fn rows<R: Row>(rows: &[R], format: ListFormat) -> Outcome {
    if format == ListFormat::Json {
        return json(rows);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = terminal::width() {
        table.set_width(columns);
    }
    let columns = R::COLUMNS.iter().map(|column| column.split_once(": ").unwrap_or((column, "")));
    table.set_header(columns.clone().map(|(field, head)| match head {
        "" => field.to_uppercase().replace('_', " "),
        head => head.into(),
    }));
    if let Some(names) = table.column_mut(0) {
        // A name that is broken over lines cannot be copied.
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    for row in rows {
        let fields = serde_json::to_value(row).map_err(std::io::Error::other).map_err(printing)?;
        table.add_row(columns.clone().map(|(field, _)| cell(row, &fields, field)));
    }
    text(table.to_string().lines().map(|line| line.trim_end().to_string() + "\n").collect::<String>())
}

fn cell(row: &impl Row, fields: &Value, field: &str) -> String {
    row.for_people(field).unwrap_or_else(|| match &fields[field] {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    })
}

/// Prints a result that is not the report of one run.
pub fn page(page: &Page, format: &str) -> Outcome {
    let mut out = Vec::new();
    page.write(format, terminal::screen(), &mut out)?;
    text(out)
}

/// Prints JSON for programs.
pub fn json(value: &(impl Serialize + ?Sized)) -> Outcome {
    let text_of = serde_json::to_string_pretty(value);
    text(text_of.map_err(std::io::Error::other).map_err(printing)? + "\n")
}

/// Prints text as it is.
pub fn text(text: impl AsRef<[u8]>) -> Outcome {
    std::io::stdout().lock().write_all(text.as_ref()).map_err(printing)?;
    Ok(ExitCode::Done)
}
