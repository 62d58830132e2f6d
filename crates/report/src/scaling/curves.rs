//! From samples and published figures to curves of throughput over clients.

use crate::{error::Error, number::plural};
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::observations::left_out;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{factor, published::Published};
use fsarena_stats::scaling::{Row, Series, SeriesError};
use fsarena_stats::scaling::{Scaling, analyse};
use std::collections::{BTreeMap, BTreeSet};

/// The metrics to try if the user names none: the first that the run has.
const METRICS: [&str; 2] = ["throughput", "iops"];

/// Whether a run varies its number of clients: then its curves say more than a matrix.
pub fn by_clients(record: &RunRecord) -> bool {
    let of_task = record.tasks.iter().any(|task| task.id.params.contains_key(factor::CLIENTS));
    of_task || record.variants.iter().any(|variant| !variant.level(factor::CLIENTS).is_empty())
}

/// The curves of a run.
#[derive(Debug, Clone)]
pub struct Curves {
    /// What they are of.
    pub metric: MetricSpec,
    /// One for each variant and task, over their numbers of clients.
    pub curves: Vec<Curve>,
    /// Values of zero, which have no logarithm and are left out.
    pub zeros: usize,
}

/// One curve of a run.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The values by number of clients.
    pub series: Series,
    /// The first of its variants, by its number in the run. Where clients tell variants apart, a curve has several.
    pub variant: usize,
}

/// The curves that a run measured, by this metric; where it is none, by the rate that the load has.
///
/// # Errors
/// Where the run lacks the metric or varies no clients.
pub fn of_run(record: &RunRecord, metric: Option<&str>) -> Result<Curves, Error> {
    let asked: Vec<&str> = metric.map_or(METRICS.to_vec(), |metric| vec![metric]);
    let has = |name: &&str| record.metric(name).filter(|(_, values)| values.iter().any(|v| !v.is_nan()));
    let Some((metric, values)) = asked.iter().find_map(has) else {
        return Err(no_curve(format!("run {} has no {}", record.id, asked.join(" or "))));
    };
    let left_out = left_out(record);
    let tasks: Vec<String> = record.tasks.iter().map(|task| rest_of(&task.id)).collect();
    let mut zeros = 0;
    let mut found: BTreeMap<(String, String), (usize, Vec<Row>)> = BTreeMap::new();
    for (sample, value) in values.iter().copied().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let at = record.samples.task[sample] as usize;
        let variant = &record.variants[cell.variant];
        let Some(n) = variant.clients(&record.tasks[at].id) else { continue };
        if value == 0.0 {
            zeros += 1;
        } else if !left_out.contains(&cell.round) {
            let key = (variant_without(variant), tasks[at].clone());
            let (first, rows) = found.entry(key).or_insert((cell.variant, vec![]));
            *first = cell.variant.min(*first);
            rows.push((f64::from(n), cell.round, value));
        }
    }
    if found.is_empty() {
        return Err(no_curve(format!("run {} varies no clients or threads", record.id)));
    }
    let several = found.keys().map(|(_, task)| task).collect::<BTreeSet<_>>().len() > 1;
    let name = |(variant, task): &(String, String)| {
        if several { format!("{variant} {task}") } else { variant.clone() }
    };
    let curve = |(key, (variant, rows)): (&_, &(usize, Vec<Row>))| {
        Series::new(&name(key), rows).map(|series| Curve { series, variant: *variant })
    };
    let mut curves: Vec<Result<Curve, SeriesError>> = found.iter().map(curve).collect();
    if curves.iter().any(Result::is_ok) {
        // A variant that failed early has no curve; the others have theirs.
        curves.retain(|curve| !matches!(curve, Err(SeriesError::OneNumber { .. })));
    }
    Ok(Curves { metric, zeros, curves: curves.into_iter().collect::<Result<_, _>>()? })
}

fn no_curve(why: String) -> Error {
    Error::Usage(format!("{why}: a curve is throughput by number of clients, as a run of gus3 measures it"))
}

impl Curves {
    /// The curves of a run that varies its clients. `None` if no variant was run with three numbers of them, which is where
    /// a curve begins.
    pub fn shown(record: &RunRecord) -> Option<Curves> {
        let run = of_run(record, None).ok().filter(|_| by_clients(record))?;
        run.curves.iter().any(|curve| curve.series.n.len() > 2).then_some(run)
    }

    /// What each says, with its variant.
    pub fn analysed(&self, seed: u64) -> Vec<(usize, Scaling)> {
        self.curves.iter().map(|curve| (curve.variant, analyse(curve.series.clone(), seed))).collect()
    }

    /// The points left out, in words; empty if none were.
    pub fn left_out(&self) -> Option<String> {
        let values = plural(self.zeros, "value");
        (self.zeros > 0).then(|| format!("{values} of zero left out: zero has no logarithm."))
    }
}

/// The curves of published figures; `None` if they are not by clients.
///
/// # Errors
/// Where a value has no logarithm.
pub fn of_published(published: &Published) -> Result<Option<Vec<Series>>, Error> {
    let mut rows: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    // A fitted curve is not fitted again.
    for figure in published.rows.iter().filter(|figure| figure.kind.is_evidence()) {
        if let Some(n) = figure.params.get(factor::CLIENTS).and_then(|n| n.parse().ok()) {
            rows.entry(&figure.variant).or_default().push((n, 0, figure.value));
        }
    }
    let curve = |(variant, rows): (&&str, &Vec<_>)| Series::new(variant, rows);
    Ok(if rows.is_empty() { None } else { Some(rows.iter().map(curve).collect::<Result<_, _>>()?) })
}

/// A task's name without its clients.
fn rest_of(task: &TaskId) -> String {
    let mut task = task.clone();
    task.forget_clients();
    task.to_string()
}

/// A variant's name without its clients.
fn variant_without(variant: &Variant) -> String {
    let clients = variant.level(factor::CLIENTS);
    let kept: Vec<&str> =
        variant.name.split('/').filter(|part| clients.is_empty() || *part != clients).collect();
    if kept.is_empty() { variant.level(factor::FS).to_string() } else { kept.join("/") }
}
