//! A document on a terminal.

use crate::document::{Document, Part, Table};
use crate::document::{join_figures, split_figures};
use crate::safe;
use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets};
use std::io::{Result, Write};
use textwrap::core::display_width;

/// Columns where nothing is known of the terminal, and the most that a line of words takes.
pub const WIDTH: u16 = 100;
/// Columns of the narrowest screen: on less nothing can be read anyway.
const NARROWEST: u16 = 39;
/// Columns that labels take at most where figures need the room.
const LABELS: usize = 26;
/// Columns that a column of words needs at least, its margins included.
const WORDS: usize = 13;
/// Columns of the margins of a column.
const MARGINS: usize = 2;

/// The size and abilities of a terminal.
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
    let width = screen.width.unwrap_or(WIDTH).max(NARROWEST);
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
            Part::Warning(text) => terminal.wrapped(&[("!", text, bold)])?,
            Part::List(items) | Part::Facts(items) => {
                terminal.wrapped(&items.iter().map(|item| ("-", item.as_str(), None)).collect::<Vec<_>>())?;
            }
            Part::Table(table) => {
                for (at, table) in parts_that_fit(table, width.into()).iter().enumerate() {
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

/// The table, its columns spread evenly over as few tables as have room for whole figures. Words find room in more lines.
fn parts_that_fit(table: &Table, width: usize) -> Vec<Table> {
    if table.words {
        return table.split((width - LABELS) / WORDS);
    }
    let columns = table.header.len().saturating_sub(1).max(1);
    let fits = |table: &Table| narrowest(table).iter().sum::<usize>() + beside(table.header.len()) <= width;
    let most = (1..=columns).rev().find(|most| table.split(*most).iter().all(fits));
    table.split(most.unwrap_or(1))
}

/// The width of the margins of columns and of the blanks between them.
fn beside(columns: usize) -> usize {
    ((MARGINS + 1) * columns).saturating_sub(1)
}

/// The least columns that each column of a table takes without a break in a word; in a figure no blank breaks either.
fn narrowest(table: &Table) -> Vec<usize> {
    let word = |text: &str| join_figures(&safe::line(text)).split(' ').map(display_width).max().unwrap_or(0);
    let line = |text: &str| display_width(&safe::line(text));
    let column = |at: usize| {
        let lines = || table.rows.iter().flat_map(|row| &row[at].lines);
        let cells = match at {
            _ if table.words => lines().map(|text| word(text)).max(),
            0 => lines().map(|text| word(text).max(line(text).min(LABELS))).max(),
            _ => lines().map(|text| line(text)).max(),
        };
        cells.unwrap_or(0).max(word(&table.header[at]))
    };
    (0..table.header.len()).map(column).collect()
}

/// The columns that each column of a table takes where no line breaks.
fn natural(table: &Table) -> Vec<usize> {
    let line = |text: &String| display_width(&safe::line(text));
    let column = |at: usize| {
        let lines = table.rows.iter().flat_map(|row| &row[at].lines);
        lines.chain([&table.header[at]]).map(line).max().unwrap_or(0)
    };
    (0..table.header.len()).map(column).collect()
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
        shown.lines().try_for_each(|line| writeln!(self.out, "{}", split_figures(line.trim_end())))
    }

    /// Paragraphs with a bullet each, broken into lines.
    fn wrapped(&mut self, items: &[(&str, &str, Option<Attribute>)]) -> Result<()> {
        let mut shown = self.plain(self.width.min(WIDTH));
        shown.load_style(presets::NOTHING);
        let bullets = items.iter().any(|(bullet, ..)| !bullet.is_empty());
        for (bullet, text, attribute) in items {
            let text = comfy_table::Cell::new(join_figures(&safe::line(text)))
                .add_attributes(attribute.iter().copied().collect());
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
                let lines: Vec<String> =
                    cell.lines.iter().map(|line| join_figures(&safe::line(line))).collect();
                let shown = comfy_table::Cell::new(lines.join("\n"));
                if cell.strong { shown.fg(Color::Green).add_attribute(Attribute::Bold) } else { shown }
            }));
        }
        let columns = table.header.len();
        let room = usize::from(self.width).saturating_sub(beside(columns));
        let mut least = narrowest(table);
        // Where not all have room, the longest words break.
        while least.iter().sum::<usize>() > room {
            let Some(widest) = least.iter_mut().max().filter(|widest| **widest > 1) else { break };
            *widest = 1;
        }
        let widths = fit_columns(&natural(table), &least, room);
        for (at, (column, width)) in shown.column_iter_mut().zip(widths).enumerate() {
            let width = u16::try_from(width + MARGINS).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
            if at > 0 && !table.words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.print(&shown)
    }
}

/// Widths that fit into `room` together where the least of each allow it: of the texts themselves, or the widest columns give
/// way, down to their least.
pub fn fit_columns(natural: &[usize], least: &[usize], room: usize) -> Vec<usize> {
    let mut widths = natural.to_vec();
    while widths.iter().sum::<usize>() > room {
        let can_give = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
        let Some(widest) = can_give.max_by_key(|at| widths[*at]) else { break };
        widths[widest] -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Cell;

    fn shown(document: &Document, width: u16) -> String {
        let mut out = vec![];
        write(document, Screen { width: Some(width), colour: false }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn figures_and_words_stay_whole_at_80_and_120_columns() {
        let figure = "1.12 ≈ [0.858–1.41]";
        let header = ["variant", "total elapsed", "geomean elapsed", "total synced", "geomean synced"];
        let row = std::iter::once("btrfs/compress-zstd").chain([figure; 4]).map(Cell::from).collect();
        let mut document = Document::default();
        document.table(Table::figures(header).with([row]));
        let words =
            ["elapsed", "published:vondra-xeon-limit-2", "a conclusion of many words that needs room"];
        let row = words.map(Cell::from).to_vec();
        document.table(Table::words(["metric", "figures", "conclusion"]).with([row]));
        document.text(format!("{}{figure} is one word.", "word ".repeat(15)));
        for width in [80, 120] {
            let shown = shown(&document, width);
            assert!(shown.lines().all(|line| display_width(line) <= width.into()), "{shown}");
            assert_eq!(shown.matches(figure).count(), 5, "{shown}");
            assert!(words[..2].iter().all(|word| shown.contains(word)), "{shown}");
        }
        assert!(
            shown(&document, 80).matches("variant").count()
                > shown(&document, 120).matches("variant").count()
        );
    }

    #[test]
    fn a_word_longer_than_the_screen_breaks() {
        let mut document = Document::default();
        let row = ["/a/path".repeat(9), "b".repeat(60)].map(Cell::from).to_vec();
        document.table(Table::words(["path", "other"]).with([row]));
        assert!(shown(&document, 80).lines().all(|line| display_width(line) <= 80));
    }

    #[test]
    fn the_widest_column_gives_way_down_to_its_longest_word() {
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 100), [8, 40, 10]);
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 40), [8, 22, 10]);
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 27), [8, 12, 7]);
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 20), [8, 12, 5]);
    }
}
