//! A table in CSV, from any program, and its columns that state whether the run of a row failed.

use super::{importer::FileFault, text::is_one_of};
use csv::StringRecord;
use std::collections::BTreeSet;

/// The name of the column that numbers the rounds.
const ROUND_COLUMN: &str = "round";
/// The names of columns that contain the number of clients.
pub const CLIENT_COLUMNS: [&str; 8] = ["n", "clients", "threads", "processes", "procs", "jobs", "users", "cpus"];
/// The names of other columns whose numbers are settings, not measurements.
const SETTING_COLUMNS: &str = "concurrency connections depth tasks ranks nodes numjobs workers block_size blocksize bs \
                               record_size request_size io_size transfer_size xfer xfersize xfer_size file_size filesize \
                               iodepth io_depth queue_depth qd";
/// Suffixes with a unit that may follow the name of a setting.
const SIZE_SUFFIXES: [&str; 9] = ["_bytes", "_kib", "_kb", "_k", "_mib", "_mb", "_m", "_gib", "_gb"];
/// The character that begins a comment line.
pub const COMMENT: char = '#';
/// The words that programs write for a missing value.
const MISSING_VALUE_WORDS: &str = "na n/a nan null none nil - –";

/// Whether the name of a column is that of a setting.
pub fn is_setting(header: &str) -> bool {
    is_client_count(header) && !header.eq_ignore_ascii_case("n")
        || possible_names(header).any(|name| is_one_of(&name, SETTING_COLUMNS))
}

/// Whether the name of a column is that of a number of clients.
pub fn is_client_count(header: &str) -> bool {
    possible_names(header).any(|name| CLIENT_COLUMNS.contains(&name.as_str()))
}

/// The names that the header of a column may stand for: `block_size` for `Block Size (KiB)`, `threads` for `nthreads` and for
/// `thread_count`.
fn possible_names(header: &str) -> impl Iterator<Item = String> {
    let header = header.to_ascii_lowercase();
    let bare = header.split(['(', '[']).next().unwrap_or("").trim().replace([' ', '-'], "_");
    let bare = SIZE_SUFFIXES.iter().find_map(|unit| bare.strip_suffix(unit)).unwrap_or(&bare).to_string();
    let counted_noun = ["number_of_", "num_", "nr_", "n_", "n"]
        .iter()
        .find_map(|word| bare.strip_prefix(word).map(String::from))
        .or_else(|| bare.strip_suffix("_count").map(|noun| format!("{}s", noun.trim_end_matches('s'))));
    std::iter::once(bare).chain(counted_noun.filter(|name| name.len() > 1))
}

/// Whether a field has no value: empty, or a word such as `n/a`.
pub fn is_absent(field: &str) -> bool {
    match field.as_bytes().first() {
        None => true,
        // Numbers are the most frequent fields by far.
        Some(first) => !first.is_ascii_digit() && is_one_of(field, MISSING_VALUE_WORDS),
    }
}

/// A table: the names of its columns and its rows.
pub struct Sheet {
    /// The names of the columns: `column 1`, `column 2` in a table without a header line.
    pub headers: Vec<String>,
    /// Whether the table has only numbers, and no header line.
    pub is_headerless: bool,
    /// The rows below the header line.
    pub rows: Vec<StringRecord>,
    /// The index of the column that numbers the rounds; `None` if the table has no such column.
    pub round_column: Option<usize>,
}

