//! Finds invalid figures: figures that did not measure what their task claims, so no ranking may use them.
//!
//! A percentile of latency is invalid if the load had too few requests. Of n requests, n·(1 − q) are slower than the
//! quantile q. If these are fewer than ten, a single request changes the percentile noticeably.

use super::values::{VariantValues, has_data, rounds_left_out, values_by_task};
use crate::average::median;
use crate::metric::{DataPath, MAX_GENERATOR_SHARE, reading};
use crate::record::{MetricSpec, RunRecord};
use crate::{cell::Variant, matrix::workload_of_variant, setting::SettingValue};
use std::collections::{BTreeMap, BTreeSet};

/// Why the figure of one task and variant is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidReason {
    /// The page cache served direct I/O.
    Cache,
    /// The load generator took more than a tenth of the time of an operation.
    ClientBound,
    /// The plan requires verified blocks, but none was verified.
    Unverified,
    /// The load had too few requests for the percentile.
    FewRequests,
}

impl InvalidReason {
    /// Every reason.
    pub const ALL: [InvalidReason; 4] =
        [InvalidReason::Cache, InvalidReason::ClientBound, InvalidReason::Unverified, InvalidReason::FewRequests];

    /// The reason as the predicate of a sentence whose subject is the variant: `served direct I/O from the page cache`.
    pub fn predicate(self) -> &'static str {
        match self {
            InvalidReason::Cache => "served direct I/O from the page cache",
            InvalidReason::ClientBound => "was bound by the load generator",
            InvalidReason::Unverified => "verified no block, although the plan requires verified blocks",
            InvalidReason::FewRequests => "had too few requests a round for the percentile",
        }
    }
}

/// A sentence about why no ranking uses a task: `btrfs at rndrd[bs=512,threads=1] served direct I/O from the page cache`. It is
/// about the first variant with an invalid figure, but about too few requests if any variant has them. None if all figures are
/// valid.
pub fn invalid_reason(record: &RunRecord, metric: &str, task: usize) -> Option<String> {
    let figures = invalid_figures(record, metric);
    let of_task = figures.iter().filter(|((task_of_figure, variant), _)| {
        *task_of_figure == task && !record.variants[*variant].is_bare_device()
    });
    let ((_, first), reason) = of_task
        .min_by_key(|(task_and_variant, reason)| (**reason != InvalidReason::FewRequests, **task_and_variant))?;
    let (mut variant, mut predicate) = (*first, reason.predicate().to_string());
    if let (InvalidReason::FewRequests, Some(percentile)) = (reason, Percentile::of_metric(metric)) {
        // The variant with the fewest requests determines how long the load must run for all.
        let undersampled = undersampled_figures(record, &percentile).into_iter().filter(|figure| figure.task == task);
        if let Some(fewest) = undersampled.min_by(|a, b| a.requests_per_round.total_cmp(&b.requests_per_round)) {
            (variant, predicate) = (fewest.variant, fewest.predicate(&percentile));
        }
    }
    Some(format!("{} at {} {predicate}", record.variant_name(variant), record.tasks[task].id))
}

/// The invalid figures of a metric, by task and variant, each with the first reason that applies.
pub fn invalid_figures(record: &RunRecord, metric: &str) -> BTreeMap<(usize, usize), InvalidReason> {
    let mut reasons = BTreeMap::new();
    // Check this first, because its remedy, a longer load, also improves other figures.
    if let Some(percentile) = Percentile::of_metric(metric) {
        for figure in undersampled_figures(record, &percentile) {
            reasons.insert((figure.task, figure.variant), InvalidReason::FewRequests);
        }
    }
    for (task, variant, rounds) in figures_with_values(record, "device_share") {
        let is_cached = median(&rounds).map(DataPath::of) == Some(DataPath::Cache);
        if is_cached && has_setting_on(record, task, &record.variants[variant], "direct") {
            reasons.entry((task, variant)).or_insert(InvalidReason::Cache);
        }
    }
    for (task, variant, rounds) in figures_with_values(record, reading::GENERATOR_SHARE) {
        if median(&rounds).is_some_and(|share| share > MAX_GENERATOR_SHARE) {
            reasons.entry((task, variant)).or_insert(InvalidReason::ClientBound);
        }
    }
    for (task, variant, rounds) in figures_with_values(record, reading::VERIFIED_BLOCKS) {
        let is_unverified = !rounds.iter().any(|blocks| *blocks > 0.0);
        if is_unverified && has_setting_on(record, task, &record.variants[variant], "verify") {
            reasons.entry((task, variant)).or_insert(InvalidReason::Unverified);
        }
    }
    reasons
}

