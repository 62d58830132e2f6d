//! Curves of throughput over clients, from the samples of a run and from published figures.

use super::name_without_level;
use crate::{error::Error, number::plural};
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{factor, observations::rounds_left_out, published::PublishedSet};
use fsarena_stats::scaling::{Scaling, Series, SeriesError, SeriesRow, analyse_scaling};
use std::collections::{BTreeMap, BTreeSet};

/// The metrics to try if the user names none: the first that the run has.
const DEFAULT_METRICS: [&str; 2] = ["throughput", "iops"];

/// Whether a task or variant of a run states a number of clients, even if it is always the same. The report then has
/// curves instead of a matrix.
pub fn has_client_counts(record: &RunRecord) -> bool {
    record.tasks.iter().any(|task| task.id.params.contains_key(factor::CLIENTS))
        || record.variants.iter().any(|variant| !variant.level(factor::CLIENTS).is_empty())
}

/// The curves of a run.
#[derive(Debug, Clone)]
pub struct ClientCurves {
    /// The metric of the curves.
    pub metric: MetricSpec,
    /// A curve over the number of clients for each variant and task.
    pub curves: Vec<ClientCurve>,
    /// The number of values of zero, which are left out because zero has no logarithm.
    pub zero_count: usize,
}

/// One curve of a run.
#[derive(Debug, Clone)]
pub struct ClientCurve {
    /// The values for each number of clients.
    pub series: Series,
    /// The index of the variant in the run. If the number of clients is a factor, a curve has several variants, and this is the
    /// first.
    pub variant: usize,
}

/// The curves that a run measured, by this metric; without a metric, by the first of `throughput` and `iops` that the run has.
///
/// # Errors
/// The run lacks the metric, or does not vary the number of clients.
pub fn client_curves_of_run(record: &RunRecord, metric: Option<&str>) -> Result<ClientCurves, Error> {
    let candidates: Vec<&str> = metric.map_or(DEFAULT_METRICS.to_vec(), |metric| vec![metric]);
    let measured_metric =
        |name: &&str| record.metric(name).filter(|(_, values)| values.iter().any(|value| !value.is_nan()));
    let Some((metric, values)) = candidates.iter().find_map(measured_metric) else {
        return Err(no_curve_error(format!("run {} has no {}", record.id, candidates.join(" or "))));
    };
    let left_out = rounds_left_out(record);
    let tasks: Vec<String> = record.tasks.iter().map(|task| task_without_clients(&task.id)).collect();
    let variants: Vec<String> =
        record.variants.iter().map(|variant| variant_without_clients(record, variant)).collect();
    let (mut zero_count, mut has_clients) = (0, false);
    // The key is the names of variant and task without the number of clients. The value is the smallest index of a
    // variant with this name, and the points of the curve.
    let mut points: BTreeMap<(String, String), (usize, Vec<SeriesRow>)> = BTreeMap::new();
    for (sample, value) in values.iter().copied().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let task = record.samples.task[sample] as usize;
        let variant = &record.variants[cell.variant];
        let Some(clients) = variant.clients(&record.tasks[task].id) else { continue };
        has_clients = true;
        if left_out.contains(&cell.round) {
            continue;
        }
        if value == 0.0 {
            zero_count += 1;
        } else {
            let key = (variants[cell.variant].clone(), tasks[task].clone());
            let (first_variant, rows) = points.entry(key).or_insert((cell.variant, vec![]));
            *first_variant = cell.variant.min(*first_variant);
            rows.push((f64::from(clients), cell.round, value));
        }
    }
    if points.is_empty() {
        let why =
            if has_clients { "has only values of zero or of rounds left out" } else { "varies no clients or threads" };
        return Err(no_curve_error(format!("run {} {why}", record.id)));
    }
    let has_several_tasks = points.keys().map(|(_, task)| task).collect::<BTreeSet<_>>().len() > 1;
    let mut curves: Vec<Result<ClientCurve, SeriesError>> = vec![];
    for ((name, task), (variant, rows)) in &points {
        let name = if has_several_tasks { format!("{name} {task}") } else { name.clone() };
        curves.push(Series::new(&name, rows).map(|series| ClientCurve { series, variant: *variant }));
    }
    if curves.iter().any(Result::is_ok) {
        // A variant that failed early has no curve; keep the curves of the others.
        curves.retain(|curve| !matches!(curve, Err(SeriesError::OneNumber { .. })));
    }
    Ok(ClientCurves { metric, zero_count, curves: curves.into_iter().collect::<Result<_, _>>()? })
}

