//! From samples and published figures to curves of throughput over clients.

use crate::failure::Failure;
use fsarena_core::cell::{Arm, StepId};
use fsarena_core::exit::ExitCode;
use fsarena_core::factor;
use fsarena_core::published::Published;
use fsarena_core::record::RunRecord;
use fsarena_stats::grid;
use fsarena_stats::scaling::series::{Row, Series};
use std::collections::BTreeMap;

/// What is looked at where nobody says, the first that the run has.
const METRICS: [&str; 2] = ["throughput", "iops"];
/// The parameters of a step that are a number of clients.
const CLIENTS: [&str; 2] = [factor::CLIENTS, "threads"];

/// Whether a run varies its number of clients: then its curves say more than a matrix.
pub fn by_clients(record: &RunRecord) -> bool {
    let of_step = record.steps.iter().any(|step| step.id.params.contains_key(factor::CLIENTS));
    of_step || record.arms.iter().any(|arm| !arm.level(factor::CLIENTS).is_empty())
}

/// The curves that a run measured: one for each arm and step, over their numbers of clients.
pub fn of_run(record: &RunRecord, metric: Option<&str>) -> Result<Vec<Series>, Failure> {
    let asked: Vec<&str> = metric.map_or(METRICS.to_vec(), |metric| vec![metric]);
    let has = |name: &&str| record.metric(name).filter(|(_, values)| values.iter().any(|v| !v.is_nan()));
    let Some((_, values)) = asked.iter().find_map(has) else {
        return Err(no_curve(&format!("run {} has no {}", record.id, asked.join(" or "))));
    };
    let dropped = grid::dropped(record);
    let steps: Vec<String> = record.steps.iter().map(|step| rest_of(&step.id)).collect();
    let mut rows: BTreeMap<(String, String), Vec<Row>> = BTreeMap::new();
    for (sample, value) in values.into_iter().enumerate() {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let at = record.samples.step[sample] as usize;
        let arm = &record.arms[cell.arm];
        let Some(n) = clients(arm, &record.steps[at].id) else { continue };
        if !value.is_nan() && !dropped.contains(&cell.block) {
            rows.entry((arm_without(arm), steps[at].clone())).or_default().push((n, cell.block, value));
        }
    }
    let several = rows.keys().map(|(_, step)| step).collect::<std::collections::BTreeSet<_>>().len() > 1;
    let name = |(arm, step): &(String, String)| if several { format!("{arm} {step}") } else { arm.clone() };
    let curves: Result<Vec<Series>, _> =
        rows.iter().map(|(key, rows)| Series::new(&name(key), rows)).collect();
    match curves? {
        curves if curves.is_empty() => {
            Err(no_curve(&format!("run {} varies no clients or threads", record.id)))
        }
        curves => Ok(curves),
    }
}

/// The curves of published figures; none where they are not by clients.
pub fn of_published(published: &Published) -> Result<Option<Vec<Series>>, Failure> {
    let mut rows: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for figure in &published.rows {
        if let Some(n) = figure.params.get(factor::CLIENTS).and_then(|n| n.parse().ok()) {
            rows.entry(&figure.arm).or_default().push((n, 0, figure.value));
        }
    }
    let curve = |(arm, rows): (&&str, &Vec<_>)| Series::new(arm, rows);
    Ok(if rows.is_empty() { None } else { Some(rows.iter().map(curve).collect::<Result<_, _>>()?) })
}

/// The number of clients of a sample: of its step, or of its arm.
fn clients(arm: &Arm, step: &StepId) -> Option<f64> {
    let of_step = CLIENTS.iter().find_map(|name| step.params.get(*name));
    of_step.map_or(arm.level(factor::CLIENTS), String::as_str).parse().ok()
}

/// What is left of a step's name without its clients.
fn rest_of(step: &StepId) -> String {
    let mut step = step.clone();
    CLIENTS.iter().for_each(|name| drop(step.params.remove(*name)));
    step.to_string()
}

/// What is left of an arm's name without its clients.
fn arm_without(arm: &Arm) -> String {
    let clients = arm.level(factor::CLIENTS);
    let kept: Vec<&str> = arm.name.split('/').filter(|part| clients.is_empty() || *part != clients).collect();
    if kept.is_empty() { arm.level(factor::FS).to_string() } else { kept.join("/") }
}

fn no_curve(why: &str) -> Failure {
    let message = format!("{why}: a curve is throughput by number of clients, as a run of gus3 measures it");
    Failure::new(ExitCode::Usage, message)
}