/// The tasks and variants whose load was not steady in any round. Their figures are still valid: all variants of a round ran
/// the load for the same time, so the comparison holds for a load of that length.
pub fn never_steady(record: &RunRecord) -> Vec<(usize, usize)> {
    let figures = figures_with_values(record, reading::STEADY).into_iter();
    let unsteady = figures.filter(|(.., rounds)| !rounds.iter().any(|steady| *steady > 0.0));
    unsteady.map(|(task, variant, _)| (task, variant)).collect()
}

/// The figures of a metric that have a value, each as task, variant and values by round. Empty if the run lacks the metric.
fn figures_with_values(record: &RunRecord, metric: &str) -> Vec<(usize, usize, Vec<f64>)> {
    let Some((_, rows)) = record.metric(metric) else { return vec![] };
    let mut figures = vec![];
    for (task, variants) in values_by_task(record, &rows, &rounds_left_out(record)).into_iter().enumerate() {
        for (variant, rounds) in variants.into_iter().enumerate() {
            if rounds.iter().any(|value| !value.is_nan()) {
                figures.push((task, variant, rounds));
            }
        }
    }
    figures
}

/// The tasks without commits, if other tasks of the run commit and the metric describes single operations, such as a rate or a
/// latency. A mean over commits and reads would describe neither. Empty for a metric that describes tasks as a whole, such as
/// the elapsed time: these can be averaged over all tasks.
pub(super) fn tasks_without_commits(
    record: &RunRecord,
    metric: &MetricSpec,
    values: &[VariantValues],
) -> BTreeSet<usize> {
    if metric.total_name().is_some() {
        return BTreeSet::new();
    }
    let Some((_, rows)) = record.metric(reading::COMMIT_RATE) else { return BTreeSet::new() };
    let rates = values_by_task(record, &rows, &BTreeSet::new());
    let measured = (0..values.len()).filter(|task| record.tasks[*task].in_totals && has_data(&values[*task]));
    let (with_commits, without_commits): (BTreeSet<usize>, BTreeSet<usize>) =
        measured.partition(|task| has_data(&rates[*task]));
    if with_commits.is_empty() { BTreeSet::new() } else { without_commits }
}

/// Whether every workload of the plan that ran this task has the setting on for the variant.
fn has_setting_on(record: &RunRecord, task: usize, variant: &Variant, setting: &str) -> bool {
    let rows = record.samples.task.iter().zip(&record.samples.cell);
    let rows = rows.filter(|(task_of_row, _)| **task_of_row as usize == task);
    let names: BTreeSet<&str> = rows.map(|(_, cell)| record.cells[*cell as usize].workload.as_str()).collect();
    let mut plans = record.plan.workloads.iter().filter(|plan| names.contains(plan.name.as_str())).peekable();
    plans.peek().is_some()
        && plans.all(|plan| match workload_of_variant(variant, plan).settings.0.get(setting) {
            Some(SettingValue::Bool(on)) => *on,
            // A level of a factor is text.
            Some(SettingValue::Text(level)) => level == "true",
            _ => false,
        })
}

/// The fewest requests per round that must be slower than the percentile.
const MIN_SLOWER_REQUESTS: f64 = 10.0;

/// A percentile of latency.
#[derive(Debug, Clone, PartialEq)]
struct Percentile {
    /// The fraction of requests that it covers: 0.999.
    fraction: f64,
    /// The ids of the readings that count the requests. The first one that a figure has is used.
    count_readings: Vec<String>,
}

