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
    /// The difference that matters, as a fraction.
    pub margin: f64,
    /// How much tasks weigh in the ranking: by name or number; 1 for those not named.
    pub weights: Vec<(String, f64)>,
    /// What the machine can resolve by its own self-test, in words.
    pub resolution: Option<String>,
    /// Columns of the terminal, where that is known.
    pub width: Option<u16>,
    /// Whether the terminal shows colours.
    pub colour: bool,
}

/// The metrics of a report where none are asked for: of loads, which run for as long as it takes to be
/// steady, and of tasks, which end when they are done.
const LOADS: &[&str] = &["iops"];
const TASKS: &[&str] = &["elapsed", "durable"];

fn default_metrics(record: &RunRecord) -> &'static [&'static str] {
    let counted = record.metric("iops").is_some_and(|(_, rows)| rows.iter().any(|value| !value.is_nan()));
    if counted { LOADS } else { TASKS }
}

/// The difference that matters where nobody says: 1%.
pub const MARGIN: f64 = 0.01;

impl Report {
    /// Analyses a run by these metrics; where there are none, by the rates of loads, or the times of tasks.
    ///
    /// # Errors
    /// Where a metric is not known.
    pub fn new(record: RunRecord, metrics: &[&str]) -> Result<Report, Error> {
        let metrics = if metrics.is_empty() { default_metrics(&record) } else { metrics };
        let analyses = metrics.iter().map(|metric| analyse(&record, metric)).collect::<Result<_, _>>()?;
        Ok(Report {
            record,
            analyses,
            margin: MARGIN,
            weights: vec![],
            resolution: None,
            width: None,
            colour: false,
        })
    }
}
