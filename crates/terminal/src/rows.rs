//! Rows as a table.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use fsarena_core::row::Row;
use serde_json::Value;

/// Returns rows as a table for people, no wider than `width` columns.
///
/// # Errors
/// Where a row does not serialize.
pub fn table<R: Row>(rows: &[R], width: Option<u16>) -> serde_json::Result<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = width {
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
        let fields = serde_json::to_value(row)?;
        table.add_row(columns.clone().map(|(field, _)| cell(row, &fields, field)));
    }
    Ok(table.to_string().lines().map(|line| line.trim_end().to_string() + "\n").collect())
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
