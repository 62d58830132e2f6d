//! A report as parts that every format for people can show, and the Markdown of it.

pub mod terminal;

use crate::{drawing::Chart, safe};
use std::io::{self, Write};
use std::ops::Range;

/// A row of cells.
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

/// One part. Text may hold anything; the formats make it harmless.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A heading, and its level: 1 for the title, 3 and more inside a chapter.
    Heading(u8, String),
    /// The beginning of a chapter, a heading of level 2.
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
    /// Text kept as it is, and its language. A page folds it.
    Code(&'static str, String),
    /// A chart. Pages draw it, Markdown links to its file, and the terminal leaves it out.
    Chart(Box<Chart>),
    /// The table of all samples on a page, and what other formats say instead.
    Samples(String),
}

/// The chapters that documents are divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chapter {
    /// The result, how large it is and how sure.
    Answer,
    /// Claims, and what became of them.
    Claims,
    /// The charts.
    Charts,
    /// What the author of the study concluded.
    Conclusions,
    /// The tables.
    Data,
    /// How the figures were measured, and what disturbed them.
    Method,
}

impl Chapter {
    /// The name of its element on a page.
    pub fn id(self) -> &'static str {
        self.names().0
    }

    /// Its heading.
    pub fn title(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
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

/// A table. Its first column holds labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub header: Vec<String>,
    /// The rows, as long as the header.
    pub rows: Vec<Vec<Cell>>,
    /// Whether the columns hold words, and not figures.
    pub words: bool,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// Its lines.
    pub lines: Vec<String>,
    /// Whether it stands out: the best of its row.
    pub strong: bool,
    /// The samples of the run behind the figure; `None` for text and for figures from elsewhere.
    pub source: Option<Source>,
    /// The marks that its first line ends with, which are not part of its number: `≈`.
    pub mark: String,
    /// Where a click on it leads, on a page that has such an address.
    pub address: Option<String>,
}

/// The samples and commands behind a figure, which a page shows at a click.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The task, by its number in the run; `None` if it is all of them.
    pub task: Option<usize>,
    /// The variants, by their numbers in the run: that of the figure, and of a ratio then the one it is compared with.
    pub variants: Vec<usize>,
}

impl Source {
    /// Each of these variants once; `None` without a variant.
    pub fn of(task: Option<usize>, variants: impl IntoIterator<Item = usize>) -> Option<Source> {
        let mut once: Vec<usize> = vec![];
        for variant in variants {
            if !once.contains(&variant) {
                once.push(variant);
            }
        }
        (!once.is_empty()).then_some(Source { task, variants: once })
    }

    /// The variants as an attribute of an element holds them: `2 0`.
    pub fn variants(&self) -> String {
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

    /// Returns the cell with these samples as its source.
    pub fn with_source(self, source: Option<Source>) -> Cell {
        Cell { source, ..self }
    }

    /// Returns the cell with a mark behind its first line.
    pub fn mark(mut self, mark: &str) -> Cell {
        if let Some(first) = self.lines.first_mut().filter(|_| !mark.is_empty()) {
            first.push_str(&format!(" {mark}"));
        }
        Cell { mark: mark.into(), ..self }
    }

    /// Returns the cell highlighted.
    pub fn strong(self) -> Cell {
        self.strong_if(true)
    }

    /// Returns the cell, highlighted if it is the best.
    pub fn strong_if(self, best: bool) -> Cell {
        Cell { strong: best, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::two_lines(text, "")
    }
}

/// A row of a table: its label, and its cells.
pub fn labelled_row(label: impl Into<Cell>, cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    std::iter::once(label.into()).chain(cells).collect()
}

/// A row whose figures, all cells but the label, are made of the same.
pub fn row_with_source(source: Option<Source>, cells: Vec<Cell>) -> Vec<Cell> {
    let figure = |(at, cell): (usize, Cell)| if at == 0 { cell } else { cell.with_source(source.clone()) };
    cells.into_iter().enumerate().map(figure).collect()
}

impl Document {
    /// Adds a heading.
    pub fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.parts.push(Part::Heading(level, text.into()));
    }

    /// Begins a chapter.
    pub fn chapter(&mut self, chapter: Chapter) {
        self.parts.push(Part::Chapter(chapter));
    }

    /// Adds a paragraph, where there is something to say.
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

    /// Adds a list, where there is something in it.
    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.parts.push(Part::List(items));
        }
    }

    /// Adds a list below a heading, where there is something in it.
    pub fn titled_list(&mut self, title: &str, items: Vec<String>) {
        if !items.is_empty() {
            self.heading(3, title);
            self.list(items);
        }
    }

    /// Adds a table, where there is a row in it.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }

    /// A copy without charts, and without headings that would have nothing below them.
    pub fn without_charts(&self) -> Document {
        let level = |part: &Part| match part {
            Part::Heading(level, _) => Some(*level),
            Part::Chapter(_) => Some(2),
            _ => None,
        };
        let mut kept: Vec<&Part> = vec![];
        for part in self.parts.iter().rev().filter(|part| !matches!(part, Part::Chart(_))) {
            let next = kept.last().map_or(Some(0), |next| level(next));
            let empty = level(part).is_some_and(|level| level > 1 && next.is_some_and(|next| next <= level));
            if !empty {
                kept.push(part);
            }
        }
        Document { parts: kept.into_iter().rev().cloned().collect() }
    }
}