impl Sheet {
    /// Parses a table whose columns are separated by tabs, semicolons or commas. Lines that begin with `#` are
    /// comments. If the table has only numbers, the last comment before them is the header line if it has the
    /// same number of columns.
    ///
    /// In a table separated by tabs or semicolons, a comma is a decimal comma if all values of its column are numbers.
    ///
    /// # Errors
    /// Rows of different lengths, or a column where the meaning of the commas is unclear.
    pub fn parse(text: &str) -> Result<Sheet, FileFault> {
        let is_row = |line: &&str| !line.trim().is_empty() && !line.starts_with(COMMENT);
        let first_line = text.lines().find(is_row).unwrap_or("");
        let delimiter = [b'\t', b';'].into_iter().find(|byte| first_line.as_bytes().contains(byte)).unwrap_or(b',');
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .delimiter(delimiter)
            .trim(csv::Trim::All)
            .comment(Some(COMMENT as u8))
            .from_reader(text.as_bytes());
        let mut rows = reader
            .records()
            .collect::<Result<Vec<StringRecord>, _>>()
            .map_err(|error| fault_of_csv_error(error, delimiter))?;
        let is_value = |field: &str| is_number(field) || (delimiter != b',' && is_number(&with_decimal_point(field)));
        let is_all_numbers = |row: &StringRecord| row.iter().all(is_value);
        let comment = text.lines().take_while(|line| line.starts_with(COMMENT)).last();
        if let (Some(first_row), Some(comment)) = (rows.first().filter(|row| is_all_numbers(row)), comment) {
            let fields = comment.trim_start_matches(COMMENT).split(delimiter as char).map(str::trim);
            let headers: StringRecord = fields.collect();
            if headers.len() == first_row.len() && headers.len() > 1 && !is_all_numbers(&headers) {
                rows.insert(0, headers);
            }
        }
        let is_headerless = rows.first().is_none_or(is_all_numbers);
        let headers: Vec<String> = if is_headerless {
            (1..=rows.first().map_or(0, StringRecord::len)).map(|number| format!("column {number}")).collect()
        } else {
            rows.remove(0).iter().map(String::from).collect()
        };
        let round_column = headers.iter().position(|header| header.eq_ignore_ascii_case(ROUND_COLUMN));
        let mut sheet = Sheet { headers, is_headerless, rows, round_column };
        sheet.convert_decimal_commas(delimiter)?;
        Ok(sheet)
    }

    /// Whether a column has values, and all of them are numbers.
    pub fn is_numeric(&self, column: usize) -> bool {
        let mut values = self.values(column).peekable();
        values.peek().is_some() && values.all(is_number)
    }

    /// Whether a column has the numbers of the rows: pandas and R write these in a column without a name.
    pub fn has_row_numbers(&self, column: usize) -> bool {
        self.headers[column].is_empty() && self.is_numeric(column)
    }

    /// The fields of a column that state a value.
    fn values(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().map(move |row| &row[column]).filter(|field| !is_absent(field))
    }

    /// Replaces decimal commas by points in the columns of numbers.
    ///
    /// # Errors
    /// A column where the commas may also separate columns or thousands.
    fn convert_decimal_commas(&mut self, delimiter: u8) -> Result<(), FileFault> {
        let mut comma_columns = BTreeSet::new();
        for column in 0..self.headers.len() {
            let has_comma = |field: &&str| field.contains(',');
            let Some(example) = self.values(column).find(has_comma).map(String::from) else { continue };
            if !self.values(column).all(|field| is_number(&with_decimal_point(field))) {
                continue;
            }
            let header = &self.headers[column];
            if delimiter == b',' {
                let message = format!(
                    "`{example}` in column `{header}` has a comma: separate the columns by `;` or tabs if it is a decimal comma"
                );
                return Err(FileFault::in_file(message));
            }
            if self.values(column).filter(has_comma).all(comma_may_separate_thousands) {
                let message = format!(
                    "`{example}` in column `{header}` can have a decimal comma or be thousands: write decimal points"
                );
                return Err(FileFault::in_file(message));
            }
            comma_columns.insert(column);
        }
        if comma_columns.is_empty() {
            return Ok(());
        }
        for row in &mut self.rows {
            let convert = |(column, field): (usize, &str)| {
                if comma_columns.contains(&column) { with_decimal_point(field) } else { field.to_string() }
            };
            let mut converted: StringRecord = row.iter().enumerate().map(convert).collect::<Vec<_>>().into();
            converted.set_position(row.position().cloned());
            *row = converted;
        }
        Ok(())
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// The field with a decimal point instead of its first comma.
fn with_decimal_point(field: &str) -> String {
    field.replacen(',', ".", 1)
}

/// Whether the comma of a number may separate thousands: `1,234`, but not `0,234` or `1,5`.
fn comma_may_separate_thousands(field: &str) -> bool {
    let field = field.trim_start_matches(['+', '-']);
    let (thousands, rest) = field.split_once(',').unwrap_or((field, ""));
    !thousands.starts_with('0') && (1..=3).contains(&thousands.len()) && rest.len() == 3 && is_number(rest)
}

/// The line and the message of an error of the CSV parser.
fn fault_of_csv_error(error: csv::Error, delimiter: u8) -> FileFault {
    let line = error.position().map(|position| position.line() as usize);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let hint = if delimiter == b',' && len > expected_len {
                ". If numbers have decimal commas, separate the columns by `;` or tabs"
            } else {
                ""
            };
            format!("{len} fields where the lines before have {expected_len}{hint}")
        }
        _ => error.to_string(),
    };
    FileFault { line, message }
}

