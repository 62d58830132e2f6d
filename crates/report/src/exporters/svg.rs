//! Every chart as SVG, in a folder.

use crate::drawing::svg;
use crate::{charts, error::Error, exporter::Exporter, report::Report};
use std::path::Path;

/// Charts whose text stays text.
pub const SVG: Exporter = Exporter {
    charts_link: |path| Some(link(path)),
    ..Exporter::folder("svg", "every chart as SVG in a folder; text stays text", write)
};

/// Writes a file for each chart.
fn write(report: &Report, folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    for chart in charts::all(report) {
        let path = folder.join(format!("{}.svg", chart.id));
        std::fs::write(&path, svg::file(&chart)).map_err(Error::file(&path))?;
    }
    Ok(())
}

/// A path as a link in Markdown.
fn link(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    path.to_string_lossy()
        .bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_hold_whatever_a_file_is_called() {
        assert_eq!(link(Path::new("a b)(<>-charts")), "a%20b%29%28%3C%3E-charts");
        assert_eq!(link(Path::new("out/drawn")), "out/drawn");
    }
}
