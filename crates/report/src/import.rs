//! Imports samples: reads the output files of other tools into one structure, [`Samples`].
//!
//! A new format is one file in `import/` and one line in [`IMPORTERS`].

mod csv;
mod dbench;
mod fio;
mod gobench;
mod hyperfine;
mod importer;
mod ior;
mod mdtest;
mod series;
mod sheet;
mod sysbench;
mod text;
mod unread_formats;

use fsarena_core::{names::unknown_name, setting_text::setting};
use series::SampleCollector;

pub use importer::{FileFault, ImportError, Importer};
pub use series::{Conditions, Distinctions, LeftOut, Samples, Series};
pub(crate) use sheet::{
    CLIENT_COLUMNS, OutcomeColumnKind, OutcomeColumns, Sheet, is_absent, is_client_count, is_setting,
};
pub(crate) use text::{decode_text, is_one_of};

/// The largest size in bytes of a file to import. The caller that reads the file checks it. Files of measurements are far
/// smaller.
pub const MAX_BYTES: u64 = 256 << 20;
/// The largest number of series in a file: a page with more would be unreadable.
pub const MAX_SERIES: usize = 10_000;

/// All formats, in the order in which `parse` tries them. CSV is the last, because almost any text is valid CSV.
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

/// Parses the samples in the bytes of a file. `format` is the id of an importer; with `None`, `parse` recognises the format.
/// `origin` names the file in errors.
///
/// # Errors
/// If the format is unknown, the file is invalid, has no samples, or has more than [`MAX_SERIES`] series.
pub fn parse(origin: &str, bytes: &[u8], format: Option<&str>) -> Result<Samples, ImportError> {
    parse_bytes(origin, bytes, format).map_err(|fault| ImportError::new(origin, fault))
}

fn parse_bytes(origin: &str, bytes: &[u8], format: Option<&str>) -> Result<Samples, FileFault> {
    let text = decode_text(bytes)?;
    if text.trim().is_empty() {
        return Err(FileFault::in_file("it is empty"));
    }
    let importer = find_importer(&text, format)?;
    let mut collector = SampleCollector::default();
    (importer.read)(&text, &mut collector)?;
    if format.is_none() && importer.id != csv::CSV.id {
        // A file can contain the output of two tools; the list of the parts left out names the other tool.
        for other in tool_importers().filter(|other| other.id != importer.id && (other.recognises)(&text)) {
            let why =
                format!("the file was read as {}; to read this output: {}", importer.id, setting("from", other.id));
            collector.leave_out("output", other.id, &why);
        }
    }
    let samples = collector.into_samples(origin, importer.id, importer.lead_metrics);
    let count = samples.series.len();
    if count == 0 {
        let left_out = LeftOut::describe_all(&samples.left_out).map(|list| format!("; left out: {list}"));
        let message = format!("no sample in it, read as {}{}", importer.id, left_out.unwrap_or_default());
        return Err(FileFault::in_file(message));
    }
    if count > MAX_SERIES {
        let message = format!("it has {count} series (benchmarks × metrics), and the limit is {MAX_SERIES}");
        return Err(FileFault::in_file(message));
    }
    Ok(samples)
}

/// The importers of particular tools: all except CSV.
fn tool_importers() -> impl Iterator<Item = &'static Importer> {
    IMPORTERS.iter().copied().filter(|importer| importer.id != csv::CSV.id)
}

/// The importer with this id, or the first that recognises the text if `format` is `None`.
fn find_importer(text: &str, format: Option<&str>) -> Result<&'static Importer, FileFault> {
    if let Some(id) = format {
        let ids = || IMPORTERS.iter().map(|importer| importer.id);
        let importer = IMPORTERS.iter().copied().find(|importer| importer.id == id);
        return importer.ok_or_else(|| FileFault::in_file(unknown_name("format", id, ids()).to_string()));
    }
    if let Some(importer) = tool_importers().find(|importer| (importer.recognises)(text)) {
        return Ok(importer);
    }
    if let Some(refusal) = unread_formats::describe_refusal(text) {
        return Err(FileFault::in_file(refusal));
    }
    if (csv::CSV.recognises)(text) {
        return Ok(&csv::CSV);
    }
    Err(FileFault::in_file(format!(
        "in no format that fsarena reads ({}); name it: {}",
        format_names(),
        setting("from", "FORMAT")
    )))
}

/// The names of all formats, separated by commas.
pub fn format_names() -> String {
    IMPORTERS.iter().map(|importer| importer.id).collect::<Vec<_>>().join(", ")
}

/// The name, the metric and the values of each series, for tests of the importers.
#[cfg(test)]
fn names_metrics_and_values(samples: &Samples) -> Vec<(&str, &str, Vec<f64>)> {
    samples.series.iter().map(|series| (series.name.as_str(), series.metric.as_str(), series.values.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_registered() {
        crate::registry::assert_complete("import", include_str!("import.rs"), |line| {
            crate::registry::constant_name(line, "Importer")
        });
    }

    #[test]
    fn the_output_of_a_second_tool_in_a_file_is_listed_as_left_out() {
        let text = "Throughput 3.5 MB/sec 2 clients\nmdtest-1.9 was launched with 2 total task(s) on 1 node(s)\n\
                    SUMMARY: (of 1 iterations)\n   File stat 5.5 3.5 4.5 1.0\n";
        let samples = parse("a", text.as_bytes(), None).unwrap();
        assert_eq!(
            (samples.format, samples.left_out[0].to_string().as_str()),
            ("dbench", "1 output of mdtest: the file was read as dbench; to read this output: from=mdtest")
        );
        assert_eq!(parse("a", text.as_bytes(), Some("mdtest")).unwrap().series[0].values, [4.5]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = |bytes: &[u8]| parse("a.csv", bytes, None).unwrap_err().to_string();
        assert_eq!(error(b"x\n1\n\xff\n"), "a.csv, line 3: this is not UTF-8 text");
        assert!(error(b"").starts_with("a.csv: "), "{}", error(b""));
        let unknown = parse("a", b"x\n1\n", Some("gobnech")).unwrap_err().to_string();
        assert!(unknown.contains("Did you mean `gobench`"), "{unknown}");
        assert!(parse("a", b"x\n1\n", Some("gobench")).unwrap_err().to_string().contains("no sample"));
    }
}
