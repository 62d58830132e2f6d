//! Reports as files.

use crate::failure::Failure;
use fsarena_report::{exporter::Exporter, exporters, report::Report};
use std::{io::Write, path::Path, path::PathBuf};

/// A format and the file or folder that a report goes to.
pub type Export = (&'static Exporter, PathBuf);

/// Writes a report in a format to a file or a folder.
pub fn write(report: &Report, exporter: &Exporter, path: &Path) -> Result<(), Failure> {
    exporter.write(report, path)?;
    say_what_lacks(exporter, report);
    Ok(())
}

/// Says on standard error what a format leaves out.
pub fn say_what_lacks(exporter: &Exporter, report: &Report) {
    if let Some(lacks) = (exporter.lacks)(report) {
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "note: {}: {lacks}", exporter.id);
    }
}

/// `FORMAT=PATH`.
pub fn parse_export(text: &str) -> Result<Export, String> {
    let (format, path) = text
        .split_once('=')
        .filter(|(_, path)| !path.is_empty())
        .ok_or("write it FORMAT=PATH (list formats: fsarena list exporters)")?;
    Ok((exporters::find(format).map_err(|error| error.to_string())?, path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_formats_too() {
        assert_eq!(parse_export("png=out").map(|(exporter, _)| exporter.id), Ok("png"));
        assert!(parse_export("jpg=out").is_err_and(|error| error.contains("svg")));
        assert!(parse_export("html").is_err_and(|error| error.contains("FORMAT=PATH")));
    }
}
