//! For the terminal.

use crate::document::{Document, terminal};
use crate::error::Error;
use crate::exporter::Exporter;
use crate::ranking::Ranking;
use crate::report::Report;
use crate::sections::{
    anomalies, answer, claims, conclusions, head, normalised, notes, pair, ranking, reached, scaling, tasks,
};
use std::io::Write;

/// Tables and the answer, for the terminal.
pub struct Term;

impl Exporter for Term {
    fn id(&self) -> &'static str {
        "term"
    }

    fn help(&self) -> &'static str {
        "tables and the answer, for the terminal"
    }

    fn export(&self, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
        let mut document = Document::default();
        head::add(&mut document, report);
        pair::add(&mut document, report, &pair::rows(report));
        // One table: a screen holds no second. The answers below are for every metric that was asked for.
        for analysis in report.analyses.iter().take(1) {
            tasks::add(&mut document, report, analysis, true);
        }
        normalised::add(&mut document, report);
        scaling::add(&mut document, report);
        reached::add(&mut document, report);
        notes::add(&mut document, report);
        notes::add_remarks(&mut document, report);
        conclusions::add(&mut document, report, false);
        // The answer comes last: it is what stays on the screen.
        for analysis in report.analyses.iter().rev() {
            answer::add(&mut document, report, analysis);
        }
        anomalies::add(&mut document, report);
        // Who weighs tasks asks for the ranking itself; others for what follows from it.
        let ranked = Ranking::of(report);
        match report.weights.is_empty() {
            true => ranking::add_recommendation(&mut document, report, ranked.as_ref()),
            false => ranking::add(&mut document, report, ranked.as_ref()),
        }
        claims::add(&mut document, report);
        Ok(terminal::write(&document, report.width, report.colour, out)?)
    }
}
