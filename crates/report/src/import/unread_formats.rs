//! Formats that fsarena recognises but does not read; the error names the format and what to do instead.

use crate::advice::{EXPORT_COMMAND, POSTGRES_COMMAND};

/// A feature of a text by which fsarena recognises a format.
enum Signature {
    /// The file begins with this text, in upper or lower case, after blanks.
    Start(&'static str),
    /// The file is JSON and contains all of these texts.
    Json(&'static [&'static str]),
    /// A line begins with this text.
    LineStart(&'static str),
    /// A line contains all of these texts.
    Line(&'static [&'static str]),
    /// The function returns true for one of the first 20 lines that are not empty.
    FirstLines(fn(&str) -> bool),
}
use Signature::{FirstLines, Json, Line, LineStart, Start};

/// The formats that fsarena does not read: the signatures of each, one of which suffices, and its name with a remedy.
/// [`describe_refusal`] replaces the words in braces.
const UNREAD_FORMATS: [(&[Signature], &str); 16] = [
    (
        &[Line(&["summaryFormat=CSV"])],
        "the CSV summary of IOR before 4.0, which has no results: use its text or `-O summaryFormat=JSON`",
    ),
    (&[FirstLines(is_terse_fio_row)], "fio's terse output: run fio with --output-format=json"),
    (
        &[Line(&[": (g=", "rw="]), LineStart("Run status group")],
        "fio's normal output: run fio with --output-format=json",
    ),
    (
        &[LineStart("pgbench ("), LineStart("transaction type: "), LineStart("tps = ")],
        "pgbench: write its figures into a CSV file, or use {POSTGRES_COMMAND}",
    ),
    (
        &[Line(&["------Sequential Output------"]), LineStart("name,file_size,putc,"), FirstLines(is_bonnie_row)],
        "bonnie++: write its figures into a CSV file with a header",
    ),
    (
        &[Line(&["Iozone: Performance Test of File I/O"]), LineStart("iozone test complete.")],
        "iozone: write its figures into a CSV file",
    ),
    (
        &[Line(&["OPERATION", "RESULT TYPE"]), LineStart("ISO DATE,LABEL,")],
        "elbencho: write its figures into a CSV file with columns that fsarena can pair, such as `round,name,mib_per_s`",
    ),
    (
        &[
            Line(&["test ", " bench: ", "ns/iter"]),
            LineStart("test result: "),
            LineStart("{ \"type\": \"suite\", \"event\": "),
        ],
        "Rust's libtest benchmarks: write their figures into a CSV file, or in the text format of Go benchmarks",
    ),
    (&[Line(&["{", "\"Action\":\"", "\"Package\":"])], "`go test -json`: run `go test -bench` without -json"),
    (&[Json(&["\"benchmarks\"", "\"real_time\""])], "Google Benchmark's JSON: write its figures into a CSV file"),
    (&[Line(&["IO Summary:", "ops/s"])], "filebench: write its figures into a CSV file"),
    (&[Line(&["Vdbench distribution:"])], "vdbench: write its figures into a CSV file"),
    (&[LineStart("MD-Workbench total objects:")], "md-workbench: write its figures into a CSV file"),
    (&[Json(&["\"fsarena\"", "\"analyses\""])], "JSON reports of fsarena, {NO_SAMPLES}"),
    (&[Start("<?xml"), Start("<svg")], "XML, such as JUnit reports, {NO_SAMPLES}"),
    (&[Start("<!doctype html"), Start("<html")], "HTML pages, {NO_SAMPLES}"),
];

/// The error for a text in one of these formats; `None` for any other text.
pub fn describe_refusal(text: &str) -> Option<String> {
    let is_format = |(signatures, _): &&(&[Signature], &str)| signatures.iter().any(|signature| signature.is_in(text));
    let (_, name) = UNREAD_FORMATS.iter().find(is_format)?;
    let no_samples = format!("which have no samples. For a run of fsarena: {EXPORT_COMMAND}");
    let name = name.replace("{POSTGRES_COMMAND}", POSTGRES_COMMAND).replace("{NO_SAMPLES}", &no_samples);
    Some(format!("fsarena does not read {name}"))
}

impl Signature {
    fn is_in(&self, text: &str) -> bool {
        match self {
            Signature::Start(start) => {
                text.trim_start().get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
            }
            Signature::Json(parts) => {
                text.trim_start().starts_with('{') && parts.iter().all(|part| text.contains(part))
            }
            Signature::LineStart(start) => text.lines().any(|line| line.starts_with(start)),
            Signature::Line(parts) => text.lines().any(|line| parts.iter().all(|part| line.contains(part))),
            Signature::FirstLines(matches) => text.lines().filter(|line| !line.is_empty()).take(20).any(matches),
        }
    }
}

/// Whether a line is a row of fio's terse output, which begins with the versions of the format and of fio: `3;fio-3.33;…`.
fn is_terse_fio_row(line: &str) -> bool {
    line.split(';').nth(1).is_some_and(|word| word.starts_with("fio-"))
}

/// Whether a line is a row of bonnie++'s CSV, which begins with the versions of the format and of the program:
/// `1.98,1.98,host,1,…`.
fn is_bonnie_row(line: &str) -> bool {
    let mut fields = line.split(',');
    let is_version = |field: Option<&str>| {
        field.is_some_and(|field| ["1.9", "2.0"].iter().any(|known| field.starts_with(known)) && field.len() <= 5)
    };
    is_version(fields.next()) && is_version(fields.next()) && fields.count() > 20
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn formats_that_fsarena_does_not_read_are_refused_by_name() {
        let bonnie = format!("1.98,1.98,host,1,{}\n", vec!["7"; 40].join(","));
        for (text, name) in [
            ("3;fio-3.33;job;0;0;100;10;2\n", "fio's terse output"),
            ("job: (g=0): rw=randread, bs=(R) 4096B\nfio-3.33\n", "fio's normal output"),
            ("pgbench (15.3)\ntransaction type: <builtin: TPC-B>\ntps = 85.1 (without x)\n", "pgbench"),
            (&bonnie, "bonnie++"),
            ("Version  1.98  ------Sequential Output------ --Sequential Input-\n", "bonnie++"),
            ("\tIozone: Performance Test of File I/O\n", "iozone"),
            ("OPERATION   RESULT TYPE        FIRST DONE   LAST DONE\n", "elbencho"),
            ("ISO DATE,LABEL,PATH TYPE,1\n", "elbencho"),
            ("running 1 test\ntest a ... bench:       1,234 ns/iter (+/- 56)\n", "libtest"),
            ("{\"Time\":\"x\",\"Action\":\"output\",\"Package\":\"a\",\"Output\":\"x\"}\n", "`go test -json`"),
            ("<!DOCTYPE html><p>1,2", "HTML"),
            ("<?xml version=\"1.0\"?><testsuites/>", "XML"),
        ] {
            let error = parse("a", text.as_bytes(), None).unwrap_err().to_string();
            assert!(error.starts_with("a: fsarena does not read") && error.contains(name), "{error}");
        }
    }
}
