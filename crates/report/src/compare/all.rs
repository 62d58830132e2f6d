//! Any number of runs.

use super::{compare_runs, compare_watches, is_watch};
use crate::document::Document;
use crate::error::Error;
use crate::page::Page;
use fsarena_core::record::RunRecord;
use serde_json::json;

/// Compares runs: of watches what a request costs on each, of others each with the first. One run is compared with
/// nothing.
///
/// # Errors
/// Where a run does not know the metric, or has no arm or no step in common with the first; where the first is a watch
/// and another is none.
pub fn compare_all(records: &[RunRecord], metric: &str) -> Result<Page, Error> {
    let Some((first, others)) = records.split_first() else { return Ok(nothing()) };
    if is_watch(first) {
        return compare_watches(records);
    }
    let mut pages =
        others.iter().map(|other| compare_runs(first, other, metric)).collect::<Result<Vec<_>, _>>()?;
    if pages.len() == 1 {
        return Ok(pages.remove(0));
    }
    let mut all = nothing();
    let comparisons: Vec<_> = pages.iter().map(|page| page.json.clone()).collect();
    all.json = json!({ "comparisons": comparisons });
    all.document.parts = pages.into_iter().flat_map(|page| page.document.parts).collect();
    Ok(all)
}

fn nothing() -> Page {
    Page { document: Document::default(), json: json!(null) }
}
