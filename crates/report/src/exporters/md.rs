//! Markdown: the answer, the figures, and everything needed to repeat the run.

use super::svg::Svg;
use crate::document::{Document, markdown};
use crate::error::Error;
use crate::exporter::Exporter;
use crate::ranking::Ranking;
use crate::report::Report;
use crate::sections::{
    anomalies, answer, circumstances, claims, conclusions, head, normalised, notes, pair, pictures, ranking,
    reached, scaling, tasks, totals,
};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Markdown with all circumstances.
pub struct Markdown;

impl Exporter for Markdown {
    fn id(&self) -> &'static str {
        "md"
    }

    fn help(&self) -> &'static str {
        "Markdown: the answer, all tables, and everything needed to repeat the run"
    }

    fn kept_as(&self, _: &Report) -> Option<&'static str> {
        Some("report.md")
    }

    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        write(report, report.pictures.as_deref(), out)
    }

    /// Its charts go into a folder beside the file.
    fn write(&self, report: &Report, path: &Path) -> Result<(), Error> {
        // The file comes first, so that no folder is made where the file cannot be.
        let mut out = BufWriter::new(File::create(path).map_err(Error::file(path))?);
        let folder = format!("{}-charts", path.file_stem().unwrap_or_default().to_string_lossy());
        Svg.write(report, &path.with_file_name(&folder))?;
        write(report, Svg.charts_link(Path::new(&folder)).as_deref(), &mut out)?;
        out.flush().map_err(Error::file(path))
    }
}

/// The whole document, with links to charts in this folder.
fn write(report: &Report, pictures: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
    let mut document = Document::default();
    head::add(&mut document, report);
    claims::add(&mut document, report);
    let pairs = pair::rows(report);
    pair::add_answer(&mut document, report, &pairs);
    pair::add(&mut document, report, &pairs);
    for analysis in &report.analyses {
        answer::add(&mut document, report, analysis);
    }
    anomalies::add(&mut document, report);
    for (at, analysis) in report.analyses.iter().enumerate() {
        tasks::add(&mut document, report, analysis, at == 0);
        tasks::add_medians(&mut document, report, analysis);
    }
    normalised::add(&mut document, report);
    scaling::add(&mut document, report);
    reached::add(&mut document, report);
    ranking::add(&mut document, report, Ranking::of(report).as_ref());
    conclusions::add(&mut document, report, true);
    totals::add(&mut document, report);
    pictures::add(&mut document, report, pictures);
    notes::add(&mut document, report);
    notes::add_remarks(&mut document, report);
    circumstances::add(&mut document, report)?;
    Ok(markdown::write(&document, out)?)
}