/// The names of columns that contain exit codes.
const EXIT_CODE_COLUMNS: &str = "exit_code exitcode exit_status exit rc returncode return_code errno";
/// The names of columns that are true if the run failed.
const FAILURE_COLUMNS: &str = "failed failure";
/// The names of columns that are true if the run succeeded.
const SUCCESS_COLUMNS: &str = "ok success succeeded passed";
/// The names of columns that state in a word how the run ended.
const STATUS_COLUMNS: &str = "status outcome";
/// The words of a status column for a run that succeeded.
const SUCCESS_WORDS: &str = "ok pass passed success succeeded successful done complete completed finished 0";
/// The words by which fsarena recognises a status column, apart from [`SUCCESS_WORDS`].
const FAILURE_WORDS: &str = "fail failed failure error timeout killed aborted crashed cancelled";
const TRUE_WORDS: &str = "true yes 1";
const FALSE_WORDS: &str = "false no 0";

/// The kind of a column that states whether the run of a row failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OutcomeColumnKind {
    /// An exit code: the run failed if it is not 0.
    ExitCode,
    /// True if the run failed.
    Failed,
    /// True if the run succeeded.
    Succeeded,
    /// A word: the run failed unless it is one of [`SUCCESS_WORDS`].
    Status,
    /// The text of an error; empty if the run succeeded.
    Error,
}

impl OutcomeColumnKind {
    /// Detects by the name and the values of a column whether it states outcomes, and in which form. A column `failed` that
    /// counts failed requests does not.
    pub fn detect(sheet: &Sheet, column: usize) -> Option<OutcomeColumnKind> {
        let header = sheet.headers[column].to_ascii_lowercase().replace([' ', '-'], "_");
        let has_name = |names: &str| is_one_of(&header, names);
        let fields = || sheet.rows.iter().map(|row| &row[column]).filter(|field| !is_absent(field));
        let all_integers = || fields().all(|field| field.parse::<i64>().is_ok());
        let all_booleans = || fields().all(|field| is_one_of(field, TRUE_WORDS) || is_one_of(field, FALSE_WORDS));
        if has_name(EXIT_CODE_COLUMNS) && all_integers() {
            Some(OutcomeColumnKind::ExitCode)
        } else if has_name(FAILURE_COLUMNS) && all_booleans() {
            Some(OutcomeColumnKind::Failed)
        } else if has_name(SUCCESS_COLUMNS) && all_booleans() {
            Some(OutcomeColumnKind::Succeeded)
        } else if has_name(STATUS_COLUMNS)
            && fields().any(|field| is_one_of(field, SUCCESS_WORDS) || is_one_of(field, FAILURE_WORDS))
        {
            Some(OutcomeColumnKind::Status)
        } else if header == "error" && !fields().any(|field| field.parse::<f64>().is_ok()) {
            Some(OutcomeColumnKind::Error)
        } else {
            None
        }
    }

    /// Whether the run failed, by its field in this column.
    fn is_failure(self, field: &str) -> bool {
        !is_absent(field)
            && match self {
                OutcomeColumnKind::ExitCode => field.parse() != Ok(0),
                OutcomeColumnKind::Failed => is_one_of(field, TRUE_WORDS),
                OutcomeColumnKind::Succeeded => is_one_of(field, FALSE_WORDS),
                OutcomeColumnKind::Status => !is_one_of(field, SUCCESS_WORDS),
                OutcomeColumnKind::Error => !is_one_of(field, FALSE_WORDS) && !is_one_of(field, SUCCESS_WORDS),
            }
    }
}

/// The columns of a table that state whether the run of a row failed: the index and the kind of each.
pub struct OutcomeColumns(Vec<(usize, OutcomeColumnKind)>);

impl OutcomeColumns {
    /// Finds every column of a table that states outcomes.
    pub fn find(sheet: &Sheet) -> OutcomeColumns {
        let mut columns = vec![];
        for column in 0..sheet.headers.len() {
            columns.extend(OutcomeColumnKind::detect(sheet, column).map(|kind| (column, kind)));
        }
        OutcomeColumns(columns)
    }

