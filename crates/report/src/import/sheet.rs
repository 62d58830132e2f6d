//! Reads a table in CSV from any program.

use super::importer::Fault;
use csv::StringRecord;
use std::collections::BTreeSet;

/// The column that numbers the rounds.
const ROUND: &str = "round";
/// Names of the column with the number of clients.
pub const CLIENTS: [&str; 8] = ["n", "clients", "threads", "processes", "procs", "jobs", "users", "cpus"];
/// Names of other columns that state settings, so their numbers are not measurements.
const SETTINGS: [&str; 21] = [
    "tasks",
    "ranks",
    "nodes",
    "numjobs",
    "workers",
    "block_size",
    "blocksize",
    "bs",
    "record_size",
    "request_size",
    "io_size",
    "transfer_size",
    "xfer",
    "xfersize",
    "xfer_size",
    "file_size",
    "filesize",
    "iodepth",
    "io_depth",
    "queue_depth",
    "qd",
];
/// Units that can end the name of a setting.
const SIZES: [&str; 9] = ["_bytes", "_kib", "_kb", "_k", "_mib", "_mb", "_m", "_gib", "_gb"];
/// Texts that programs write for a missing value.
const ABSENT: [&str; 9] = ["", "na", "n/a", "nan", "null", "none", "nil", "-", "–"];

/// Whether a column states a setting, by its name.
pub fn is_setting(head: &str) -> bool {
    let head = head.to_ascii_lowercase().replace([' ', '-'], "_");
    let bare = SIZES.iter().find_map(|unit| head.strip_suffix(unit)).unwrap_or(&head);
    (CLIENTS.contains(&bare) && bare != "n") || SETTINGS.contains(&bare)
}

/// Whether a field states no value.
pub fn is_absent(field: &str) -> bool {
    let digit = field.as_bytes().first().is_some_and(u8::is_ascii_digit);
    !digit && ABSENT.iter().any(|absent| field.eq_ignore_ascii_case(absent))
}

/// A table.
pub struct Sheet {
    /// The names of its columns: `column 1` where it has no head.
    pub heads: Vec<String>,
    /// Whether the table has no head: a list of numbers.
    pub headless: bool,
    /// The rows below the head.
    pub rows: Vec<StringRecord>,
    /// The column that numbers the rounds.
    pub round: Option<usize>,
}

impl Sheet {
    /// Parses a table with tabs, semicolons or commas between its columns. Lines that begin with `comment` are skipped.
    ///
    /// With tabs or semicolons, commas are decimal commas in a column whose values are then all numbers.
    ///
    /// # Errors
    /// A fault with its line.
    pub fn read(text: &str, comment: Option<u8>) -> Result<Sheet, Fault> {
        let mut lines = text.lines();
        let first = lines.find(|line| comment.is_none() || line.bytes().next() != comment);
        let separates = |byte: &u8| first.is_some_and(|line| line.as_bytes().contains(byte));
        let delimiter = [b'\t', b';'].into_iter().find(separates).unwrap_or(b',');
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .delimiter(delimiter)
            .trim(csv::Trim::All)
            .comment(comment)
            .from_reader(text.as_bytes());
        let mut rows = reader
            .records()
            .collect::<Result<Vec<StringRecord>, _>>()
            .map_err(|error| fault(error, delimiter))?;
        let is_value = |field: &str| is_number(field) || (delimiter != b',' && is_number(&pointed(field)));
        let headless = rows.first().is_none_or(|row| row.iter().all(is_value));
        let heads: Vec<String> = match headless {
            true => {
                (1..=rows.first().map_or(0, StringRecord::len)).map(|at| format!("column {at}")).collect()
            }
            false => rows.remove(0).iter().map(String::from).collect(),
        };
        let round = heads.iter().position(|head| head.eq_ignore_ascii_case(ROUND));
        let mut sheet = Sheet { heads, headless, rows, round };
        sheet.replace_decimal_commas(delimiter)?;
        Ok(sheet)
    }

