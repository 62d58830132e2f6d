//! For the terminal.

use crate::document::terminal;
use crate::error::Error;
use crate::exporter::Exporter;
use crate::report::Report;
use crate::sections::{Detail, document};
use std::io::Write;

/// Tables and the answer, for the terminal.
pub struct Term;

impl Exporter for Term {
    fn id(&self) -> &'static str {
        "term"
    }

    fn help(&self) -> &'static str {
        "tables and the answer, for the terminal"
    }

    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        let document = document(report, Detail::Brief).answer_last();
        Ok(terminal::write(&document, report.screen, out)?)
    }
}