    /// Why the run of a row failed: `exit_code is 1`. `None` if it succeeded.
    pub fn describe_failure(&self, sheet: &Sheet, row: &StringRecord) -> Option<String> {
        let (column, _) = self.0.iter().find(|(column, kind)| kind.is_failure(&row[*column]))?;
        Some(format!("{} is {}", sheet.headers[*column], &row[*column]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::parse;

    fn second_column(text: &str) -> Result<Vec<String>, String> {
        let sheet = Sheet::parse(text).map_err(|fault| fault.message)?;
        Ok(sheet.rows.iter().map(|row| row[1].to_string()).collect())
    }

    #[test]
    fn decimal_commas_are_read_unless_they_may_separate_columns_or_thousands() {
        assert_eq!(second_column("fs;s\next4;1,5\nxfs;12\n").unwrap(), ["1.5", "12"]);
        assert_eq!(second_column("fs\ts\next4\t0,123\nxfs\tNA\n").unwrap(), ["0.123", "NA"]);
        assert_eq!(second_column("fs;s\next4;a,b\n").unwrap(), ["a,b"]);
        assert_eq!(second_column("\nfs;s\next4;1.5\n").unwrap(), ["1.5"], "an empty line has no separator");
        assert!(second_column("fs;s\next4;1,234\n").unwrap_err().contains("write decimal points"));
        assert!(second_column("fs,s\next4,\"1,5\"\n").unwrap_err().contains("separate the columns by `;`"));
        let fault = second_column("fs,s\next4,1,5\n").unwrap_err();
        assert!(fault.contains("3 fields") && fault.contains("decimal commas"), "{fault}");
    }

    #[test]
    fn settings_are_recognised_by_the_names_of_their_columns() {
        for header in
            ["threads", "Block Size (KiB)", "block_size_kib", "bs", "nthreads", "num_jobs", "Thread Count", "IO depth"]
        {
            assert!(is_setting(header), "{header}");
        }
        for header in ["iops", "jobs_per_s", "n", "N", "ns", "size_bytes", "hit_count", "files"] {
            assert!(!is_setting(header), "{header}");
        }
    }

    #[test]
    fn comments_are_skipped_and_the_last_one_can_be_the_header() {
        let headers_and_row_count = |text: &str| {
            let sheet = Sheet::parse(text).map_err(|fault| fault.message).unwrap();
            (sheet.headers.join("|"), sheet.is_headerless, sheet.rows.len())
        };
        assert_eq!(
            headers_and_row_count("# made by x, y\n# iops,threads\n100,1\n190,2\n"),
            ("iops|threads".into(), false, 2)
        );
        assert_eq!(
            headers_and_row_count("# a comment\niops,threads\n100,1\n# another\n190,2\n"),
            ("iops|threads".into(), false, 2)
        );
        assert_eq!(headers_and_row_count("# no header\n100,1\n"), ("column 1|column 2".into(), true, 1));
    }

    fn read_elapsed(text: &str) -> (Vec<f64>, Vec<String>) {
        let samples = parse("a.csv", text.as_bytes(), None).unwrap();
        let left_out = samples.left_out.iter().map(ToString::to_string).collect();
        (samples.series.iter().find(|series| series.metric == "elapsed").unwrap().values.clone(), left_out)
    }

    #[test]
    fn rows_of_failed_runs_are_left_out() {
        for (header, success, failure) in [
            ("exit_code", "0", "137"),
            ("Exit Code", "", "1"),
            ("failed", "false", "true"),
            ("success", "1", "0"),
            ("status", "ok", "timed out"),
            ("error", "", "No space left on device"),
        ] {
            let (values, left_out) =
                read_elapsed(&format!("fs,elapsed_s,{header}\ncp,1,{success}\ncp,9,{failure}\ncp,2,{success}\n"));
            assert_eq!((values, left_out), (vec![1.0, 2.0], vec![format!("1 run: {header} is {failure}")]));
        }
    }

    #[test]
    fn columns_of_counts_and_rates_do_not_mark_failed_runs() {
        for (header, first, second) in [("failed", "0", "3"), ("error", "0.05", "0.07"), ("errors", "0", "1")] {
            let (values, left_out) = read_elapsed(&format!("elapsed_s,{header}\n1,{first}\n2,{second}\n"));
            assert_eq!((values.len(), left_out.len()), (2, 0), "{header}");
        }
    }
}
