//! Lays out rows as a table of text.

use fsarena_core::{escape, row::Row};
use fsarena_report::document::terminal::fit_columns;
use serde_json::Value;
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, wrap};

/// Spaces between two columns.
const COLUMN_GAP: usize = 2;
/// The least width of the last field, which is prose, in characters. With less width the prose is below the other fields.
const MIN_PROSE_WIDTH: usize = 30;
/// The indent of prose below the other fields.
const INDENT: &str = "    ";

/// Returns rows as a table of at most `width` characters per line; None for no limit. A word that is too long makes the table
/// wider, because words never break.
///
/// # Errors
/// If a row cannot be serialized.
pub fn lay_out_table<R: Row>(rows: &[R], width: Option<u16>) -> serde_json::Result<String> {
    let columns: Vec<(&str, &str)> =
        R::COLUMNS.iter().map(|column| column.split_once(": ").unwrap_or((column, ""))).collect();
    let header = columns.iter().map(|(field, title)| match *title {
        "" => field.to_uppercase().replace('_', " "),
        title => title.into(),
    });
    let mut table_rows: Vec<Vec<String>> = vec![header.collect()];
    for row in rows {
        let fields = serde_json::to_value(row)?;
        table_rows.push(columns.iter().map(|(field, _)| field_text(row, &fields, field)).collect());
    }
    let width = width.map_or(usize::MAX, usize::from);
    let widths = column_widths(&table_rows, width);
    let prose_width = widths.last().copied().unwrap_or(0);
    if prose_width >= MIN_PROSE_WIDTH.min(longest(&table_rows, widths.len() - 1, display_width)) {
        return Ok(table_rows.iter().map(|row| lay_out_row(row, &widths)).collect());
    }
    // The prose goes below the other fields.
    let prose: Vec<String> = table_rows.iter_mut().filter_map(Vec::pop).collect();
    let widths = column_widths(&table_rows, width);
    let options = Options::new(width)
        .initial_indent(INDENT)
        .subsequent_indent(INDENT)
        .word_splitter(WordSplitter::NoHyphenation)
        .break_words(false);
    let mut table = String::new();
    for (row, prose) in table_rows.iter().zip(&prose) {
        table += &lay_out_row(row, &widths);
        if prose.is_empty() {
            continue;
        }
        for line in wrap(prose, options.clone()) {
            table += &format!("{line}\n");
        }
    }
    Ok(table)
}

/// The widths of the columns. Each column is as wide as its longest text. If that does not fit into `width`, the widest
/// columns shrink, at most to their longest words. The first column, which has names, never shrinks, because a name that is
/// broken over lines cannot be copied.
fn column_widths(rows: &[Vec<String>], width: usize) -> Vec<usize> {
    let count = rows[0].len();
    let longest_word = |text: &str| text.split(' ').map(display_width).max().unwrap_or(0);
    let natural: Vec<usize> = (0..count).map(|column| longest(rows, column, display_width)).collect();
    let minimum: Vec<usize> =
        (0..count).map(|column| if column == 0 { natural[0] } else { longest(rows, column, longest_word) }).collect();
    fit_columns(&natural, &minimum, width.saturating_sub(COLUMN_GAP * (count - 1)))
}

/// The largest `length` of the texts in a column.
fn longest(rows: &[Vec<String>], column: usize, length: impl Fn(&str) -> usize) -> usize {
    rows.iter().map(|row| length(&row[column])).max().unwrap_or(0)
}

/// Lays out a row: wraps its texts between words to the widths of the columns, and returns the lines.
fn lay_out_row(row: &[String], widths: &[usize]) -> String {
    let options = |width: usize| Options::new(width.max(1)).word_splitter(WordSplitter::NoHyphenation);
    let cells: Vec<Vec<_>> = row.iter().zip(widths).map(|(text, width)| wrap(text, options(*width))).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = String::new();
    for number in 0..height {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let text = cell.get(number).map_or("", |text| text.as_ref());
            let fill = (width + COLUMN_GAP).saturating_sub(display_width(text));
            line.push_str(&format!("{text}{}", " ".repeat(fill)));
        }
        lines += &format!("{}\n", line.trim_end());
    }
    lines
}

/// The text of a field of a row. Control characters in it are escaped: the row of a run quotes a database that may come from
/// elsewhere.
fn field_text(row: &impl Row, fields: &Value, field: &str) -> String {
    let text = row.table_text(field).unwrap_or_else(|| match &fields[field] {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    });
    escape::lines(&text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Serialize)]
    struct Listed {
        name: &'static str,
        accepts: &'static str,
        help: &'static str,
    }

    impl Row for Listed {
        const COLUMNS: &'static [&'static str] = &["name", "accepts", "help"];
    }

    const ROWS: [Listed; 2] = [
        Listed { name: "dbench-like", accepts: "a whole number", help: "one two three four five six seven eight" },
        Listed { name: "wal", accepts: "", help: "short" },
    ];

    #[test]
    fn prose_is_below_the_other_fields_if_the_table_is_too_narrow() {
        let wide = lay_out_table(&ROWS, None).unwrap();
        assert!(wide.contains("dbench-like  a whole number  one two three four five six seven eight\n"), "{wide}");
        assert!(wide.starts_with("NAME         ACCEPTS         HELP\n"), "{wide}");
        let beside = lay_out_table(&ROWS, Some(62)).unwrap();
        assert!(beside.contains("dbench-like  a whole number  one two three four five six seven\n"), "{beside}");
        let below = lay_out_table(&ROWS, Some(40)).unwrap();
        let expected =
            "dbench-like  a whole number\n    one two three four five six seven\n    eight\nwal\n    short\n";
        assert!(below.ends_with(expected), "{below}");
        assert!(below.lines().all(|line| line.len() <= 40), "{below}");
    }

    #[test]
    fn a_word_of_prose_that_is_too_long_stays_whole() {
        let rows = [Listed { name: "dbench-like", accepts: "a whole number", help: "see /a/path/that/is/longer" }];
        let table = lay_out_table(&rows, Some(20)).unwrap();
        assert!(table.ends_with("\n    see\n    /a/path/that/is/longer\n"), "{table}");
    }

    #[test]
    fn control_characters_are_escaped() {
        let rows = [Listed { name: "a\u{1b}[2Jb", accepts: "", help: "one\ntwo" }];
        let table = lay_out_table(&rows, None).unwrap();
        // The name has 11 characters and ACCEPTS has 7, each with a gap of 2.
        let expected = format!("\na\\u{{1b}}[2Jb{}one\n{}two\n", " ".repeat(2 + 9), " ".repeat(13 + 9));
        assert!(table.ends_with(&expected), "{table:?}");
    }
}
