//! A run, analysed and ready to be exported.

use crate::error::Error;
use fsarena_core::record::RunRecord;
use fsarena_stats::analyse::{Analysis, analyse};

/// A run, analysed and ready to be exported.
#[derive(Debug)]
pub struct Report {
    /// The run.
    pub record: RunRecord,
    /// The analyses, the main one first.
    pub analyses: Vec<Analysis>,
    /// Columns of the terminal, where that is known.
    pub width: Option<u16>,
    /// Whether the terminal shows colours.
    pub colour: bool,
}

/// The metrics of a report where none are asked for.
pub const DEFAULT_METRICS: [&str; 2] = ["elapsed", "durable"];

impl Report {
    /// Analyses a run by these metrics; [`DEFAULT_METRICS`] where there are none.
    ///
    /// # Errors
    /// Where a metric is not known.
    pub fn new(record: RunRecord, metrics: &[&str]) -> Result<Report, Error> {
        let metrics = if metrics.is_empty() { &DEFAULT_METRICS[..] } else { metrics };
        let analyses = metrics.iter().map(|metric| analyse(&record, metric)).collect::<Result<_, _>>()?;
        Ok(Report { record, analyses, width: None, colour: false })
    }
}
