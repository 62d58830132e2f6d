//! Reports and charts as files.

use crate::failure::Failure;
use fsarena_core::exit::ExitCode;
use fsarena_report::exporter::Exporter;
use fsarena_report::report::Report;
use fsarena_report::{charts, exporters, pictures};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Whether a format shows the commands that were run. Reading them takes time that others need not spend.
pub fn shows_commands(format: &str) -> bool {
    format == "html"
}

/// Writes a report in a format to a file, or the charts of a report to a folder. A report in Markdown gets its charts in
/// a folder beside it.
pub fn write(report: &mut Report, format: &str, path: &Path) -> Result<(), Failure> {
    if let Some(format) = pictures::find(format) {
        return write_charts(report, format, path);
    }
    // Before its charts: they go into a folder beside it, and no folder is made for that to be in.
    let file = std::fs::File::create(path).map_err(Failure::file(path))?;
    if format == "md" {
        let folder = format!("{}-charts", path.file_stem().unwrap_or_default().to_string_lossy());
        write_charts(
            report,
            pictures::find("svg").expect("a format of ours"),
            &path.with_file_name(&folder),
        )?;
        report.pictures = Some(link(Path::new(&folder)));
    }
    let mut out = BufWriter::new(file);
    let exporter = find(format)?;
    exporter.export(report, &mut out)?;
    out.flush().map_err(Failure::file(path))?;
    say_what_lacks(exporter, report);
    Ok(())
}

/// Says on standard error what a format leaves out.
pub fn say_what_lacks(exporter: &dyn Exporter, report: &Report) {
    if let Some(lacks) = exporter.lacks(report) {
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "note: {}: {lacks}", exporter.id());
    }
}

fn write_charts(report: &Report, format: &pictures::Format, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    for chart in charts::all(report) {
        let path = folder.join(format!("{}.{}", chart.id, format.id));
        std::fs::write(&path, (format.file)(&chart)?).map_err(Failure::file(&path))?;
    }
    Ok(())
}

/// A path as a link in Markdown.
pub fn link(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    path.to_string_lossy()
        .bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Finds the exporter of a format.
pub fn find(format: &str) -> Result<&'static dyn Exporter, Failure> {
    exporters::find(format).ok_or_else(|| {
        let known: Vec<&str> = exporters::EXPORTERS.iter().map(|exporter| exporter.id()).collect();
        Failure::new(ExitCode::Usage, format!("no report format `{format}`; there are {}", known.join(", ")))
    })
}

/// `FORMAT=PATH`.
pub fn parse_export(text: &str) -> Result<(String, PathBuf), String> {
    let known = |format: &str| exporters::find(format).is_some() || pictures::find(format).is_some();
    match text.split_once('=') {
        Some((format, path)) if known(format) && !path.is_empty() => Ok((format.into(), path.into())),
        _ => {
            let reports = exporters::EXPORTERS.iter().map(|exporter| exporter.id());
            let formats: Vec<&str> =
                reports.chain(pictures::FORMATS.iter().map(|format| format.id)).collect();
            Err(format!("write it FORMAT=PATH, with one of {}", formats.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_hold_whatever_a_file_is_called() {
        assert_eq!(link(Path::new("a b)(<>-charts")), "a%20b%29%28%3C%3E-charts");
        assert_eq!(link(Path::new("out/drawn")), "out/drawn");
    }

    #[test]
    fn charts_are_formats_too() {
        assert_eq!(parse_export("png=out").unwrap().0, "png");
        assert!(parse_export("jpg=out").unwrap_err().contains("svg"));
    }
}
