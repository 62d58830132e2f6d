//! Markdown: the answer, the figures, and everything needed to repeat the run.

use crate::document::{Document, markdown};
use crate::error::Error;
use crate::exporter::Exporter;
use crate::ranking::Ranking;
use crate::report::Report;
use crate::sections::{
    anomalies, answer, circumstances, claims, conclusions, head, normalised, notes, pair, pictures, ranking,
    reached, scaling, tasks, totals,
};
use std::io::Write;

/// Markdown with all circumstances.
pub struct Markdown;

impl Exporter for Markdown {
    fn id(&self) -> &'static str {
        "md"
    }

    fn help(&self) -> &'static str {
        "Markdown: the answer, all tables, and everything needed to repeat the run"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
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
        pictures::add(&mut document, report);
        notes::add(&mut document, report);
        notes::add_remarks(&mut document, report);
        circumstances::add(&mut document, report)?;
        Ok(markdown::write(&document, out)?)
    }
}
