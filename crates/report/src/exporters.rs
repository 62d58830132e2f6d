//! The formats that a report can be exported to. A new one is one file in `exporters/` and one line in [`EXPORTERS`].

mod benchmarks;
mod ci;
mod csv;
mod json;
mod pages;

use crate::{error::Error, exporter::Exporter};
use fsarena_core::{names, row::Row};
use serde::Serialize;

/// The default format of what a command prints.
pub const DEFAULT: &str = "term";

/// Every format that fsarena exports to. The first that is kept in the directory of a run is its main report.
pub const EXPORTERS: &[&Exporter] = &[
    &pages::TERM,
    &pages::HTML,
    &pages::MARKDOWN,
    &csv::CSV,
    &json::JSON,
    &csv::SERIES,
    &benchmarks::HYPERFINE,
    &benchmarks::GOBENCH,
    &benchmarks::FIO,
    &benchmarks::SYSBENCH,
    &benchmarks::DBENCH,
    &ci::JUNIT,
    &ci::GITHUB,
    &pages::SVG,
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
    #[test]
    fn every_format_is_registered() {
        crate::registry::assert_complete("exporters", include_str!("exporters.rs"), |line| {
            crate::registry::constant(line, "Exporter")
        });
    }
}
