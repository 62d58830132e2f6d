//! Columns of a table that say whether the run of a row failed.

use super::sheet::{Sheet, is_absent};
use csv::StringRecord;

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
pub enum Outcome {
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

impl Outcome {
    /// What a column states, by its name and its values: a number of failed requests is no failed run.
    pub fn of(sheet: &Sheet, at: usize) -> Option<Outcome> {
        let head = sheet.heads[at].to_ascii_lowercase().replace([' ', '-'], "_");
        let called = |names: &[&str]| names.contains(&head.as_str());
        let fields = || sheet.rows.iter().map(|row| &row[at]).filter(|field| !is_absent(field));
        let whole = || fields().all(|field| field.parse::<i64>().is_ok());
        let truth = || fields().all(|field| is(field, &YES) || is(field, &NO));
        if called(&EXIT_CODES) && whole() {
            Some(Outcome::ExitCode)
        } else if called(&FAILED) && truth() {
            Some(Outcome::Failed)
        } else if called(&SUCCEEDED) && truth() {
            Some(Outcome::Succeeded)
        } else if called(&STATUS) && fields().any(|field| is(field, &GOOD) || is(field, &BAD)) {
            Some(Outcome::Status)
        } else if head == "error" && !fields().any(|field| field.parse::<f64>().is_ok()) {
            Some(Outcome::Error)
        } else {
            None
        }
    }

    /// Every column that states an outcome.
    pub fn all(sheet: &Sheet) -> Outcomes {
        Outcomes((0..sheet.heads.len()).filter_map(|at| Some((at, Outcome::of(sheet, at)?))).collect())
    }

    /// Whether this field says that the run failed.
    fn failed(self, field: &str) -> bool {
        !is_absent(field)
            && match self {
                Outcome::ExitCode => field.parse() != Ok(0),
                Outcome::Failed => is(field, &YES),
                Outcome::Succeeded => is(field, &NO),
                Outcome::Status => !is(field, &GOOD),
                Outcome::Error => !is(field, &NO) && !is(field, &GOOD),
            }
    }
}

/// The columns of a table that state outcomes.
pub struct Outcomes(Vec<(usize, Outcome)>);

impl Outcomes {
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
    use super::super::parse;

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