impl Percentile {
    /// Parses the name of a metric or reading: `latency_p999`, `sync_latency_p99_ns`. None if it is not a percentile of
    /// latency.
    fn of_metric(metric: &str) -> Option<Percentile> {
        let metric = metric.strip_suffix("_ns").unwrap_or(metric);
        let (kind, digits) = metric.rsplit_once("latency_p")?;
        let decimals: f64 = digits.parse::<u32>().ok()?.into();
        let count_readings = match kind {
            "" | "corrected_" => vec!["all_operations_count".into(), reading::REQUESTS.into()],
            kind => vec![format!("{kind}operations_count")],
        };
        Some(Percentile { fraction: decimals / 10f64.powi(digits.len() as i32), count_readings })
    }

    /// The fewest requests per round that the percentile requires: 10/(1 − q).
    fn required_requests(&self) -> f64 {
        (MIN_SLOWER_REQUESTS / (1.0 - self.fraction)).round()
    }

    /// Its name in sentences: `99.9th percentile`.
    fn name(&self) -> String {
        match (self.fraction * 1e6).round() / 1e4 {
            50.0 => "median".into(),
            percent => format!("{percent}th percentile"),
        }
    }
}

/// The figure of a percentile with too few requests.
#[derive(Debug, Clone, PartialEq)]
struct UndersampledFigure {
    task: usize,
    variant: usize,
    /// The median number of requests per round.
    requests_per_round: f64,
    /// The median length of the load in seconds, if the load recorded it.
    load_s: Option<f64>,
}

impl UndersampledFigure {
    /// The predicate of a sentence whose subject is the variant: how many requests it had, how many the percentile requires,
    /// and how long to measure.
    fn predicate(&self, percentile: &Percentile) -> String {
        let (requests, required) = (self.requests_per_round.round(), percentile.required_requests());
        let mut text = format!("had {requests} requests a round, and a {} requires {required}", percentile.name());
        if let Some(load_s) = self.load_s.filter(|_| self.requests_per_round > 0.0) {
            // A tenth more, because the number of requests varies.
            let enough = (1.1 * load_s * required / self.requests_per_round).ceil();
            text.push_str(&format!("; measure for {enough} s instead of {load_s:.1} s"));
        }
        text
    }
}

