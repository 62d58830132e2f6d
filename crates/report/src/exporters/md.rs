//! Markdown: the answer, the figures, and everything needed to repeat the run.

use super::svg::SVG;
use crate::exporter::{Exporter, to_file};
use crate::{document::markdown, error::Error, report::Report, section::Detail, sections::document};
use std::{io::Write, path::Path};

/// Markdown with all circumstances.
pub const MARKDOWN: Exporter = Exporter {
    kept_as: |_| Some("report.md"),
    write: Some(write),
    ..Exporter::new("md", "Markdown: the answer, all tables, and everything needed to repeat the run", export)
};

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    with_charts(report, report.charts.as_deref(), out)
}

/// Its charts go into a folder beside the file.
fn write(report: &Report, path: &Path) -> Result<(), Error> {
    let folder = format!("{}-charts", path.file_stem().unwrap_or_default().to_string_lossy());
    to_file(path, |out| {
        // No folder is made where the file cannot be.
        SVG.write(report, &path.with_file_name(&folder))?;
        with_charts(report, (SVG.charts_link)(Path::new(&folder)).as_deref(), out)
    })
}

/// The whole document, with links to charts in this folder.
fn with_charts(report: &Report, charts: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
    let detail = if charts.is_some() { Detail::Charts } else { Detail::Full };
    Ok(markdown::write(&document(report, detail), charts, out)?)
}
