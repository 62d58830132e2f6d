//! Renders a document as text for a terminal.

use crate::document::{Document, Part, Table, insert_no_break_spaces, remove_no_break_spaces};
use crate::escape;
use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets};
use std::io::{Result, Write};
use textwrap::core::display_width;

/// The width in characters of a terminal of unknown size, and the largest width of a paragraph.
const DEFAULT_TERMINAL_WIDTH: u16 = 100;
/// The smallest width in characters, which a text has even in a narrower terminal. It has room for the labels of a table of
/// words and one column beside them.
const MIN_WIDTH: u16 = (MAX_LABEL_WIDTH + MIN_WORD_COLUMN_WIDTH) as u16;
/// In a table of figures, a label of at most this width in characters does not break into lines. Longer labels may break.
const MAX_LABEL_WIDTH: usize = 26;
/// The smallest width in characters of a column of words, with its margins.
const MIN_WORD_COLUMN_WIDTH: usize = 13;
/// The width in characters of both margins of a column.
const COLUMN_MARGINS: usize = 2;

/// The width and colours of a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Screen {
    /// The width in characters, if known.
    pub width: Option<u16>,
    /// Whether the terminal shows colours.
    pub has_colour: bool,
}

/// Writes the document in lines that fit the screen. Charts are left out.
///
/// # Errors
/// If writing to `out` fails.
pub fn write_terminal(document: &Document, screen: Screen, out: &mut dyn Write) -> Result<()> {
    let width = screen.width.unwrap_or(DEFAULT_TERMINAL_WIDTH).max(MIN_WIDTH);
    let mut writer = TextWriter { width, has_colour: screen.has_colour, out };
    let bold = Some(Attribute::Bold);
    for (index, part) in document.without_charts().parts.iter().enumerate() {
        if index > 0 {
            writeln!(writer.out)?;
        }
        match part {
            Part::Heading(_, text) => writer.write_paragraphs(&[("", text, bold)])?,
            Part::Chapter(chapter) => writer.write_paragraphs(&[("", chapter.title(), bold)])?,
            Part::Text(text) | Part::Samples(text) => writer.write_paragraphs(&[("", text, None)])?,
            Part::Warning(text) => writer.write_paragraphs(&[("!", text, bold)])?,
            Part::List(items) | Part::Facts(items) => {
                writer.write_paragraphs(&items.iter().map(|item| ("-", item.as_str(), None)).collect::<Vec<_>>())?;
            }
            Part::Table(table) => {
                for (index, table) in split_to_fit(table, width.into()).iter().enumerate() {
                    if index > 0 {
                        writeln!(writer.out)?;
                    }
                    writer.write_table(table)?;
                }
            }
            // The tables have the figures of every chart.
            Part::Chart(_) => {}
            Part::Code(_, text) => {
                escape::lines(text).try_for_each(|line| writeln!(writer.out, "    {line}"))?;
            }
        }
    }
    Ok(())
}

/// Splits a table into as few tables as possible that each fit the width without breaking a figure. Columns of words need
/// less room, because words may break into lines.
fn split_to_fit(table: &Table, width: usize) -> Vec<Table> {
    if table.has_words {
        return table.split_columns((width - MAX_LABEL_WIDTH) / MIN_WORD_COLUMN_WIDTH);
    }
    let columns = table.header.len().saturating_sub(1).max(1);
    let fits = |table: &Table| min_widths(table).iter().sum::<usize>() + total_margins(table.header.len()) <= width;
    let figure_columns = (1..=columns).rev().find(|columns| table.split_columns(*columns).iter().all(fits));
    table.split_columns(figure_columns.unwrap_or(1))
}

/// The width of all margins of a table and of the gaps between its columns.
fn total_margins(columns: usize) -> usize {
    ((COLUMN_MARGINS + 1) * columns).saturating_sub(1)
}

/// The smallest width of each column in which no word and no figure breaks. In a table of figures, labels up to
/// [`MAX_LABEL_WIDTH`] do not break either.
fn min_widths(table: &Table) -> Vec<usize> {
    let longest_word =
        |text: &str| insert_no_break_spaces(&escape::line(text)).split(' ').map(display_width).max().unwrap_or(0);
    let line_width = |text: &str| display_width(&escape::line(text));
    let column_width = |column: usize| {
        let lines = || table.rows.iter().flat_map(|row| &row[column].lines);
        let widest_cell = match column {
            _ if table.has_words => lines().map(|text| longest_word(text)).max(),
            0 => lines().map(|text| longest_word(text).max(line_width(text).min(MAX_LABEL_WIDTH))).max(),
            _ => lines().map(|text| line_width(text)).max(),
        };
        widest_cell.unwrap_or(0).max(longest_word(&table.header[column]))
    };
    (0..table.header.len()).map(column_width).collect()
}

/// The width of each column in which no line breaks.
fn natural_widths(table: &Table) -> Vec<usize> {
    let line_width = |text: &String| display_width(&escape::line(text));
    let column_width = |column: usize| {
        let lines = table.rows.iter().flat_map(|row| &row[column].lines);
        lines.chain([&table.header[column]]).map(line_width).max().unwrap_or(0)
    };
    (0..table.header.len()).map(column_width).collect()
}

/// A writer of paragraphs and tables of a fixed width.
struct TextWriter<'a> {
    /// The width in characters.
    width: u16,
    has_colour: bool,
    out: &'a mut dyn Write,
}