    /// Whether a column has values, and all of them are numbers.
    pub fn is_of_numbers(&self, at: usize) -> bool {
        let mut values = self.values(at).peekable();
        values.peek().is_some() && values.all(is_number)
    }

    /// The fields of a column that have a value.
    fn values(&self, at: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().map(move |row| &row[at]).filter(|field| !is_absent(field))
    }

    /// Replaces decimal commas by points in columns of numbers.
    fn replace_decimal_commas(&mut self, delimiter: u8) -> Result<(), Fault> {
        let mut columns = BTreeSet::new();
        for at in 0..self.heads.len() {
            let with_comma = |field: &&str| field.contains(',');
            let Some(example) = self.values(at).find(with_comma).map(String::from) else { continue };
            if !self.values(at).all(|field| is_number(&pointed(field))) {
                continue;
            }
            let head = &self.heads[at];
            if delimiter == b',' {
                let message = format!(
                    "`{example}` in column `{head}` has a comma: separate the columns by `;` or tabs if it is a decimal comma"
                );
                return Err(Fault::whole(message));
            }
            if self.values(at).filter(with_comma).all(thousands) {
                let message = format!(
                    "`{example}` in column `{head}` can have a decimal comma or be thousands: write decimal points"
                );
                return Err(Fault::whole(message));
            }
            columns.insert(at);
        }
        if columns.is_empty() {
            return Ok(());
        }
        for row in &mut self.rows {
            let field = |(at, field): (usize, &str)| match columns.contains(&at) {
                true => pointed(field),
                false => field.to_string(),
            };
            let mut pointed: StringRecord = row.iter().enumerate().map(field).collect();
            pointed.set_position(row.position().cloned());
            *row = pointed;
        }
        Ok(())
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// Replaces the first comma, a decimal comma, by a point.
fn pointed(field: &str) -> String {
    field.replacen(',', ".", 1)
}

/// Whether the comma of a number may separate thousands: `1,234`, but not `0,234` or `1,5`.
fn thousands(field: &str) -> bool {
    let field = field.trim_start_matches(['+', '-']);
    let (before, after) = field.split_once(',').unwrap_or((field, ""));
    !before.starts_with('0') && (1..=3).contains(&before.len()) && after.len() == 3 && is_number(after)
}

/// Describes an error of the CSV parser.
fn fault(error: csv::Error, delimiter: u8) -> Fault {
    let line = error.position().map(|position| position.line() as usize);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let commas = if delimiter == b',' && len > expected_len {
                ". If numbers have decimal commas, separate the columns by `;` or tabs"
            } else {
                ""
            };
            format!("{len} fields where the lines before have {expected_len}{commas}")
        }
        _ => error.to_string(),
    };
    Fault { line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(text: &str) -> Result<Vec<String>, String> {
        let sheet = Sheet::read(text, None).map_err(|fault| fault.message)?;
        Ok(sheet.rows.iter().map(|row| row[1].to_string()).collect())
    }

    #[test]
    fn decimal_commas_are_read_where_they_cannot_separate() {
        assert_eq!(column("fs;s\next4;1,5\nxfs;12\n").unwrap(), ["1.5", "12"]);
        assert_eq!(column("fs\ts\next4\t0,123\nxfs\tNA\n").unwrap(), ["0.123", "NA"]);
        assert_eq!(column("fs;s\next4;a,b\n").unwrap(), ["a,b"]);
        assert!(column("fs;s\next4;1,234\n").unwrap_err().contains("write decimal points"));
        assert!(column("fs,s\next4,\"1,5\"\n").unwrap_err().contains("separate the columns by `;`"));
        let fault = column("fs,s\next4,1,5\n").unwrap_err();
        assert!(fault.contains("3 fields") && fault.contains("decimal commas"), "{fault}");
    }

    #[test]
    fn settings_are_known_by_their_names() {
        let setting = ["threads", "Block Size", "block_size_kib", "bs", "iops", "jobs_per_s", "n"];
        assert_eq!(setting.map(is_setting), [true, true, true, true, false, false, false]);
    }
}
