//! A report as parts that the terminal and Markdown both can show.

pub mod markdown;
pub mod source;
pub mod terminal;

use source::Source;

/// A report for people.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Its parts, from top to bottom.
    pub parts: Vec<Part>,
}

/// One part. Text may hold anything; it is made harmless where it is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A heading, and its level from 1.
    Heading(u8, String),
    /// A paragraph.
    Text(String),
    /// A paragraph that nobody may overlook.
    Loud(String),
    /// A list.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// Text kept as it is, and its language.
    Code(&'static str, String),
    /// A picture in a file beside the document.
    Image(Image),
}

/// A picture in a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Image {
    /// What is to be seen.
    pub about: String,
    /// Where the file lies, from where the document lies.
    pub link: String,
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
    /// What it is made of, where that are samples of the run.
    pub source: Option<Source>,
    /// What its first line ends with and is no part of its number: the letters of variants that were not told apart, and marks.
    pub letters: String,
    /// Where a click on it leads, on a page that has such an address.
    pub address: Option<String>,
}

impl Cell {
    /// A cell of two lines; the second may be empty.
    pub fn two(first: impl Into<String>, second: impl Into<String>) -> Cell {
        let mut lines = vec![first.into(), second.into()];
        lines.retain(|line| !line.is_empty());
        Cell { lines, ..Cell::default() }
    }

    /// The same cell, made of these samples.
    pub fn made_of(self, source: Option<Source>) -> Cell {
        Cell { source, ..self }
    }

    /// The same cell, whose first line ends with these letters.
    pub fn letters(self, letters: impl Into<String>) -> Cell {
        Cell { letters: letters.into(), ..self }
    }

    /// The same cell, standing out.
    pub fn strong(self) -> Cell {
        Cell { strong: true, ..self }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::two(text, "")
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::two(text, "")
    }
}

impl Document {
    /// Adds a heading.
    pub fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.parts.push(Part::Heading(level, text.into()));
    }

    /// Adds a paragraph, where there is something to say.
    pub fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.parts.push(Part::Text(text));
        }
    }

    /// Adds a list, where there is something in it.
    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.parts.push(Part::List(items));
        }
    }

    /// Adds a table, where there is a row in it.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }
}

impl Table {
    /// A table of figures, without rows yet.
    pub fn figures(header: Vec<String>) -> Table {
        Table { header, ..Table::default() }
    }

    /// A table of words, without rows yet.
    pub fn words(header: Vec<String>) -> Table {
        Table { header, words: true, ..Table::default() }
    }

    /// A table of two columns of words.
    pub fn pairs(header: [&str; 2], rows: impl IntoIterator<Item = (String, String)>) -> Table {
        Table {
            words: true,
            header: header.map(String::from).to_vec(),
            rows: rows.into_iter().map(|(key, value)| vec![key.into(), value.into()]).collect(),
        }
    }

    /// The same table with columns `1..` spread over as many tables as are needed for `most` of them each,
    /// evenly.
    pub fn split(&self, most: usize) -> Vec<Table> {
        let columns = self.header.len().saturating_sub(1);
        let tables = columns.div_ceil(most.max(1)).max(1);
        let each = columns.div_ceil(tables).max(1);
        let part = |from: usize| {
            let kept = |at: usize| at == 0 || (from..from + each).contains(&(at - 1));
            let pick = |row: &Vec<Cell>| {
                row.iter().enumerate().filter(|(at, _)| kept(*at)).map(|(_, c)| c.clone()).collect()
            };
            Table {
                words: self.words,
                header: self
                    .header
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| kept(*at))
                    .map(|(_, h)| h.clone())
                    .collect(),
                rows: self.rows.iter().map(pick).collect(),
            }
        };
        (0..columns.max(1)).step_by(each).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