impl Table {
    /// A table of figures, without rows yet.
    pub fn figures<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Table {
        let header = header.into_iter().map(Into::into).collect();
        Table { header, ..Table::default() }
    }

    /// A table of words, without rows yet.
    pub fn words<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Table {
        Table { words: true, ..Table::figures(header) }
    }

    /// Returns the table with these rows.
    pub fn with(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
        Table { rows: rows.into_iter().collect(), ..self }
    }

    /// A table of two columns of words.
    pub fn pairs(header: [&str; 2], rows: impl IntoIterator<Item = (impl Into<Cell>, String)>) -> Table {
        Table::words(header).with(rows.into_iter().map(|(key, value)| vec![key.into(), value.into()]))
    }

    /// Spreads columns `1..` evenly over as few tables as hold at most `most` of them each.
    pub fn split(&self, most: usize) -> Vec<Table> {
        let columns = self.header.len().saturating_sub(1);
        let tables = columns.div_ceil(most.max(1)).max(1);
        let each = columns.div_ceil(tables).max(1);
        fn pick<T: Clone>(all: &[T], columns: Range<usize>) -> Vec<T> {
            all.iter()
                .take(1)
                .chain(all.iter().skip(1 + columns.start).take(columns.len()))
                .cloned()
                .collect()
        }
        let part = |from: usize| Table {
            words: self.words,
            header: pick(&self.header, from..from + each),
            rows: self.rows.iter().map(|row| pick(row, from..from + each)).collect(),
        };
        (0..columns.max(1)).step_by(each).map(part).collect()
    }
}

/// Writes the document, with links to files of its charts in the folder `charts`.
///
/// # Errors
/// Where `out` fails.
pub fn write_markdown(document: &Document, charts: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let document = if charts.is_some() { document } else { &document.without_charts() };
    for (at, part) in document.parts.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        match part {
            Part::Heading(level, text) => {
                writeln!(out, "{} {}", "#".repeat(usize::from(*level)), safe::markdown(text))?
            }
            Part::Chapter(chapter) => writeln!(out, "## {}", chapter.title())?,
            Part::Text(text) | Part::Samples(text) => writeln!(out, "{}", safe::markdown(text))?,
            Part::Warning(text) => writeln!(out, "**{}**", safe::markdown(text))?,
            Part::List(items) | Part::Facts(items) => {
                items.iter().try_for_each(|item| writeln!(out, "- {}", safe::markdown(item)))?
            }
            Part::Table(table) => write_table(table, out)?,
            Part::Chart(chart) => {
                let (title, folder) = (safe::markdown(&chart.title), charts.unwrap_or_default());
                writeln!(out, "![{title}]({folder}/{}.svg)\n\n{}", chart.id, safe::markdown(&chart.about))?
            }
            Part::Code(language, text) => write_code(language, text, out)?,
        }
    }
    Ok(())
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let header = table.header.iter().map(|name| safe::markdown(name)).collect::<Vec<_>>();
    writeln!(out, "| {} |", header.join(" | "))?;
    writeln!(out, "|---{}|", (if table.words { "|---" } else { "|---:" }).repeat(header.len() - 1))?;
    for row in &table.rows {
        writeln!(out, "| {} |", row.iter().map(markdown_cell).collect::<Vec<_>>().join(" | "))?;
    }
    Ok(())
}

fn markdown_cell(cell: &Cell) -> String {
    let mut lines: Vec<String> = cell.lines.iter().map(|line| safe::markdown(line)).collect();
    if let Some(first) = lines.first_mut().filter(|_| cell.strong) {
        *first = format!("**{first}**");
    }
    lines.join("<br>")
}

/// The fence is longer than any run of backticks inside.
fn write_code(language: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "{fence}{language}")?;
    safe::lines(text).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{fence}")
}

