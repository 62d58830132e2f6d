//! A document on a terminal.

use super::{Document, Part, Table};
use crate::safe;
use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, presets};
use std::io::{Result, Write};

/// Columns where nothing is known of the terminal, and the most that a line of words takes.
pub const WIDTH: u16 = 100;
/// Columns that a column of figures needs at least, its margins included.
const FIGURES: u16 = 13;
/// Columns that labels need at least.
const LABELS: u16 = 26;

/// What a terminal can show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Screen {
    /// Its columns, if known.
    pub width: Option<u16>,
    /// Whether it shows colours.
    pub colour: bool,
}

/// Writes the document, as wide as the screen at most.
///
/// # Errors
/// Where `out` fails.
pub fn write(document: &Document, screen: Screen, out: &mut dyn Write) -> Result<()> {
    // Narrower than this nothing can be read anyway.
    let width = screen.width.unwrap_or(WIDTH).max(LABELS + FIGURES);
    let mut terminal = Terminal { width, colour: screen.colour, out };
    let bold = Some(Attribute::Bold);
    for (at, part) in document.without_charts().parts.iter().enumerate() {
        if at > 0 {
            writeln!(terminal.out)?;
        }
        match part {
            Part::Heading(_, text) => terminal.wrapped(&[("", text, bold)])?,
            Part::Chapter(chapter) => terminal.wrapped(&[("", chapter.title(), bold)])?,
            Part::Text(text) | Part::Samples(text) => terminal.wrapped(&[("", text, None)])?,
            Part::Loud(text) => terminal.wrapped(&[("!", text, bold)])?,
            Part::List(items) | Part::Facts(items) => {
                terminal.wrapped(&items.iter().map(|item| ("-", item.as_str(), None)).collect::<Vec<_>>())?;
            }
            Part::Table(table) => {
                for (at, table) in table.split(usize::from((width - LABELS) / FIGURES)).iter().enumerate() {
                    if at > 0 {
                        writeln!(terminal.out)?;
                    }
                    terminal.table(table)?;
                }
            }
            // The figures that it shows are in the tables.
            Part::Chart(_) => {}
            Part::Code(_, text) => {
                safe::lines(text).try_for_each(|line| writeln!(terminal.out, "    {line}"))?;
            }
        }
    }
    Ok(())
}

struct Terminal<'a> {
    width: u16,
    colour: bool,
    out: &'a mut dyn Write,
}

impl Terminal<'_> {
    /// A table of ours in the library's words.
    fn plain(&self, width: u16) -> comfy_table::Table {
        let mut shown = comfy_table::Table::new();
        shown.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        if self.colour {
            shown.enforce_styling();
        } else {
            shown.force_no_tty();
        }
        shown
    }

    /// Lines without trailing blanks.
    fn print(&mut self, shown: &comfy_table::Table) -> Result<()> {
        shown.lines().try_for_each(|line| writeln!(self.out, "{}", line.trim_end()))
    }

    /// Paragraphs with a bullet each, broken into lines.
    fn wrapped(&mut self, items: &[(&str, &str, Option<Attribute>)]) -> Result<()> {
        let mut shown = self.plain(self.width.min(WIDTH));
        shown.load_style(presets::NOTHING);
        let bullets = items.iter().any(|(bullet, ..)| !bullet.is_empty());
        for (bullet, text, attribute) in items {
            let text =
                comfy_table::Cell::new(safe::line(text)).add_attributes(attribute.iter().copied().collect());
            shown.add_row(if bullets { vec![comfy_table::Cell::new(bullet), text] } else { vec![text] });
        }
        for column in shown.column_iter_mut() {
            column.set_padding((0, 1));
        }
        self.print(&shown)
    }

    fn table(&mut self, table: &Table) -> Result<()> {
        let mut shown = self.plain(self.width);
        let mut style = presets::UTF8_HORIZONTAL_ONLY;
        if !table.words {
            // The two lines of a row of figures tell rows apart without a rule between them.
            style.row_separator = presets::NOTHING.row_separator;
        }
        shown.load_style(style);
        let bold = |text: &String| comfy_table::Cell::new(safe::line(text)).add_attribute(Attribute::Bold);
        shown.set_header(table.header.iter().map(bold));
        for row in &table.rows {
            shown.add_row(row.iter().map(|cell| {
                let lines: Vec<String> = cell.lines.iter().map(|line| safe::line(line)).collect();
                let shown = comfy_table::Cell::new(lines.join("\n"));
                if cell.strong { shown.fg(Color::Green).add_attribute(Attribute::Bold) } else { shown }
            }));
        }
        for column in shown.column_iter_mut().skip(1).filter(|_| !table.words) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.print(&shown)
    }
}
