//! For the terminal.

use crate::{
    document::terminal, error::Error, exporter::Exporter, report::Report, section::Detail, sections::document,
};
use std::io::Write;

/// The answer on a screen, or the whole report, for the terminal.
pub const TERM: Exporter =
    Exporter::new("term", "the answer on a screen, for the terminal; with --full the whole report", export);

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let detail = if report.full { Detail::Full } else { Detail::Brief };
    let mut document = document(report, detail);
    if !report.full {
        document.text(format!("The whole report: fsarena report {} --full", report.record.id));
    }
    Ok(terminal::write(&document, report.screen, out)?)
}