/// The blank at which neither a terminal's layout nor a browser breaks a line.
const NO_BREAK: char = '\u{a0}';
/// Keeps a browser from breaking a line beside it.
const JOINER: char = '\u{2060}';

/// Units that follow a number after a blank.
const UNITS: [&str; 16] =
    ["s", "ms", "µs", "ns", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "MB/s", "GB/s"];

/// The text with such blanks: `xfs 1.05 [0.606, 1.27] in 0.145 s` breaks only around `xfs` and `in`.
pub fn join_figures(text: &str) -> String {
    let mut interval = false;
    let mut glued = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let (before, after) = (&text[..at], &text[at + letter.len_utf8()..]);
        match letter {
            '[' => interval = starts_number(after),
            ']' => interval = false,
            _ => {}
        }
        match letter {
            ' ' if interval || belongs_to_figure(before, after) => glued.push(NO_BREAK),
            '–' if interval => glued.extend([JOINER, letter, JOINER]),
            _ => glued.push(letter),
        }
    }
    glued
}

/// The text as it was before.
pub fn split_figures(text: &str) -> String {
    text.replace(NO_BREAK, " ").replace(JOINER, "")
}

/// Whether what follows a blank belongs to what is before it.
fn belongs_to_figure(before: &str, after: &str) -> bool {
    let number = before.ends_with(|c: char| c.is_ascii_digit() || ['%', '×'].contains(&c));
    let figure = number || before.ends_with(['≈', '?', '*']);
    let bracketed = after.strip_prefix(['[', '(']).is_some_and(starts_number);
    let unit = after.split(|c: char| c.is_whitespace() || [',', ';', ')', ']', '.'].contains(&c)).next();
    (figure && (bracketed || after.starts_with(['≈', '?'])))
        || (number && unit.is_some_and(|unit| UNITS.contains(&unit)))
}

fn starts_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || ['−', '-', '+'].contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let (id, title, about) = ("c".into(), "C".into(), "c".into());
        let (panels, legend) = (vec![], vec![]);
        Chart {
            id,
            title,
            about,
            form: crate::drawing::Form::Only,
            panels,
            columns: 1,
            legend,
            width: crate::drawing::WIDE,
        }
    }

    #[test]
    fn without_its_chart_a_chapter_has_no_heading() {
        let mut document = Document::default();
        document.heading(1, "title");
        document.chapter(Chapter::Charts);
        document.parts.push(Part::Chart(Box::new(chart())));
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
        let table = Table {
            rows: vec![names.iter().map(|n| n.as_str().into()).collect()],
            ..Table::figures(names.clone())
        };
        let parts = table.split(5);
        assert_eq!(parts[0].header, ["c0", "c1", "c2", "c3", "c4", "c5"]);
        assert_eq!(parts[1].header, ["c0", "c6", "c7", "c8", "c9"]);
        assert_eq!(parts[1].rows[0][1], "c6".into());
        assert_eq!(parts.len(), 2);
        assert_eq!(table.split(9), vec![table]);
    }

    #[test]
    fn a_variant_compared_with_itself_is_one() {
        assert_eq!(Source::of(None, [2, 0, 2]).unwrap().variants(), "2 0");
        assert_eq!(Source::of(Some(1), []), None);
    }

    #[test]
    fn the_label_of_a_row_is_made_of_nothing() {
        let made = row_with_source(Source::of(Some(3), [1]), vec!["untar".into(), "1.00".into()]);
        assert_eq!(made[0].source, None);
        assert_eq!(made[1].source, Source::of(Some(3), [1]));
    }

    #[test]
    fn a_figure_and_what_belongs_to_it_are_one_word() {
        let words = |text: &str| join_figures(text).split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(words("xfs 1.05 ≈ [0.6, 1.2] or"), ["xfs", "1.05\u{a0}≈\u{a0}[0.6,\u{a0}1.2]", "or"]);
        assert_eq!(words("1.00 (0.145 s) by"), ["1.00\u{a0}(0.145\u{a0}s)", "by"]);
        assert_eq!(words("costs 11.8% [−37.5, 207]."), ["costs", "11.8%\u{a0}[−37.5,\u{a0}207]."]);
        assert_eq!(
            words("in 8 rounds (a, b), 12 MiB at"),
            ["in", "8", "rounds", "(a,", "b),", "12\u{a0}MiB", "at"]
        );
        assert_eq!(split_figures(&join_figures("1.05 [0.6–1.2] 3 s")), "1.05 [0.6–1.2] 3 s");
        assert_eq!(join_figures("[0.6–1.2]"), "[0.6\u{2060}–\u{2060}1.2]");
    }
}