/// The error for a run without curves; `why` states why it has none.
fn no_curve_error(why: String) -> Error {
    Error::Usage(format!("{why}: a curve is the throughput by the number of clients; `fsarena run gus3` measures one"))
}

impl ClientCurves {
    /// The curves for the report of a run. `None` if the run does not vary its clients, or if no curve has at least three
    /// numbers of clients.
    pub fn for_report(record: &RunRecord) -> Option<ClientCurves> {
        if !has_client_counts(record) {
            return None;
        }
        let curves = client_curves_of_run(record, None).ok()?;
        curves.curves.iter().any(|curve| curve.series.n.len() > 2).then_some(curves)
    }

    /// The analysis of each curve, with the index of its variant. `seed` is for the bootstrap.
    pub fn analyse(&self, seed: u64) -> Vec<(usize, Scaling)> {
        self.curves.iter().map(|curve| (curve.variant, analyse_scaling(curve.series.clone(), seed))).collect()
    }

    /// A sentence with the number of values left out; `None` if there are none.
    pub fn left_out_sentence(&self) -> Option<String> {
        let values = plural(self.zero_count, "value");
        (self.zero_count > 0).then(|| format!("{values} of zero left out: zero has no logarithm."))
    }
}

/// The curves of published figures, one for each variant, task and metric; `None` if the figures have no numbers of clients.
///
/// # Errors
/// A value is not above zero and so has no logarithm, or a curve has only one number of clients.
pub fn client_curves_of_published(published: &PublishedSet) -> Result<Option<Vec<Series>>, Error> {
    // The key is the name of the variant, the task without its number of clients, and the metric.
    let mut points: BTreeMap<(&str, String, &str), Vec<SeriesRow>> = BTreeMap::new();
    // Leave out values that the author took from a fitted curve. Published figures have no rounds, so all are in round
    // 0.
    for figure in published.figures.iter().filter(|figure| figure.kind.is_evidence()) {
        if let Some(clients) = figure.params.get(factor::CLIENTS).and_then(|clients| clients.parse().ok()) {
            let key = (figure.variant.as_str(), task_without_clients(&figure.task_id()), figure.metric.as_str());
            points.entry(key).or_default().push((clients, 0, figure.value));
        }
    }
    if points.is_empty() {
        return Ok(None);
    }
    let has_several_tasks = points.keys().map(|(_, task, _)| task).collect::<BTreeSet<_>>().len() > 1;
    let has_several_metrics = points.keys().map(|(.., metric)| metric).collect::<BTreeSet<_>>().len() > 1;
    let mut curves = vec![];
    for ((variant, task, metric), rows) in &points {
        let mut name = variant.to_string();
        if has_several_tasks {
            name += &format!(" {task}");
        }
        if has_several_metrics {
            name += &format!(" {metric}");
        }
        curves.push(Series::new(&name, rows)?);
    }
    Ok(Some(curves))
}

/// The name of a task without its number of clients.
fn task_without_clients(task: &TaskId) -> String {
    let mut task = task.clone();
    task.remove_clients();
    task.to_string()
}

/// The name of a variant without its number of clients.
fn variant_without_clients(record: &RunRecord, variant: &Variant) -> String {
    let name = name_without_level(record, variant, factor::CLIENTS);
    if name.is_empty() { variant.level(factor::FS).to_string() } else { name }
}
