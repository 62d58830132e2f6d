//! A table in CSV, from any program.

use super::importer::Fault;
use csv::StringRecord;

/// The column that numbers the rounds.
const ROUND: &str = "round";

/// A table.
pub struct Sheet {
    /// The names of its columns: `column 1` where it has no head.
    pub heads: Vec<String>,
    /// Whether it has none: a list of numbers.
    pub headless: bool,
    /// The rows below the head.
    pub rows: Vec<StringRecord>,
    /// The column that numbers the rounds.
    pub round: Option<usize>,
}

impl Sheet {
    /// Reads a table whose columns tabs, semicolons or commas separate. Lines that begin with `comment` are passed over.
    pub fn read(bytes: &[u8], comment: Option<u8>) -> Result<Sheet, Fault> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let first = lines.find(|line| comment.is_none() || line.first().copied() != comment);
        let separates = |byte: &u8| first.is_some_and(|line| line.contains(byte));
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .delimiter([b'\t', b';'].into_iter().find(separates).unwrap_or(b','))
            .trim(csv::Trim::All)
            .comment(comment)
            .from_reader(bytes);
        let mut rows = reader.records().collect::<Result<Vec<StringRecord>, _>>().map_err(fault)?;
        let headless = rows.first().is_none_or(|row| row.iter().all(is_number));
        let heads: Vec<String> = match headless {
            true => {
                (1..=rows.first().map_or(0, StringRecord::len)).map(|at| format!("column {at}")).collect()
            }
            false => rows.remove(0).iter().map(String::from).collect(),
        };
        let round = heads.iter().position(|head| head.eq_ignore_ascii_case(ROUND));
        Ok(Sheet { heads, headless, rows, round })
    }

    /// Whether a column holds numbers alone, where it is not empty.
    pub fn is_of_numbers(&self, at: usize) -> bool {
        let mut values = self.rows.iter().map(|row| &row[at]).filter(|value| !value.is_empty()).peekable();
        values.peek().is_some() && values.all(is_number)
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

fn fault(error: csv::Error) -> Fault {
    let line = error.position().map(|position| position.line() as usize);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields where the lines before have {expected_len}")
        }
        _ => error.to_string(),
    };
    Fault { line, message }
}
