//! The formats to which fsarena can export a report. A new format is a constant in a file of `exporters/` and a line in
//! [`EXPORTERS`].

mod benchmarks;
mod ci;
mod csv;
mod json;
mod pages;
mod tidy;

use crate::{error::Error, exporter::Exporter};
use fsarena_core::{names, row::Row};
use serde::Serialize;

/// The default format of reports that commands print.
pub const DEFAULT_FORMAT: &str = "term";

/// All formats. The order matters: the main report of a run is in the first of these formats whose report fsarena stores in the
/// directory of the run ([`file_in_run_dir`](Exporter::file_in_run_dir)).
pub const EXPORTERS: &[&Exporter] = &[
    &pages::TERM,
    &pages::HTML,
    &pages::MARKDOWN,
    &csv::CSV,
    &json::JSON,
    &csv::SERIES,
    &tidy::TIDY_CSV,
    &benchmarks::HYPERFINE,
    &benchmarks::GOBENCH,
    &benchmarks::FIO,
    &benchmarks::SYSBENCH,
    &benchmarks::DBENCH,
    &ci::JUNIT,
    &ci::GITHUB,
    &pages::SVG,
];

/// A row of the list of formats.
#[derive(Debug, Serialize)]
pub struct ExporterRow {
    name: &'static str,
    help: &'static str,
}

impl Row for ExporterRow {
    const COLUMNS: &'static [&'static str] = &["name", "help"];
}

/// Returns every format as a row.
pub fn exporter_rows() -> Vec<ExporterRow> {
    EXPORTERS.iter().map(|exporter| ExporterRow { name: exporter.id, help: exporter.help }).collect()
}

/// Finds an exporter by its name.
///
/// # Errors
/// If the format is unknown; the error lists the available ones.
pub fn find(id: &str) -> Result<&'static Exporter, Error> {
    Ok(names::find_by_id("format", id, EXPORTERS.iter().copied(), |exporter| exporter.id)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_format_is_registered() {
        crate::registry::assert_complete("exporters", include_str!("exporters.rs"), |line| {
            crate::registry::constant_name(line, "Exporter")
        });
    }
}
