//! The formats that a report can be exported to. A new one is one file in `exporters/` and one line in [`EXPORTERS`].

mod benchmarks;
mod ci;
mod csv;
mod json;
mod pages;

use crate::{error::Error, report::Report};
use fsarena_core::{names, row::Row};
use serde::Serialize;
use serde_json::Value;
use std::io::{BufWriter, Write};
use std::{fs::File, path::Path};

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

type Export = fn(&Report, &mut dyn Write) -> Result<(), Error>;
type WriteTo = fn(&Report, &Path) -> Result<(), Error>;

/// Writes a JSON document, indented.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_json(value: &Value, out: &mut dyn Write) -> Result<(), Error> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// Makes a file, and writes to it.
pub(crate) fn to_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut out = BufWriter::new(File::create(path).map_err(Error::file(path))?);
    write(&mut out)?;
    out.flush().map_err(Error::file(path))
}

/// A format that a run can be exported to.
#[derive(Debug)]
pub struct Exporter {
    /// The name on the command line.
    pub id: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// The name of the file that the directory of every run has in this format; none where it has none.
    pub kept_as: fn(&Report) -> Option<&'static str>,
    /// Whether it shows the commands of the run. Reading them takes time that other formats need not spend.
    pub shows_commands: bool,
    /// The link to charts that [`write`](Self::write) puts into a path, for reports that refer to charts.
    pub charts_link: fn(&Path) -> Option<String>,
    /// The part of the run that this format leaves out because it is too large, in words.
    pub lacks: fn(&Report) -> Option<String>,
    /// Prints the report; none where the format requires a folder.
    pub(crate) export: Option<Export>,
    /// Writes the report where more than one file is written.
    pub(crate) write: Option<WriteTo>,
}

impl Exporter {
    /// A format of standard output, or of one file.
    pub const fn new(id: &'static str, help: &'static str, export: Export) -> Exporter {
        Exporter {
            id,
            help,
            kept_as: |_| None,
            shows_commands: false,
            charts_link: |_| None,
            lacks: |_| None,
            export: Some(export),
            write: None,
        }
    }

    /// A format of a folder of files, which `write` makes if it is missing.
    pub const fn folder(id: &'static str, help: &'static str, write: WriteTo) -> Exporter {
        Exporter { export: None, write: Some(write), ..Exporter::new(id, help, |_, _| Ok(())) }
    }

    /// Whether it writes a folder of files.
    pub fn needs_folder(&self) -> bool {
        self.export.is_none()
    }

    /// Prints the report.
    ///
    /// # Errors
    /// When `out` fails, or when the format requires a folder.
    pub fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        let id = self.id;
        let folder = || {
            Error::Usage(format!("`{id}` writes a folder of files. Name the folder: --export {id}=FOLDER"))
        };
        self.export.ok_or_else(folder)?(report, out)
    }

    /// Writes the report to a file, or to a folder that is made if it is missing.
    ///
    /// # Errors
    /// When the file or folder cannot be written.
    pub fn write(&self, report: &Report, path: &Path) -> Result<(), Error> {
        if let Some(write) = self.write {
            return write(report, path);
        }
        to_file(path, |out| self.export(report, out))
    }
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
