//! Every chart as PNG, in a folder.

use super::svg::write_charts;
use crate::{error::Error, exporter::Exporter, report::Report};
use fsarena_charts::png;
use std::path::Path;

/// Charts as pixels.
pub const PNG: Exporter = Exporter::folder("png", "every chart as PNG in a folder", write);

fn write(report: &Report, path: &Path) -> Result<(), Error> {
    write_charts(report, path, "png", png::file)
}
