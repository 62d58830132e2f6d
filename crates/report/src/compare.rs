//! Comparisons: of runs with each other or with published figures, of published figures, of samples of other tools, and of
//! the cost of a request on several services.

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
pub use proxies::compare_published_samples;
pub use published::{compare_published, compare_sets};
pub use samples::compare_samples;

/// Compares each run with the first by a metric; watches it compares by the cost of a request, every two of them. The report
/// on a single run that is not a watch is empty.
///
/// # Errors
/// If the first run lacks the metric, or no other run can be compared with it; if the first run is a watch and another is
/// not, or a watch has too few windows.
pub fn compare_all(records: &[RunRecord], metric: &str) -> Result<ComparisonReport, Error> {
    if records.first().is_some_and(cost::is_watch) {
        cost::compare_watches(records)
    } else {
        runs::compare_runs(records, metric)
    }
}
