//! Renders a document as Markdown.

use crate::document::{Cell, Document, Part, Table};
use crate::escape;
use std::io::{Result, Write};

/// Writes the document as Markdown, with links to the SVG files of its charts in `charts_folder`; `None` leaves the charts out.
///
/// # Errors
/// If writing to `out` fails.
pub fn write_markdown(document: &Document, charts_folder: Option<&str>, out: &mut dyn Write) -> Result<()> {
    let document = if charts_folder.is_some() { document } else { &document.without_charts() };
    for (index, part) in document.parts.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match part {
            Part::Heading(level, text) => {
                writeln!(out, "{} {}", "#".repeat(usize::from(*level)), escape::markdown(text))?
            }
            Part::Chapter(chapter) => writeln!(out, "## {}", chapter.title())?,
            Part::Text(text) | Part::Samples(text) => writeln!(out, "{}", escape_block(text))?,
            Part::Warning(text) => writeln!(out, "**{}**", escape::markdown(text))?,
            Part::List(items) | Part::Facts(items) => {
                items.iter().try_for_each(|item| writeln!(out, "- {}", escape_block(item)))?
            }
            Part::Table(table) => write_table(table, out)?,
            Part::Chart(chart) => {
                let (title, folder) = (escape::markdown(&chart.title), charts_folder.unwrap_or_default());
                writeln!(out, "![{title}]({folder}/{}.svg)\n\n{}", chart.id, escape_block(&chart.caption))?
            }
            Part::Code(language, text) => write_code(language, text, out)?,
        }
    }
    Ok(())
}

/// Escapes the text of a paragraph or a list item. Its beginning starts no list (`- a`, `1. a`), rule (`---`) or code block
/// (four blanks); cells and headings cannot contain these.
fn escape_block(text: &str) -> String {
    let mut block = escape::markdown(text.trim_start());
    let digits = block.bytes().take_while(u8::is_ascii_digit).count();
    let markers = if digits == 0 { ['-', '+'] } else { ['.', ')'] };
    let behind_marker = block[digits..].strip_prefix(markers);
    let is_rule = block.chars().all(|c| c == '-' || c == ' ');
    if behind_marker.is_some_and(|text| text.is_empty() || text.starts_with(' ') || is_rule) {
        block.insert(digits, '\\');
    }
    block
}

fn write_table(table: &Table, out: &mut dyn Write) -> Result<()> {
    let header = table.header.iter().map(|name| escape::markdown(name)).collect::<Vec<_>>();
    writeln!(out, "| {} |", header.join(" | "))?;
    let rule = if table.has_words { "|---" } else { "|---:" };
    writeln!(out, "|---{}|", rule.repeat(header.len() - 1))?;
    for row in &table.rows {
        writeln!(out, "| {} |", row.iter().map(markdown_cell).collect::<Vec<_>>().join(" | "))?;
    }
    Ok(())
}

fn markdown_cell(cell: &Cell) -> String {
    let mut lines: Vec<String> = cell.lines.iter().map(|line| escape::markdown(line)).collect();
    if let Some(first) = lines.first_mut().filter(|_| cell.is_highlighted) {
        *first = format!("**{first}**");
    }
    lines.join("<br>")
}

/// Writes a fenced code block. The fence is longer than any sequence of backticks in the text.
fn write_code(language: &str, text: &str, out: &mut dyn Write) -> Result<()> {
    let longest_backticks = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest_backticks.max(2) + 1);
    writeln!(out, "{fence}{language}")?;
    escape::lines(text).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_starts_no_list_rule_or_code_block() {
        for (text, expected) in [
            ("- a", "\\- a"),
            ("+ a", "\\+ a"),
            ("-", "\\-"),
            ("---", "\\---"),
            ("1. a", "1\\. a"),
            ("12) a", "12\\) a"),
            ("# a", "\\# a"),
            ("    a", "a"),
            ("-5% and 1.5 s", "-5% and 1.5 s"),
            ("1 - 2", "1 - 2"),
        ] {
            let mut document = Document::default();
            document.text(text);
            document.list(vec![text.into()]);
            let mut out = vec![];
            write_markdown(&document, None, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("{expected}\n\n- {expected}\n"));
        }
    }
}
