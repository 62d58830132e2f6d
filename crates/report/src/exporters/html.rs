//! HTML: the whole report as one page that needs no network.

use crate::error::Error;
use crate::exporter::Exporter;
use crate::html;
use crate::report::Report;
use std::io::Write;

/// One page with pictures, sortable tables and the data behind them.
pub struct Html;

impl Exporter for Html {
    fn id(&self) -> &'static str {
        "html"
    }

    fn help(&self) -> &'static str {
        "one page that needs no network: the answer, pictures, sortable tables, samples and commands"
    }

    fn kept_as(&self, _: &Report) -> Option<&'static str> {
        Some("report.html")
    }

    fn shows_commands(&self) -> bool {
        true
    }

    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        Ok(out.write_all(html::page(report)?.as_bytes())?)
    }
}
