//! Every chart as PNG, in a folder.

use super::svg::write_charts;
use crate::error::Error;
use crate::exporter::{Exporter, Output};
use crate::report::Report;
use fsarena_charts::png;
use std::io::Write;
use std::path::Path;

/// Charts as pixels.
pub struct Png;

impl Exporter for Png {
    fn id(&self) -> &'static str {
        "png"
    }

    fn help(&self) -> &'static str {
        "every chart as PNG in a folder"
    }

    fn output(&self) -> Output {
        Output::Folder
    }

    fn export(&self, _: &Report, _: &mut dyn Write) -> Result<(), Error> {
        Err(Error::Folder(self.id()))
    }

    fn write(&self, report: &Report, path: &Path) -> Result<(), Error> {
        write_charts(report, path, self.id(), png::file)
    }
}
