//! A table in CSV, from any program, and its columns that say whether the run of a row failed.

use crate::import::Fault;
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

/// What columns of exit codes are called.
const EXIT_CODES: [&str; 8] =
    ["exit_code", "exitcode", "exit_status", "exit", "rc", "returncode", "return_code", "errno"];
/// Columns that are true of a run that failed, and of one that did not.
const FAILED: [&str; 2] = ["failed", "failure"];
const SUCCEEDED: [&str; 4] = ["ok", "success", "succeeded", "passed"];
/// Columns that state in words how a run ended, and those words.
const STATUS: [&str; 2] = ["status", "outcome"];
const GOOD: [&str; 11] = [
    "ok",
    "pass",
    "passed",
    "success",
    "succeeded",
    "successful",
    "done",
    "complete",
    "completed",
    "finished",
    "0",
];
const BAD: [&str; 9] =
    ["fail", "failed", "failure", "error", "timeout", "killed", "aborted", "crashed", "cancelled"];
const YES: [&str; 3] = ["true", "yes", "1"];
const NO: [&str; 3] = ["false", "no", "0"];

/// A column by which a run failed or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OutcomeColumn {
    /// Anything but 0 is a failure.
    ExitCode,
    /// A truth value that a failed run has.
    Failed,
    /// A truth value that a failed run lacks.
    Succeeded,
    /// Words; any but the good ones are a failure.
    Status,
    /// The text of an error, absent where there was none.
    Error,
}

impl OutcomeColumn {
    /// What a column states, by its name and its values: a number of failed requests is no failed run.
    pub fn of(sheet: &Sheet, at: usize) -> Option<OutcomeColumn> {
        let head = sheet.heads[at].to_ascii_lowercase().replace([' ', '-'], "_");
        let called = |names: &[&str]| names.contains(&head.as_str());
        let fields = || sheet.rows.iter().map(|row| &row[at]).filter(|field| !is_absent(field));
        let whole = || fields().all(|field| field.parse::<i64>().is_ok());
        let truth = || fields().all(|field| is(field, &YES) || is(field, &NO));
        if called(&EXIT_CODES) && whole() {
            Some(OutcomeColumn::ExitCode)
        } else if called(&FAILED) && truth() {
            Some(OutcomeColumn::Failed)
        } else if called(&SUCCEEDED) && truth() {
            Some(OutcomeColumn::Succeeded)
        } else if called(&STATUS) && fields().any(|field| is(field, &GOOD) || is(field, &BAD)) {
            Some(OutcomeColumn::Status)
        } else if head == "error" && !fields().any(|field| field.parse::<f64>().is_ok()) {
            Some(OutcomeColumn::Error)
        } else {
            None
        }
    }

    /// Every column that states an outcome.
    pub fn all(sheet: &Sheet) -> OutcomeColumns {
        OutcomeColumns(
            (0..sheet.heads.len()).filter_map(|at| Some((at, OutcomeColumn::of(sheet, at)?))).collect(),
        )
    }

    /// Whether this field says that the run failed.
    fn failed(self, field: &str) -> bool {
        !is_absent(field)
            && match self {
                OutcomeColumn::ExitCode => field.parse() != Ok(0),
                OutcomeColumn::Failed => is(field, &YES),
                OutcomeColumn::Succeeded => is(field, &NO),
                OutcomeColumn::Status => !is(field, &GOOD),
                OutcomeColumn::Error => !is(field, &NO) && !is(field, &GOOD),
            }
    }
}

/// The columns of a table that state outcomes.
pub struct OutcomeColumns(Vec<(usize, OutcomeColumn)>);

impl OutcomeColumns {
    /// Why the run of a row failed; none if it did not.
    pub fn failure(&self, sheet: &Sheet, row: &StringRecord) -> Option<String> {
        let (at, _) = self.0.iter().find(|(at, outcome)| outcome.failed(&row[*at]))?;
        Some(format!("{} is {}", sheet.heads[*at], &row[*at]))
    }
}

fn is(field: &str, words: &[&str]) -> bool {
    words.iter().any(|word| field.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::parse;

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

    fn read(text: &str) -> (Vec<f64>, Vec<String>) {
        let samples = parse("a.csv", text.as_bytes(), None).unwrap();
        let left_out = samples.left_out.iter().map(ToString::to_string).collect();
        (samples.series.iter().find(|one| one.metric == "elapsed").unwrap().values.clone(), left_out)
    }

    #[test]
    fn rows_of_failed_runs_are_left_out() {
        for (head, good, bad) in [
            ("exit_code", "0", "137"),
            ("Exit Code", "", "1"),
            ("failed", "false", "true"),
            ("success", "1", "0"),
            ("status", "ok", "timed out"),
            ("error", "", "No space left on device"),
        ] {
            let (values, left_out) =
                read(&format!("fs,elapsed_s,{head}\ncp,1,{good}\ncp,9,{bad}\ncp,2,{good}\n"));
            assert_eq!((values, left_out), (vec![1.0, 2.0], vec![format!("1 run: {head} is {bad}")]));
        }
    }

    #[test]
    fn figures_and_names_are_no_failures() {
        for (head, first, second) in [("failed", "0", "3"), ("error", "0.05", "0.07"), ("errors", "0", "1")] {
            let (values, left_out) = read(&format!("elapsed_s,{head}\n1,{first}\n2,{second}\n"));
            assert_eq!((values.len(), left_out.len()), (2, 0), "{head}");
        }
    }
}
