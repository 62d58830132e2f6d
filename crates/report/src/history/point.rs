//! What one run says of a metric that is followed.

use crate::drawing::Look;
use crate::{error::Error, words::machines};
use fsarena_core::observations::combine_tasks;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_stats::comparison::median;
use fsarena_stats::ratio::{Ratio, log_ratios};
use serde_json::json;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What the history follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The study or plan.
    pub study: String,
    /// The metric.
    pub metric: String,
    /// The variant.
    pub variant: String,
    /// The variant that it is compared with in every round; none for the values of the variant themselves.
    pub reference: Option<String>,
}

/// What one run says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The run.
    pub run: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// The machine and its kernel.
    pub machine: String,
    /// The metric.
    pub info: MetricSpec,
    /// What the work was: runs of other work do not compare.
    pub(super) work: u64,
    /// The variant over the reference, within rounds.
    pub ratio: Option<Ratio>,
    /// The median over rounds of all tasks together.
    pub median: f64,
    /// The typical value of these rounds, with its interval; None for one round.
    pub typical: Option<Ratio>,
    /// How the run's report draws the variant.
    pub look: Look,
    /// Rounds that have a value.
    pub rounds: usize,
}

impl Point {
    /// The value that is followed: a logarithm.
    pub(super) fn level(&self, paired: bool) -> f64 {
        if paired { self.ratio.map_or(f64::NAN, |ratio| ratio.value.ln()) } else { self.median.ln() }
    }
}

/// What a run says of a variant; none where it has no such variant, or no value of it.
///
/// # Errors
/// Where nothing is called by the name of the metric.
pub fn point(record: &RunRecord, asked: &Asked) -> Result<Option<Point>, Error> {
    let Some(at) = record.variant(&asked.variant) else { return Ok(None) };
    let (info, values) = combine_tasks(record, &asked.metric)?;
    let Some(own) = values.get(at) else { return Ok(None) };
    let Some(median) = median(own).filter(|median| *median > 0.0) else { return Ok(None) };
    let reference = asked.reference.as_deref().and_then(|name| record.variant(name));
    let ratio = reference.and_then(|other| Ratio::of(log_ratios(&values[other], own).d));
    Ok(Some(Point {
        run: record.id.clone(),
        started: record.started.clone(),
        machine: machines(record),
        info,
        work: work(record),
        ratio,
        median,
        typical: Ratio::typical(own),
        look: Look::of_variants(&record.variants)[at],
        rounds: own.iter().filter(|value| !value.is_nan()).count(),
    }))
}

/// The scale, the workloads and what carries the filesystems, in a number.
fn work(record: &RunRecord) -> u64 {
    let mut hasher = DefaultHasher::new();
    let plan = &record.plan;
    json!([plan.scale, plan.workloads, json!(plan.device.backing)["kind"]]).to_string().hash(&mut hasher);
    hasher.finish()
}