/// The figures of a percentile whose median round has too few requests. Leaves out figures without a number of requests.
fn undersampled_figures(record: &RunRecord, percentile: &Percentile) -> Vec<UndersampledFigure> {
    let excluded_rounds = rounds_left_out(record);
    let values_of = |id: &str| record.metric(id).map(|(_, rows)| values_by_task(record, &rows, &excluded_rounds));
    let counts: Vec<Vec<VariantValues>> = percentile.count_readings.iter().filter_map(|id| values_of(id)).collect();
    let lengths = values_of(reading::LOAD_ELAPSED);
    let mut figures = vec![];
    for task in 0..record.tasks.len() {
        for variant in 0..record.variants.len() {
            let requests_per_round = counts.iter().find_map(|tasks| median(&tasks[task][variant]));
            let Some(requests_per_round) = requests_per_round else { continue };
            if requests_per_round >= percentile.required_requests() {
                continue;
            }
            let ns = lengths.as_ref().and_then(|lengths| median(&lengths[task][variant]));
            figures.push(UndersampledFigure { task, variant, requests_per_round, load_s: ns.map(|ns| ns / 1e9) });
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{TaskId, TaskInfo};
    use crate::record::{CellRecord, SampleTable};
    use crate::sample::{Direction, Unit};

    /// A run of one task and one round with these readings of two variants.
    fn run_of_two_variants(readings: &[(&str, [f64; 2])]) -> RunRecord {
        let variants = ["ext4", "xfs"].map(|name| Variant { name: name.into(), levels: BTreeMap::new() });
        let task = TaskInfo { id: TaskId::new("load"), title: "Load".into(), number: None, in_totals: true };
        let mut record = RunRecord { variants: variants.into(), tasks: vec![task], ..RunRecord::default() };
        for (id, _) in readings {
            let unit = if id.ends_with("_ns") { Unit::Nanoseconds } else { Unit::Count };
            record.define_reading(MetricSpec::new(id.to_string(), unit, Direction::Lower, String::new()));
        }
        for variant in 0..2 {
            record.cells.push(CellRecord::done(0, variant as usize));
        }
        let values = readings.iter().map(|(_, values)| values.to_vec()).collect();
        record.samples = SampleTable { cell: vec![0, 1], task: vec![0, 0], started_at: vec![0.0; 2], values };
        record
    }

    #[test]
    fn too_few_requests_are_the_reason_whichever_variant_has_them() {
        for (counts, shares) in [([30.0, 50_000.0], [0.01, 0.5]), ([50_000.0, 30.0], [0.5, 0.01])] {
            let record = run_of_two_variants(&[
                ("all_latency_p999_ns", [1e6, 2e6]),
                ("all_operations_count", counts),
                (reading::GENERATOR_SHARE, shares),
            ]);
            let excluded = crate::observations::Grid::of(&record, "latency_p999").unwrap().excluded;
            assert_eq!(excluded, [(0, InvalidReason::FewRequests)].into());
            let sentence = invalid_reason(&record, "latency_p999", 0).unwrap();
            assert!(sentence.contains("at load had 30 requests a round"), "{sentence}");
        }
    }

    #[test]
    fn each_task_has_its_own_count_of_requests() {
        let task = |name: &str| TaskInfo { id: TaskId::new(name), title: name.into(), number: None, in_totals: true };
        let variants = vec![Variant { name: "ext4".into(), levels: BTreeMap::new() }];
        let mut record = RunRecord { variants, tasks: ["load", "web"].map(task).into(), ..RunRecord::default() };
        for id in ["all_operations_count", reading::REQUESTS] {
            record.define_reading(MetricSpec::new(id.into(), Unit::Count, Direction::Neutral, String::new()));
        }
        record.cells.push(CellRecord::done(0, 0));
        let values = vec![vec![50_000.0, f64::NAN], vec![f64::NAN, 30.0]];
        record.samples = SampleTable { cell: vec![0, 0], task: vec![0, 1], started_at: vec![0.0; 2], values };
        let figures = undersampled_figures(&record, &Percentile::of_metric("latency_p999").unwrap());
        let web = UndersampledFigure { task: 1, variant: 0, requests_per_round: 30.0, load_s: None };
        assert_eq!(figures, [web]);
    }

    #[test]
    fn a_percentile_is_parsed_from_the_name_of_its_metric() {
        let parsed = |metric| {
            Percentile::of_metric(metric)
                .map(|percentile| (percentile.required_requests(), percentile.name(), percentile.count_readings))
        };
        let counts_of_all = || vec!["all_operations_count".to_string(), "requests_count".into()];
        assert_eq!(parsed("latency_p999"), Some((10_000.0, "99.9th percentile".into(), counts_of_all())));
        let finer = parsed("latency_p9999").unwrap();
        assert_eq!((finer.0, finer.1.as_str()), (100_000.0, "99.99th percentile"));
        assert_eq!(parsed("corrected_latency_p99_ns"), Some((1_000.0, "99th percentile".into(), counts_of_all())));
        let sync = vec!["sync_operations_count".to_string()];
        assert_eq!(parsed("sync_latency_p50_ns"), Some((20.0, "median".into(), sync)));
        assert!(["latency_max_ns", "elapsed", "latency_pages", "latency_p"].iter().all(|id| parsed(id).is_none()));
    }

    #[test]
    fn the_message_proposes_a_length_with_enough_requests() {
        let percentile = Percentile::of_metric("latency_p999").unwrap();
        let figure = UndersampledFigure { task: 0, variant: 0, requests_per_round: 512.0, load_s: Some(1.0) };
        // 10,000 / 512 s and a tenth more.
        assert_eq!(
            figure.predicate(&percentile),
            "had 512 requests a round, and a 99.9th percentile requires 10000; measure for 22 s instead of 1.0 s"
        );
    }
}
