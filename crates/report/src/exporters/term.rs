//! For the terminal.

use crate::document::terminal;
use crate::error::Error;
use crate::exporter::Exporter;
use crate::report::Report;
use crate::sections::{Detail, document};
use std::io::Write;

/// Tables and the answer, for the terminal.
pub const TERM: Exporter = Exporter::new("term", "tables and the answer, for the terminal", export);

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let document = document(report, Detail::Brief).answer_last();
    Ok(terminal::write(&document, report.screen, out)?)
}
