//! Every exporter, one file each.

use crate::{error::Error, exporter::Exporter};
use fsarena_core::{names, row::Row};
use serde::Serialize;

mod csv;
mod dbench;
mod fio;
mod github;
mod gobench;
mod html;
mod hyperfine;
mod json;
mod junit;
mod md;
mod series;
mod svg;
mod sysbench;
mod term;

/// The default format of what a command prints.
pub const DEFAULT: &str = "term";

/// Every format that fsarena exports to. The first that is kept in the directory of a run is its main report.
pub const EXPORTERS: &[&Exporter] = &[
    &term::TERM,
    &html::HTML,
    &md::MARKDOWN,
    &csv::CSV,
    &json::JSON,
    &series::SERIES,
    &hyperfine::HYPERFINE,
    &gobench::GOBENCH,
    &fio::FIO,
    &sysbench::SYSBENCH,
    &dbench::DBENCH,
    &junit::JUNIT,
    &github::GITHUB,
    &svg::SVG,
];

/// A format in a listing.
#[derive(Debug, Serialize)]
pub struct ExporterRow {
    name: &'static str,
    help: &'static str,
}

impl Row for ExporterRow {
    const COLUMNS: &'static [&'static str] = &["name", "help"];
}

/// Returns every format as a row.
pub fn rows() -> Vec<ExporterRow> {
    EXPORTERS.iter().map(|exporter| ExporterRow { name: exporter.id, help: exporter.help }).collect()
}

/// Finds an exporter by its name.
///
/// # Errors
/// When the format is unknown; the error lists the available ones.
pub fn find(id: &str) -> Result<&'static Exporter, Error> {
    Ok(names::find("format", id, EXPORTERS.iter().copied(), |exporter| exporter.id)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_registered() {
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/exporters"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut ids: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.id).collect();
        files.sort();
        ids.sort();
        assert_eq!(files, ids);
    }
}
