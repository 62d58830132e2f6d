//! Imports samples: reads the output files of other tools into one structure, [`Samples`].
//!
//! A new format is one file in `import/` and one line in [`IMPORTERS`].

mod csv;
mod dbench;
mod fio;
mod foreign;
mod gobench;
mod hyperfine;
mod ior;
mod mdtest;
mod series;
mod sheet;
mod sysbench;
mod text;

use fsarena_core::exit::{ExitCode, Exits};
use series::Collector;

pub use series::{Conditions, Distinctions, LeftOut, Samples, Series};
pub(crate) use sheet::{CLIENTS, OutcomeColumn, Sheet, is_absent, is_clients, is_setting};
pub(crate) use text::decode;

/// The largest file, in bytes. Files of measurements are far smaller.
pub const MAX_BYTES: u64 = 256 << 20;
/// The most series of a file: a page with more is unreadable.
pub const MAX_SERIES: usize = 10_000;

/// All formats, in the order in which they are tried. CSV is the last, because almost any text is valid CSV.
pub const IMPORTERS: &[&Importer] = &[
    &hyperfine::HYPERFINE,
    &fio::FIO,
    &gobench::GOBENCH,
    &sysbench::SYSBENCH,
    &dbench::DBENCH,
    &ior::IOR,
    &mdtest::MDTEST,
    &csv::CSV,
];

/// Reads samples from the bytes of a file, in the format `format`, or by default in the format that it recognises. `origin`
/// names the file in errors.
///
/// # Errors
/// If the format is unknown, the file has a fault, or it has no samples.
pub fn parse(origin: &str, bytes: &[u8], format: Option<&str>) -> Result<Samples, ImportError> {
    let failed = |fault| ImportError::fault(origin, fault);
    let text = decode(bytes).map_err(failed)?;
    if text.trim().is_empty() {
        return Err(failed(Fault::whole("it is empty")));
    }
    let importer = find_importer(&text, format).map_err(failed)?;
    let mut collector = Collector::default();
    (importer.read)(&text, &mut collector).map_err(failed)?;
    // A file can have the output of two tools; the user learns which one was not read.
    for other in of_tools() {
        let was_guessed = format.is_none() && importer.id != csv::CSV.id;
        if was_guessed && other.id != importer.id && (other.recognises)(&text) {
            collector.leave_out(
                "output",
                other.id,
                &format!("read as {}; --from {} reads the other", importer.id, other.id),
            );
        }
    }
    let samples = collector.into_samples(origin, importer.id, importer.leads);
    let fault = match samples.series.len() {
        0 => {
            let left_out = LeftOut::list(&samples.left_out).map(|list| format!("; left out: {list}"));
            format!("no sample in it, read as {}{}", importer.id, left_out.unwrap_or_default())
        }
        many if many > MAX_SERIES => {
            format!("it has {many} series (benchmarks × metrics), and the limit is {MAX_SERIES}")
        }
        _ => return Ok(samples),
    };
    Err(failed(Fault::whole(fault)))
}

/// The formats of particular tools: all but CSV.
fn of_tools() -> impl Iterator<Item = &'static Importer> {
    IMPORTERS.iter().copied().filter(|importer| importer.id != csv::CSV.id)
}

/// The importer that the user names, else the first that recognises the text.
fn find_importer(text: &str, format: Option<&str>) -> Result<&'static Importer, Fault> {
    let found = match format {
        Some(id) => IMPORTERS.iter().copied().find(|importer| importer.id == id),
        None => of_tools().find(|importer| (importer.recognises)(text)),
    };
    if let Some(importer) = found {
        return Ok(importer);
    }
    let unknown = || format!("in no format that fsarena reads ({}); name it with --from", format_names());
    match foreign::refusal(text) {
        None if (csv::CSV.recognises)(text) => Ok(&csv::CSV),
        refusal => Err(Fault::whole(refusal.unwrap_or_else(unknown))),
    }
}

/// The names of all formats, separated by commas.
pub fn format_names() -> String {
    IMPORTERS.iter().map(|importer| importer.id).collect::<Vec<_>>().join(", ")
}

/// A format that samples can be read from.
pub struct Importer {
    /// The name on the command line.
    pub id: &'static str,
    /// One line for the help.
    pub help: &'static str,
    /// Whether the text looks like this format.
    pub(crate) recognises: fn(&str) -> bool,
    /// The metrics that people compare, most important first. Their series come first.
    pub(crate) leads: &'static [&'static str],
    /// Reads the text and adds its samples to the collector.
    pub(crate) read: fn(&str, &mut Collector) -> Result<(), Fault>,
}

/// A fault in a file, without the name of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; None where the fault is in no particular line.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl Fault {
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Fault {
        Fault { line: Some(line), message: message.into() }
    }

    pub(crate) fn whole(message: impl Into<String>) -> Fault {
        Fault { line: None, message: message.into() }
    }

    /// Parses a number in this line; `what` follows the word in the message of a fault: `is not a rate`.
    pub(crate) fn number(line: usize, word: &str, what: &str) -> Result<f64, Fault> {
        word.parse().map_err(|_| Fault::at(line, format!("`{word}` {what}")))
    }
}

/// Why samples could not be read: the file, the line if known, and the fault.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub(crate) String);

impl ImportError {
    pub(crate) fn fault(origin: &str, fault: Fault) -> ImportError {
        let place = fault.line.map_or(origin.to_string(), |line| format!("{origin}, line {line}"));
        ImportError(format!("{place}: {}", fault.message))
    }
}

impl Exits for ImportError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_registered() {
        crate::registry::assert_complete("import", include_str!("import.rs"), |line| {
            crate::registry::constant(line, "Importer")
        });
    }

    #[test]
    fn outputs_of_two_tools_in_one_file_are_not_dropped_in_silence() {
        let text = "Throughput 3.5 MB/sec 2 clients\nmdtest-1.9 was launched with 2 total task(s) on 1 node(s)\n\
                    SUMMARY: (of 1 iterations)\n   File stat 5.5 3.5 4.5 1.0\n";
        let samples = parse("a", text.as_bytes(), None).unwrap();
        assert_eq!(
            (samples.format, samples.left_out[0].to_string().as_str()),
            ("dbench", "1 output of mdtest: read as dbench; --from mdtest reads the other")
        );
        assert_eq!(parse("a", text.as_bytes(), Some("mdtest")).unwrap().series[0].values, [4.5]);
    }

    #[test]
    fn faults_name_file_and_line() {
        let error = |bytes: &[u8]| parse("a.csv", bytes, None).unwrap_err().to_string();
        assert_eq!(error(b"x\n1\n\xff\n"), "a.csv, line 3: this is not UTF-8 text");
        assert!(error(b"").starts_with("a.csv: "), "{}", error(b""));
        assert!(parse("a", b"x\n1\n", Some("gobench")).unwrap_err().to_string().contains("no sample"));
    }
}
