//! Samples from anywhere: files of other tools, read into one shape.
//!
//! A new format is one file in `import/` and its line in [`IMPORTERS`].

mod csv;
mod dbench;
mod error;
mod fio;
mod gobench;
mod hyperfine;
mod ior;
mod mdtest;
mod series;
mod sysbench;

pub use error::ImportError;
pub use series::{Samples, Series};

use series::Collector;

/// No file of measurements that people compare comes near this size, in bytes.
pub const MAX_BYTES: u64 = 256 << 20;
/// The most series of a file: a page with more helps no one.
pub const MAX_SERIES: usize = 10_000;

/// A format that samples can be read from.
pub struct Importer {
    /// The name on the command line.
    pub id: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether the text looks like this format.
    recognises: fn(&str) -> bool,
    /// Reads the samples; a fault with its line if known.
    read: fn(&str, &mut Collector) -> Result<(), Fault>,
}

/// A fault in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; none where the whole file is meant.
    pub line: Option<usize>,
    /// The fault.
    pub message: String,
}

impl Fault {
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Fault {
        Fault { line: Some(line), message: message.into() }
    }

    pub(crate) fn whole(message: impl Into<String>) -> Fault {
        Fault { line: None, message: message.into() }
    }
}

/// Every format, in the order in which they are tried. CSV is last: almost any text is CSV.
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

/// Reads samples from the bytes of a file; its format is recognised unless `format` names it. `origin` names the file in
/// errors.
///
/// # Errors
/// Where they are in no known format, or hold no sample.
pub fn parse(origin: &str, bytes: &[u8], format: Option<&str>) -> Result<Samples, ImportError> {
    let failed = |fault| ImportError::fault(origin, fault);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        failed(Fault::at(line, "this is not UTF-8 text"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let importer = match format {
        Some(id) => IMPORTERS.iter().find(|importer| importer.id == id),
        None => IMPORTERS.iter().find(|importer| (importer.recognises)(text)),
    };
    let Some(importer) = importer else {
        return Err(ImportError::Unknown { origin: origin.into(), known: names() });
    };
    let mut collector = Collector::default();
    (importer.read)(text, &mut collector).map_err(failed)?;
    let samples = collector.finish(origin, importer.id);
    match samples.series.len() {
        0 => Err(failed(Fault::whole(format!("no sample in it, read as {}", importer.id)))),
        many if many > MAX_SERIES => {
            let message =
                format!("it has {many} series (benchmarks × metrics), and the limit is {MAX_SERIES}");
            Err(failed(Fault::whole(message)))
        }
        _ => Ok(samples),
    }
}

/// The names of all formats, for people.
pub fn names() -> String {
    IMPORTERS.iter().map(|importer| importer.id).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_registered() {
        let not_formats = ["error", "series"];
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/import"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| !not_formats.contains(&name.as_str()))
            .collect();
        let mut ids: Vec<&str> = IMPORTERS.iter().map(|importer| importer.id).collect();
        files.sort();
        ids.sort();
        assert_eq!(files, ids);
    }

    #[test]
    fn faults_name_file_and_line() {
        let error = |bytes: &[u8]| parse("a.csv", bytes, None).unwrap_err().to_string();
        assert_eq!(error(b"x\n1\n\xff\n"), "a.csv, line 3: this is not UTF-8 text");
        assert!(error(b"").starts_with("a.csv: "), "{}", error(b""));
        assert!(parse("a", b"x\n1\n", Some("gobench")).unwrap_err().to_string().contains("no sample"));
    }
}
