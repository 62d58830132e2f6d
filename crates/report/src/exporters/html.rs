//! HTML: the whole report as one page that needs no network.

use crate::{error::Error, exporter::Exporter, html, report::Report};
use std::io::Write;

/// One page with charts, sortable tables and the data behind them.
pub const HTML: Exporter = Exporter {
    kept_as: |_| Some("report.html"),
    shows_commands: true,
    ..Exporter::new(
        "html",
        "one page that needs no network: the answer, charts, sortable tables, samples and commands",
        export,
    )
};

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    Ok(out.write_all(html::report::page(report)?.as_bytes())?)
}
