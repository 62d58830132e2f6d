//! A table in CSV, from any program.

use super::importer::Fault;
use csv::StringRecord;
use std::collections::BTreeSet;

/// The column that numbers the rounds.
const ROUND: &str = "round";
/// What a column of numbers of clients is called.
pub const CLIENTS: [&str; 8] = ["n", "clients", "threads", "processes", "procs", "jobs", "users", "cpus"];
/// What other columns of settings are called. Their numbers are not measured.
const SETTINGS: [&str; 24] = [
    "concurrency",
    "connections",
    "depth",
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
/// Units that may follow the name of a setting.
const SIZES: [&str; 9] = ["_bytes", "_kib", "_kb", "_k", "_mib", "_mb", "_m", "_gib", "_gb"];
/// How lines that are no rows begin.
pub const COMMENT: char = '#';
/// What programs write where they have no value.
const ABSENT: [&str; 9] = ["", "na", "n/a", "nan", "null", "none", "nil", "-", "–"];

/// Whether a column states a setting, by its name.
pub fn is_setting(head: &str) -> bool {
    is_clients(head) && head != "n" || spellings(head).any(|name| SETTINGS.contains(&name.as_str()))
}

/// Whether a column states a number of clients, by its name.
pub fn is_clients(head: &str) -> bool {
    spellings(head).any(|name| CLIENTS.contains(&name.as_str()))
}

/// The ways in which the name of a setting may be written: `Block Size (KiB)` is `block_size`, `nthreads` and
/// `thread_count` are `threads`.
fn spellings(head: &str) -> impl Iterator<Item = String> {
    let head = head.to_ascii_lowercase();
    let bare = head.split(['(', '[']).next().unwrap_or("").trim().replace([' ', '-'], "_");
    let bare = SIZES.iter().find_map(|unit| bare.strip_suffix(unit)).unwrap_or(&bare).to_string();
    let counted = ["number_of_", "num_", "nr_", "n_", "n"]
        .iter()
        .find_map(|word| bare.strip_prefix(word).map(String::from))
        .or_else(|| bare.strip_suffix("_count").map(|one| format!("{}s", one.trim_end_matches('s'))));
    std::iter::once(bare).chain(counted.filter(|name| name.len() > 1))
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
    /// Whether it has none: a list of numbers.
    pub headless: bool,
    /// The rows below the head.
    pub rows: Vec<StringRecord>,
    /// The column that numbers the rounds.
    pub round: Option<usize>,
}

impl Sheet {
    /// Reads a table whose columns tabs, semicolons or commas separate. Lines that begin with `#` are passed over; the last of
    /// them before rows of numbers is their head if it has as many columns.
    ///
    /// Between tabs and semicolons a comma is a decimal comma, where a whole column of numbers has it.
    ///
    /// # Errors
    /// The line of the fault.
    pub fn read(text: &str) -> Result<Sheet, Fault> {
        let first = text.lines().find(|line| !line.starts_with(COMMENT));
        let comment = text.lines().take_while(|line| line.starts_with(COMMENT)).last();
        let separates = |byte: &u8| first.is_some_and(|line| line.as_bytes().contains(byte));
        let delimiter = [b'\t', b';'].into_iter().find(separates).unwrap_or(b',');
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .delimiter(delimiter)
            .trim(csv::Trim::All)
            .comment(Some(COMMENT as u8))
            .from_reader(text.as_bytes());
        let mut rows = reader
            .records()
            .collect::<Result<Vec<StringRecord>, _>>()
            .map_err(|error| fault(error, delimiter))?;
        let is_value = |field: &str| is_number(field) || (delimiter != b',' && is_number(&pointed(field)));
        let is_list = |row: &StringRecord| row.iter().all(is_value);
        if let Some(list) = rows.first().filter(|row| is_list(row)) {
            let comment =
                comment.map(|line| line.trim_start_matches(COMMENT).split(delimiter as char).map(str::trim));
            let heads = comment.map(|fields| fields.collect::<StringRecord>());
            let fits = |heads: &StringRecord| heads.len() == list.len() && heads.len() > 1 && !is_list(heads);
            rows.splice(0..0, heads.filter(fits));
        }
        let headless = rows.first().is_none_or(is_list);
        let heads: Vec<String> = match headless {
            true => {
                (1..=rows.first().map_or(0, StringRecord::len)).map(|at| format!("column {at}")).collect()
            }
            false => rows.remove(0).iter().map(String::from).collect(),
        };
        let round = heads.iter().position(|head| head.eq_ignore_ascii_case(ROUND));
        let mut sheet = Sheet { heads, headless, rows, round };
        sheet.decimal_commas(delimiter)?;
        Ok(sheet)
    }

    /// Whether a column holds numbers alone, where it has values.
    pub fn is_of_numbers(&self, at: usize) -> bool {
        let mut values = self.values(at).peekable();
        values.peek().is_some() && values.all(is_number)
    }

    /// The fields of a column that state a value.
    fn values(&self, at: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().map(move |row| &row[at]).filter(|field| !is_absent(field))
    }

    /// Puts points where columns of numbers have decimal commas.
    fn decimal_commas(&mut self, delimiter: u8) -> Result<(), Fault> {
        let mut mended = BTreeSet::new();
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
            mended.insert(at);
        }
        if mended.is_empty() {
            return Ok(());
        }
        for row in &mut self.rows {
            let field = |(at, field): (usize, &str)| match mended.contains(&at) {
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

/// With a point for the decimal comma.
fn pointed(field: &str) -> String {
    field.replacen(',', ".", 1)
}

/// Whether the comma of a number may separate thousands: `1,234`, but not `0,234` or `1,5`.
fn thousands(field: &str) -> bool {
    let field = field.trim_start_matches(['+', '-']);
    let (before, after) = field.split_once(',').unwrap_or((field, ""));
    !before.starts_with('0') && (1..=3).contains(&before.len()) && after.len() == 3 && is_number(after)
}

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
        let sheet = Sheet::read(text).map_err(|fault| fault.message)?;
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
        for head in [
            "threads",
            "Block Size (KiB)",
            "block_size_kib",
            "bs",
            "nthreads",
            "num_jobs",
            "Thread Count",
            "IO depth",
        ] {
            assert!(is_setting(head), "{head}");
        }
        for head in ["iops", "jobs_per_s", "n", "ns", "size_bytes", "hit_count", "files"] {
            assert!(!is_setting(head), "{head}");
        }
    }

    #[test]
    fn comments_are_no_rows_and_the_last_of_them_can_be_the_head() {
        let heads = |text: &str| {
            let sheet = Sheet::read(text).map_err(|fault| fault.message).unwrap();
            (sheet.heads.join("|"), sheet.headless, sheet.rows.len())
        };
        assert_eq!(
            heads("# made by x, y\n# iops,threads\n100,1\n190,2\n"),
            ("iops|threads".into(), false, 2)
        );
        assert_eq!(
            heads("# a comment\niops,threads\n100,1\n# another\n190,2\n"),
            ("iops|threads".into(), false, 2)
        );
        assert_eq!(heads("# no head\n100,1\n"), ("column 1|column 2".into(), true, 1));
    }
}
