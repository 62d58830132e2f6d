//! Any number of runs.

use super::runs::compare_several;
use super::{Compared, compare_watches, is_watch};
use crate::error::Error;
use fsarena_core::record::RunRecord;

/// Compares runs: of watches what a request costs on each, of others each with the first. One run is compared with
/// nothing.
///
/// # Errors
/// Where a run does not know the metric, or has no variant or no task in common with the first; where the first is a watch
/// and another is none.
pub fn compare_all(records: &[RunRecord], metric: &str) -> Result<Compared, Error> {
    if records.first().is_some_and(is_watch) {
        return compare_watches(records);
    }
    compare_several(&records.iter().collect::<Vec<_>>(), metric)
}
