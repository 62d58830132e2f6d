//! The exports of the report for people: on the terminal, as a web page, as Markdown, and its charts as SVG.

use crate::document::{Detail, markdown, terminal};
use crate::exporter::{Exporter, write_file};
use crate::{advice, charts, drawing::svg, error::Error, report::Report, report_page, sections::report_document};
use std::{io::Write, path::Path};

/// The exporter for the terminal: the answer, or the whole report if [`Report::is_full`] is set.
pub const TERM: Exporter = Exporter::new("term", "the answer, or the whole report, for the terminal", export_terminal);

fn export_terminal(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let detail = if report.is_full { Detail::Full } else { Detail::Brief };
    let mut document = report_document(report, detail);
    if !report.is_full {
        document.text(format!("The whole report: {}", advice::full_report_command(&report.record.id)));
    }
    Ok(terminal::write_terminal(&document, report.screen, out)?)
}

/// The exporter of one web page with charts, sortable tables and their data.
pub const HTML: Exporter = Exporter {
    file_in_run_dir: |_| Some("report.html"),
    shows_commands: true,
    ..Exporter::new(
        "html",
        "one page that needs no network: the answer, charts, sortable tables, samples and commands",
        export_html,
    )
};

fn export_html(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    Ok(out.write_all(report_page::render_report_page(report)?.as_bytes())?)
}

/// The exporter of Markdown with everything needed to repeat the run.
pub const MARKDOWN: Exporter = Exporter {
    file_in_run_dir: |_| Some("report.md"),
    write: Some(write_markdown_with_charts),
    ..Exporter::new("md", "Markdown: the answer, all tables, and everything needed to repeat the run", export_markdown)
};

fn export_markdown(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    write_report_as_markdown(report, report.charts_folder.as_deref(), out)
}

/// Writes a Markdown file, and its charts into the folder `NAME-charts` beside it.
fn write_markdown_with_charts(report: &Report, path: &Path) -> Result<(), Error> {
    let folder = format!("{}-charts", path.file_stem().unwrap_or_default().to_string_lossy());
    write_file(path, |out| {
        // After creating the file, so that a path that cannot be written leaves no folder behind.
        SVG.write(report, &path.with_file_name(&folder))?;
        write_report_as_markdown(report, (SVG.charts_folder_link)(Path::new(&folder)).as_deref(), out)
    })
}

/// Writes the document as Markdown, with links to charts in this folder; without a folder it has no charts.
fn write_report_as_markdown(report: &Report, charts_folder: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
    let detail = if charts_folder.is_some() { Detail::Charts } else { Detail::Full };
    Ok(markdown::write_markdown(&report_document(report, detail), charts_folder, out)?)
}

/// The exporter of all charts as SVG files, whose text is not converted to outlines.
pub const SVG: Exporter = Exporter {
    charts_folder_link: |path| Some(percent_encode(path)),
    ..Exporter::folder(
        "svg",
        "every chart as an SVG file in a folder; its text can be searched and copied",
        write_charts,
    )
};

/// Writes a file for each chart into a folder, which it creates.
fn write_charts(report: &Report, folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    for chart in charts::charts_of_report(report) {
        let path = folder.join(format!("{}.svg", chart.id));
        std::fs::write(&path, svg::svg_file_text(&chart)).map_err(Error::file(&path))?;
    }
    Ok(())
}

/// Percent-encodes a path for a link in Markdown.
fn percent_encode(path: &Path) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    path.to_string_lossy()
        .bytes()
        .map(|byte| if is_unreserved(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_unusual_file_names_are_encoded() {
        assert_eq!(percent_encode(Path::new("a b)(<>-charts")), "a%20b%29%28%3C%3E-charts");
        assert_eq!(percent_encode(Path::new("out/drawn")), "out/drawn");
    }
}
