//! Compares runs with each other and with published figures; published figures with each other; samples of other tools; and
//! services by the cost of a request.

mod answer;
mod cost;
mod order;
mod published;
mod published_samples;
mod ratio_chart;
mod run_pair;
mod runs;
mod samples;

use crate::{error::Error, page::ComparisonReport};
use fsarena_core::record::RunRecord;

pub use published::{compare_published, compare_published_sets};
pub use published_samples::compare_published_samples;
pub use samples::compare_samples;

/// Compares each run with the first by a metric. If the runs are watches, compares every two of them by the cost of a request.
/// The report on a single run that is not a watch is empty.
///
/// # Errors
/// If the first run lacks the metric, or no other run can be compared with it; if the first run is a watch and another is
/// not, or a watch has too few windows.
pub fn compare_runs_or_watches(records: &[RunRecord], metric: &str) -> Result<ComparisonReport, Error> {
    if records.first().is_some_and(cost::is_watch) {
        cost::compare_watches(records)
    } else {
        runs::compare_runs(records, metric)
    }
}