impl TextWriter<'_> {
    /// An empty table of the layout library, with this width in characters.
    fn new_table(&self, width: u16) -> comfy_table::Table {
        let mut layout = comfy_table::Table::new();
        layout.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        if self.has_colour {
            layout.enforce_styling();
        } else {
            layout.force_no_tty();
        }
        layout
    }

    /// Writes the lines of a laid-out table without trailing spaces.
    fn write_layout(&mut self, layout: &comfy_table::Table) -> Result<()> {
        layout.lines().try_for_each(|line| writeln!(self.out, "{}", remove_no_break_spaces(line.trim_end())))
    }

    /// Writes paragraphs, broken into lines: each has a bullet, a text and an attribute of the text.
    fn write_paragraphs(&mut self, paragraphs: &[(&str, &str, Option<Attribute>)]) -> Result<()> {
        let mut layout = self.new_table(self.width.min(DEFAULT_TERMINAL_WIDTH));
        layout.load_style(presets::NOTHING);
        let has_bullets = paragraphs.iter().any(|(bullet, ..)| !bullet.is_empty());
        for (bullet, text, attribute) in paragraphs {
            let text = comfy_table::Cell::new(insert_no_break_spaces(&escape::line(text)))
                .add_attributes(attribute.iter().copied().collect());
            layout.add_row(if has_bullets { vec![comfy_table::Cell::new(bullet), text] } else { vec![text] });
        }
        for column in layout.column_iter_mut() {
            column.set_padding((0, 1));
        }
        self.write_layout(&layout)
    }

    /// Writes a table in this width. Words break if there is not enough room.
    fn write_table(&mut self, table: &Table) -> Result<()> {
        let mut layout = self.new_table(self.width);
        let mut style = presets::UTF8_HORIZONTAL_ONLY;
        if !table.has_words {
            // No rules between rows of figures: the row labels in the first column already show where a row begins.
            style.row_separator = presets::NOTHING.row_separator;
        }
        layout.load_style(style);
        let bold = |text: &String| comfy_table::Cell::new(escape::line(text)).add_attribute(Attribute::Bold);
        layout.set_header(table.header.iter().map(bold));
        for row in &table.rows {
            layout.add_row(row.iter().map(|cell| {
                let lines: Vec<String> =
                    cell.lines.iter().map(|line| insert_no_break_spaces(&escape::line(line))).collect();
                let rendered = comfy_table::Cell::new(lines.join("\n"));
                if cell.is_highlighted { rendered.fg(Color::Green).add_attribute(Attribute::Bold) } else { rendered }
            }));
        }
        let columns = table.header.len();
        let room = usize::from(self.width).saturating_sub(total_margins(columns));
        let mut min_widths = min_widths(table);
        // If there is not enough room, the words of the widest columns may break.
        while min_widths.iter().sum::<usize>() > room {
            let Some(widest) = min_widths.iter_mut().max().filter(|widest| **widest > 1) else { break };
            *widest = 1;
        }
        let widths = fit_columns(&natural_widths(table), &min_widths, room);
        for (index, (column, width)) in layout.column_iter_mut().zip(widths).enumerate() {
            let width = u16::try_from(width + COLUMN_MARGINS).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
            if index > 0 && !table.has_words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.write_layout(&layout)
    }
}

/// Reduces the widths of columns until their sum is at most `room`: always the widest column that is wider than its minimum. If
/// all columns have their minimum, the sum may exceed `room`.
pub fn fit_columns(natural_widths: &[usize], min_widths: &[usize], room: usize) -> Vec<usize> {
    let mut widths = natural_widths.to_vec();
    while widths.iter().sum::<usize>() > room {
        let shrinkable = (0..widths.len()).filter(|column| widths[*column] > min_widths[*column]);
        let Some(widest) = shrinkable.max_by_key(|column| widths[*column]) else { break };
        widths[widest] -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Cell;

    fn render(document: &Document, width: u16) -> String {
        let mut out = vec![];
        write_terminal(document, Screen { width: Some(width), has_colour: false }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn figures_and_words_stay_whole_at_80_and_120_columns() {
        let figure = "1.12 ≈ [0.858–1.41]";
        let header = ["variant", "total elapsed", "geomean elapsed", "total synced", "geomean synced"];
        let row = std::iter::once("btrfs/compress-zstd").chain([figure; 4]).map(Cell::from).collect();
        let mut document = Document::default();
        document.table(Table::of_figures(header).with_rows([row]));
        let words = ["elapsed", "published:vondra-xeon-limit-2", "a conclusion of many words that needs room"];
        let row = words.map(Cell::from).to_vec();
        document.table(Table::of_words(["metric", "figures", "conclusion"]).with_rows([row]));
        document.text(format!("{}{figure} is one word.", "word ".repeat(15)));
        for width in [80, 120] {
            let text = render(&document, width);
            assert!(text.lines().all(|line| display_width(line) <= width.into()), "{text}");
            assert_eq!(text.matches(figure).count(), 5, "{text}");
            assert!(words[..2].iter().all(|word| text.contains(word)), "{text}");
        }
        assert!(render(&document, 80).matches("variant").count() > render(&document, 120).matches("variant").count());
    }

    #[test]
    fn a_word_longer_than_the_line_breaks() {
        let mut document = Document::default();
        let row = ["/a/path".repeat(9), "b".repeat(60)].map(Cell::from).to_vec();
        document.table(Table::of_words(["path", "other"]).with_rows([row]));
        assert!(render(&document, 80).lines().all(|line| display_width(line) <= 80));
    }

    #[test]
    fn the_widest_column_shrinks_first_down_to_its_minimum() {
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 100), [8, 40, 10]);
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 40), [8, 22, 10]);
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 27), [8, 12, 7]);
        assert_eq!(fit_columns(&[8, 40, 10], &[8, 12, 5], 20), [8, 12, 5]);
    }
}
