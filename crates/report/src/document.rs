//! The document model of reports (headings, tables, charts …), which every format for people renders.

pub mod markdown;
pub mod terminal;

use crate::drawing::Chart;
use fsarena_core::names::distinct;
use std::ops::Range;

/// Makes a table row of values that convert into cells.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($crate::document::Cell::from($cell)),*] };
}
pub(crate) use row;

/// A report for people.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Its parts, from top to bottom.
    pub parts: Vec<Part>,
}

/// One part of a document. Texts may contain control characters and markup: each renderer escapes them.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A heading with its level: 1 is the title, 3 and higher are inside a chapter.
    Heading(u8, String),
    /// Starts a chapter, with a heading of level 2.
    Chapter(Chapter),
    /// Short facts about the whole document.
    Facts(Vec<String>),
    /// A paragraph.
    Text(String),
    /// A warning: a paragraph that stands out.
    Warning(String),
    /// A list.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// Preformatted text with its language. HTML pages show it folded.
    Code(&'static str, String),
    /// A chart. HTML pages draw it, Markdown links to its file, and the terminal leaves it out.
    Chart(Box<Chart>),
    /// The place of the table of all samples in an HTML page; other formats print this text instead.
    Samples(String),
}

/// The chapters that documents are divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chapter {
    /// The result, its size and its certainty.
    Answer,
    /// Claims and their verdicts.
    Claims,
    /// The charts.
    Charts,
    /// The conclusions of the study's author.
    Conclusions,
    /// The tables.
    Data,
    /// How fsarena measured the figures, and what disturbed the measurement.
    Method,
}

impl Chapter {
    /// The id of the chapter's element in an HTML page. It does not change: tests and scripts use it
    /// (docs/guide/serve.md).
    pub fn id(self) -> &'static str {
        self.id_and_title().0
    }

    /// The heading of the chapter.
    pub fn title(self) -> &'static str {
        self.id_and_title().1
    }

    fn id_and_title(self) -> (&'static str, &'static str) {
        match self {
            Chapter::Answer => ("answer", "Answer"),
            Chapter::Claims => ("claims", "Claims"),
            Chapter::Charts => ("pictures", "Charts"),
            Chapter::Conclusions => ("conclusions", "Conclusions"),
            Chapter::Data => ("data", "Data"),
            Chapter::Method => ("method", "Method"),
        }
    }
}

/// How much of a report a format shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Only the sections that fit on a screen.
    Brief,
    /// All sections, without charts.
    Full,
    /// All sections, with charts.
    Charts,
}

/// A table. Its first column holds labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub header: Vec<String>,
    /// The rows; each has as many cells as the header.
    pub rows: Vec<Vec<Cell>>,
    /// Whether the columns hold words, aligned left, instead of figures, aligned right.
    pub has_words: bool,
}

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// Its lines.
    pub lines: Vec<String>,
    /// Whether the cell is highlighted, for example because it is the best of its row.
    pub is_highlighted: bool,
    /// The samples of the run behind the figure; `None` for text and for figures that are not from the run.
    pub source: Option<FigureSource>,
    /// The mark that ends the first line and is not part of its number: `≈`.
    pub mark: String,
    /// The address that the cell links to in an HTML page.
    pub link: Option<String>,
}

/// The samples and commands behind a figure. An HTML page shows them when a reader clicks the figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureSource {
    /// The task's index in the run; `None` for all tasks.
    pub task: Option<usize>,
    /// The variants' indexes in the run: first the variant of the figure, then, for a ratio, the variant of its denominator.
    pub variants: Vec<usize>,
}

impl FigureSource {
    /// The source of a figure of these variants, without duplicates; `None` without a variant.
    pub fn new(task: Option<usize>, variants: impl IntoIterator<Item = usize>) -> Option<FigureSource> {
        let variants = distinct(variants);
        (!variants.is_empty()).then_some(FigureSource { task, variants })
    }

    /// The variants as the value of an HTML attribute: `2 0`.
    pub fn variants_attribute(&self) -> String {
        self.variants.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl Cell {
    /// A cell of two lines; the second may be empty.
    pub fn two_lines(first: impl Into<String>, second: impl Into<String>) -> Cell {
        let mut lines = vec![first.into(), second.into()];
        lines.retain(|line| !line.is_empty());
        Cell { lines, ..Cell::default() }
    }

    /// Returns the cell with this source.
    pub fn with_source(self, source: Option<FigureSource>) -> Cell {
        Cell { source, ..self }
    }

    /// Returns the cell with a mark behind its first line.
    pub fn with_mark(mut self, mark: &str) -> Cell {
        if let Some(first) = self.lines.first_mut().filter(|_| !mark.is_empty()) {
            first.push_str(&format!(" {mark}"));
        }
        Cell { mark: mark.into(), ..self }
    }

    /// Returns the cell highlighted.
    pub fn highlighted(self) -> Cell {
        self.highlighted_if(true)
    }

    /// Returns the cell, highlighted if the condition holds.
    pub fn highlighted_if(self, condition: bool) -> Cell {
        Cell { is_highlighted: condition, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::two_lines(text, "")
    }
}

/// A row of a table: a label, then its cells.
pub fn labelled_row(label: impl Into<Cell>, cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    std::iter::once(label.into()).chain(cells).collect()
}

/// Returns the row with this source in every cell except the first, the label.
pub fn row_with_source(source: Option<FigureSource>, mut row: Vec<Cell>) -> Vec<Cell> {
    for cell in row.iter_mut().skip(1) {
        cell.source = source.clone();
    }
    row
}

impl Document {
    /// Adds a heading.
    pub fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.parts.push(Part::Heading(level, text.into()));
    }

    /// Starts a chapter.
    pub fn chapter(&mut self, chapter: Chapter) {
        self.parts.push(Part::Chapter(chapter));
    }

    /// Adds a paragraph, unless the text is empty.
    pub fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.parts.push(Part::Text(text));
        }
    }

