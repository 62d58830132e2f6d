//! Markdown: the answer, the figures, and everything needed to repeat the run.

use super::svg::Svg;
use crate::document::markdown;
use crate::error::Error;
use crate::exporter::Exporter;
use crate::report::Report;
use crate::sections::{Detail, document};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Markdown with all circumstances.
pub struct Markdown;

impl Exporter for Markdown {
    fn id(&self) -> &'static str {
        "md"
    }

    fn help(&self) -> &'static str {
        "Markdown: the answer, all tables, and everything needed to repeat the run"
    }

    fn kept_as(&self, _: &Report) -> Option<&'static str> {
        Some("report.md")
    }

    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        write(report, report.pictures.as_deref(), out)
    }

    /// Its charts go into a folder beside the file.
    fn write(&self, report: &Report, path: &Path) -> Result<(), Error> {
        // The file comes first, so that no folder is made where the file cannot be.
        let mut out = BufWriter::new(File::create(path).map_err(Error::file(path))?);
        let folder = format!("{}-charts", path.file_stem().unwrap_or_default().to_string_lossy());
        Svg.write(report, &path.with_file_name(&folder))?;
        write(report, Svg.charts_link(Path::new(&folder)).as_deref(), &mut out)?;
        out.flush().map_err(Error::file(path))
    }
}

/// The whole document, with links to charts in this folder.
fn write(report: &Report, charts: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
    let detail = if charts.is_some() { Detail::Charts } else { Detail::Full };
    Ok(markdown::write(&document(report, detail), charts, out)?)
}
