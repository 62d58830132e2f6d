//! A run beside another run, or beside published figures; samples of other tools beside each other; what
//! requests cost on several services.

mod answer;
mod comparison_report;
mod cost;
mod order;
mod picture;
mod proxies;
mod published;
mod run_pair;
mod runs;
mod samples;

use crate::error::Error;
use fsarena_core::record::RunRecord;

pub use comparison_report::ComparisonReport;
pub use proxies::compare_services;
pub use published::{compare_published, compare_sets};
pub use samples::compare_samples;

/// Compares runs: of watches what a request costs on each, of others each with the first. One run is compared with
/// nothing.
///
/// # Errors
/// Where a run does not know the metric, or has no variant or no task in common with the first; where the first is a watch
/// and another is none.
pub fn compare_all(records: &[RunRecord], metric: &str) -> Result<ComparisonReport, Error> {
    if records.first().is_some_and(cost::is_watch) {
        cost::compare_watches(records)
    } else {
        runs::compare_runs(records, metric)
    }
}