    /// Adds a warning.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Warning(text.into()));
    }

    /// Adds charts.
    pub fn charts(&mut self, charts: impl IntoIterator<Item = Chart>) {
        self.parts.extend(charts.into_iter().map(|chart| Part::Chart(Box::new(chart))));
    }

    /// Adds a list, unless it is empty.
    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.parts.push(Part::List(items));
        }
    }

    /// Adds a heading of level 3 and a list, unless the list is empty.
    pub fn titled_list(&mut self, title: &str, items: Vec<String>) {
        if !items.is_empty() {
            self.heading(3, title);
            self.list(items);
        }
    }

    /// Adds a table, unless it has no rows.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }

    /// Returns a copy without charts, and without headings that then have nothing below them.
    pub fn without_charts(&self) -> Document {
        let level = |part: &Part| match part {
            Part::Heading(level, _) => Some(*level),
            Part::Chapter(_) => Some(2),
            _ => None,
        };
        // From the last part to the first, because what follows a heading decides whether the heading stays.
        let mut parts_from_end: Vec<&Part> = vec![];
        // The level of the next part that stays, if it is a heading. The end counts as a heading of level 0.
        let mut next_level = Some(0);
        for part in self.parts.iter().rev().filter(|part| !matches!(part, Part::Chart(_))) {
            let is_empty_heading = |(level, next_level): (u8, u8)| level > 1 && next_level <= level;
            if !level(part).zip(next_level).is_some_and(is_empty_heading) {
                parts_from_end.push(part);
                next_level = level(part);
            }
        }
        Document { parts: parts_from_end.into_iter().rev().cloned().collect() }
    }
}

impl Table {
    /// A table of figures, without rows yet.
    pub fn of_figures<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Table {
        let header = header.into_iter().map(Into::into).collect();
        Table { header, ..Table::default() }
    }

    /// A table of words, without rows yet.
    pub fn of_words<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Table {
        Table { has_words: true, ..Table::of_figures(header) }
    }

    /// Returns the table with these rows.
    pub fn with_rows(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        Table { rows: rows.into_iter().collect(), ..self }
    }

    /// A table of two columns of words. Each row is a pair of a key and its value.
    pub fn of_pairs(header: [&str; 2], rows: impl IntoIterator<Item = (impl Into<Cell>, String)>) -> Table {
        Table::of_words(header).with_rows(rows.into_iter().map(|(key, value)| vec![key.into(), value.into()]))
    }

    /// Splits the table into as few tables as possible with at most `max_columns` columns beside the labels. Each repeats the
    /// labels, and all tables but the last have the same number of columns.
    pub fn split_columns(&self, max_columns: usize) -> Vec<Table> {
        let columns = self.header.len().saturating_sub(1);
        let tables = columns.div_ceil(max_columns.max(1)).max(1);
        let columns_each = columns.div_ceil(tables).max(1);
        let table_from = |start: usize| Table {
            has_words: self.has_words,
            header: label_and_columns(&self.header, start..start + columns_each),
            rows: self.rows.iter().map(|row| label_and_columns(row, start..start + columns_each)).collect(),
        };
        (0..columns.max(1)).step_by(columns_each).map(table_from).collect()
    }
}

/// The label of a row, its first item, and a range of its other items, counted from 0.
fn label_and_columns<T: Clone>(row: &[T], columns: Range<usize>) -> Vec<T> {
    row.iter().take(1).chain(row.iter().skip(1 + columns.start).take(columns.len())).cloned().collect()
}

/// The no-break space: neither the terminal's layout nor a browser breaks a line there.
const NO_BREAK_SPACE: char = '\u{a0}';
/// The word joiner, which has no width: a browser breaks no line beside it.
const WORD_JOINER: char = '\u{2060}';

/// Units that stand behind a number and a space.
const UNITS: [&str; 16] =
    ["s", "ms", "µs", "ns", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "MB/s", "GB/s"];

/// Keeps each figure with its interval and its unit on one line: replaces the spaces inside it by no-break spaces. The text
/// `xfs 1.05 [0.606, 1.27] in 0.145 s` can then break only after `xfs`, before `in` and after `in`.
pub fn insert_no_break_spaces(text: &str) -> String {
    let mut in_interval = false;
    let mut joined = String::with_capacity(text.len());
    for (index, character) in text.char_indices() {
        let (before, after) = (&text[..index], &text[index + character.len_utf8()..]);
        match character {
            '[' => in_interval = starts_with_number(after),
            ']' => in_interval = false,
            _ => {}
        }
        match character {
            ' ' if in_interval || belongs_to_figure(before, after) => joined.push(NO_BREAK_SPACE),
            '–' if in_interval => joined.extend([WORD_JOINER, character, WORD_JOINER]),
            _ => joined.push(character),
        }
    }
    joined
}

/// Undoes [`insert_no_break_spaces`]: replaces no-break spaces by spaces.
pub fn remove_no_break_spaces(text: &str) -> String {
    text.replace(NO_BREAK_SPACE, " ").replace(WORD_JOINER, "")
}

/// Whether the text after a space belongs to the figure before it: an interval, a mark or a unit.
fn belongs_to_figure(before: &str, after: &str) -> bool {
    let has_number = before.ends_with(|c: char| c.is_ascii_digit() || ['%', '×'].contains(&c));
    let has_figure = has_number || before.ends_with(['≈', '?', '*']);
    let is_bracketed = after.strip_prefix(['[', '(']).is_some_and(starts_with_number);
    let unit = after.split(|c: char| c.is_whitespace() || [',', ';', ')', ']', '.'].contains(&c)).next();
    (has_figure && (is_bracketed || after.starts_with(['≈', '?'])))
        || (has_number && unit.is_some_and(|unit| UNITS.contains(&unit)))
}

fn starts_with_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || ['−', '-', '+'].contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_with_nothing_below_them_go_with_the_charts() {
        let mut document = Document::default();
        document.heading(1, "title");
        document.chapter(Chapter::Charts);
        document.charts([Chart::new("c", "C", "c")]);
        document.chapter(Chapter::Data);
        document.heading(3, "nothing below");
        document.heading(3, "figures");
        document.text("some");
        let [title, data, figures, text] = &document.without_charts().parts[..] else { panic!() };
        assert_eq!((title, text), (&Part::Heading(1, "title".into()), &Part::Text("some".into())));
        assert_eq!((data, figures), (&Part::Chapter(Chapter::Data), &Part::Heading(3, "figures".into())));
    }

    #[test]
    fn nine_columns_become_five_and_four() {
        let names: Vec<String> = (0..10).map(|i| format!("c{i}")).collect();
        let table =
            Table { rows: vec![names.iter().map(|n| n.as_str().into()).collect()], ..Table::of_figures(names.clone()) };
        let parts = table.split_columns(5);
        assert_eq!(parts[0].header, ["c0", "c1", "c2", "c3", "c4", "c5"]);
        assert_eq!(parts[1].header, ["c0", "c6", "c7", "c8", "c9"]);
        assert_eq!(parts[1].rows[0][1], "c6".into());
        assert_eq!(parts.len(), 2);
        assert_eq!(table.split_columns(9), vec![table]);
    }

    #[test]
    fn a_source_lists_each_variant_once() {
        assert_eq!(FigureSource::new(None, [2, 0, 2]).unwrap().variants_attribute(), "2 0");
        assert_eq!(FigureSource::new(Some(1), []), None);
    }

    #[test]
    fn the_label_of_a_row_has_no_source() {
        let row = row_with_source(FigureSource::new(Some(3), [1]), vec!["untar".into(), "1.00".into()]);
        assert_eq!(row[0].source, None);
        assert_eq!(row[1].source, FigureSource::new(Some(3), [1]));
    }

    #[test]
    fn a_figure_its_interval_and_its_unit_stay_on_one_line() {
        let words = |text: &str| insert_no_break_spaces(text).split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(words("xfs 1.05 ≈ [0.6, 1.2] or"), ["xfs", "1.05\u{a0}≈\u{a0}[0.6,\u{a0}1.2]", "or"]);
        assert_eq!(words("1.00 (0.145 s) by"), ["1.00\u{a0}(0.145\u{a0}s)", "by"]);
        assert_eq!(words("costs 11.8% [−37.5, 207]."), ["costs", "11.8%\u{a0}[−37.5,\u{a0}207]."]);
        assert_eq!(words("in 8 rounds (a, b), 12 MiB at"), ["in", "8", "rounds", "(a,", "b),", "12\u{a0}MiB", "at"]);
        assert_eq!(remove_no_break_spaces(&insert_no_break_spaces("1.05 [0.6–1.2] 3 s")), "1.05 [0.6–1.2] 3 s");
        assert_eq!(insert_no_break_spaces("[0.6–1.2]"), "[0.6\u{2060}–\u{2060}1.2]");
    }
}
