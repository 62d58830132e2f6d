//! Two runs side by side.

use super::order::{self, Order, Orders};
use crate::document::{Cell, Document, Part, Table};
use crate::error::Error;
use crate::exporters::ratio_json;
use crate::number::{self, three};
use crate::page::Page;
use crate::sections::label;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::composite;
use fsarena_stats::grid::{dropped, grid};
use fsarena_stats::ratio::Ratio;
use fsarena_stats::shift;
use serde_json::{Value, json};

/// What is compared on one task: b over a for each common arm, and the two orders.
struct Task<'a> {
    title: String,
    ratios: Vec<Option<Ratio>>,
    orders: Option<Orders<'a>>,
}

/// One run with its analysis and its values.
struct Side<'a> {
    record: &'a RunRecord,
    analysis: Analysis,
    /// `values[step][arm][block]`, by the steps of the record.
    values: Vec<Vec<Vec<f64>>>,
}

/// Compares run `b` with run `a`, arm by arm and task by task: the ratio b/a, estimated from two
/// independent samples (see [`fsarena_stats::shift`]), and where the order of the arms changed.
///
/// # Errors
/// Where a run does not know the metric, or the runs have no arm or no step in common.
pub fn compare_runs(a: &RunRecord, b: &RunRecord, metric: &str) -> Result<Page, Error> {
    comparable(a, b)?;
    let nothing = |what| Error::NothingInCommon { a: a.id.clone(), b: b.id.clone(), what };
    let (a, b) = (side(a, metric)?, side(b, metric)?);
    let arms: Vec<(usize, usize)> = common(&a.record.arms, &b.record.arms, |arm| &arm.name);
    if arms.is_empty() {
        return Err(nothing("arm"));
    }
    let steps: Vec<(usize, usize)> = common(&a.record.steps, &b.record.steps, |step| &step.id);
    let mut tasks: Vec<Task> = steps.iter().filter_map(|(i, j)| task(&a, &b, &arms, *i, *j)).collect();
    if tasks.is_empty() {
        return Err(nothing("step"));
    }
    tasks.extend(total(&a, &b, &arms, &steps));
    Ok(page(&a, &b, &arms, &tasks))
}

/// Figures of one executor only, and of one that can rank.
fn comparable(a: &RunRecord, b: &RunRecord) -> Result<(), Error> {
    let [in_a, in_b] = [a, b].map(|record| record.plan.device.backing.executor());
    if in_a != in_b {
        return Err(Error::Executors { a: a.id.clone(), in_a, b: b.id.clone(), in_b });
    }
    super::ranks(a)
}

fn side<'a>(record: &'a RunRecord, metric: &str) -> Result<Side<'a>, Error> {
    let analysis = analyse(record, metric)?;
    let rows = record.metric(metric).map_or(vec![], |(_, rows)| rows);
    Ok(Side { record, analysis, values: grid(record, &rows, &dropped(record)).values })
}

/// Where the same key is in both lists.
fn common<T, K: PartialEq>(a: &[T], b: &[T], key: impl Fn(&T) -> &K) -> Vec<(usize, usize)> {
    a.iter().enumerate().filter_map(|(i, x)| Some((i, b.iter().position(|y| key(y) == key(x))?))).collect()
}

fn task<'a>(a: &'a Side, b: &'a Side, arms: &[(usize, usize)], i: usize, j: usize) -> Option<Task<'a>> {
    let ratios = ratios(&a.values[i], &b.values[j], arms);
    let info = &a.record.steps[i];
    let of = |side: &'a Side| {
        side.analysis.steps.iter().find(|step| step.step.id == info.id).map(|step| &step.comparison)
    };
    let orders = orders(a.record, of(a)?, of(b)?, arms);
    ratios.iter().any(Option::is_some).then(|| Task { title: label(info), ratios, orders })
}

/// The sum over the composite's tasks that are in both.
fn total<'a>(
    a: &'a Side,
    b: &'a Side,
    arms: &[(usize, usize)],
    steps: &[(usize, usize)],
) -> Option<Task<'a>> {
    let has_data = |values: &[Vec<f64>]| values.iter().flatten().any(|value| !value.is_nan());
    let steps: Vec<_> = steps
        .iter()
        .filter(|(i, j)| {
            a.record.steps[*i].in_composite && has_data(&a.values[*i]) && has_data(&b.values[*j])
        })
        .collect();
    let (overall_a, overall_b) = (a.analysis.overall.as_ref()?, b.analysis.overall.as_ref()?);
    overall_a.total.as_ref()?;
    let sum = |values: Vec<&Vec<Vec<f64>>>| composite::sums(&values);
    let first = sum(steps.iter().map(|(i, _)| &a.values[*i]).collect());
    let second = sum(steps.iter().map(|(_, j)| &b.values[*j]).collect());
    if first.is_empty() {
        return None;
    }
    // The orders are those of each run's own total; they speak of the same work only if it has the same tasks.
    let same = overall_a.steps == steps.len() && overall_b.steps == steps.len();
    let orders =
        orders(a.record, &overall_a.main().comparison, &overall_b.main().comparison, arms).filter(|_| same);
    Some(Task {
        title: format!("TOTAL of {} tasks", steps.len()),
        ratios: ratios(&first, &second, arms),
        orders,
    })
}

fn ratios(a: &[Vec<f64>], b: &[Vec<f64>], arms: &[(usize, usize)]) -> Vec<Option<Ratio>> {
    arms.iter().map(|(i, j)| shift::ratio(&a[*i], &b[*j])).collect()
}

fn orders<'a>(
    record: &'a RunRecord,
    a: &'a Comparison,
    b: &'a Comparison,
    arms: &[(usize, usize)],
) -> Option<Orders<'a>> {
    let arms: Vec<(usize, usize)> =
        arms.iter().copied().filter(|(i, j)| a.order.contains(i) && b.order.contains(j)).collect();
    let (first, second): (Vec<usize>, Vec<usize>) = arms.iter().copied().unzip();
    (arms.len() > 1).then_some(())?;
    Some(Orders {
        names: first.iter().map(|arm| record.arms[*arm].name.as_str()).collect(),
        then: Order::of_arms(a, &first)?,
        here: Order::of_arms(b, &second)?,
    })
}

fn page(a: &Side, b: &Side, arms: &[(usize, usize)], tasks: &[Task]) -> Page {
    let metric = &a.analysis.metric;
    let names: Vec<&str> = arms.iter().map(|(arm, _)| a.record.arms[*arm].name.as_str()).collect();
    let provisional =
        tasks.iter().flat_map(|task| task.ratios.iter().flatten()).any(|ratio| ratio.provisional);
    let mut document = Document::default();
    document.heading(1, format!("run {} beside run {}, by {}", b.record.id, a.record.id, metric.id));
    document.text(
        "These are different runs: no block pairs their values, so whatever else changed between them (load, \
         temperature, free space) is in these ratios, and the intervals know only the spread inside each run. To \
         compare two settings with certainty, make them arms of one run.",
    );
    document.list(differences(a.record, b.record));
    if provisional {
        document
            .parts
            .push(Part::Loud("PROVISIONAL where marked ?: fewer than 8 blocks on one side.".into()));
    }
    document.heading(2, format!("{} in {} over {} in {}", metric.id, b.record.id, metric.id, a.record.id));
    document.table(ratio_table(&names, tasks));
    document.text(
        "Ratio (Hodges–Lehmann, two samples) over its 95% Mann–Whitney interval, for each arm and task, not \
         corrected for their number. * marks those that exclude 1.",
    );
    document.heading(2, "Order of the arms");
    let orders = tasks.iter().filter_map(|task| Some((task.title.as_str(), task.orders.as_ref()?)));
    document.table(order::table([&a.record.id, &b.record.id].map(|id| format!("first in {id}")), orders));
    document.text(order::LEGEND);
    Page { document, json: as_json(a.record, b.record, metric, &names, tasks) }
}

/// What differs between the runs besides the time.
fn differences(a: &RunRecord, b: &RunRecord) -> Vec<String> {
    let mut items = Vec::new();
    let mut differ = |what: &str, x: String, y: String| {
        if x != y {
            items.push(format!("{what} differs: {x} in {}, {y} in {}", a.id, b.id));
        }
    };
    let of = |record: &RunRecord, fact: fn(&fsarena_core::host::Host) -> &String| {
        record.hosts.iter().map(fact).cloned().collect::<Vec<_>>().join(", ")
    };
    differ("The scale of the work", a.plan.scale.name().into(), b.plan.scale.name().into());
    differ("The machine", of(a, |host| &host.hostname), of(b, |host| &host.hostname));
    differ("The kernel", of(a, |host| &host.kernel), of(b, |host| &host.kernel));
    differ(
        "What carries the filesystems",
        crate::sections::head::backing(&a.plan.device.backing),
        crate::sections::head::backing(&b.plan.device.backing),
    );
    if a.plan.workloads != b.plan.workloads {
        items.push("The settings of the workload differ: the work is not the same.".into());
    }
    items
}

fn ratio_table(names: &[&str], tasks: &[Task]) -> Table {
    let mut table = Table::figures(vec!["task".into()]);
    table.header.extend(names.iter().map(|name| name.to_string()));
    for task in tasks {
        let mut row: Vec<Cell> = vec![task.title.as_str().into()];
        row.extend(task.ratios.iter().map(|ratio| ratio.as_ref().map_or("–".into(), ratio_cell)));
        table.rows.push(row);
    }
    table
}

fn ratio_cell(ratio: &Ratio) -> Cell {
    let mark = if ratio.provisional {
        " ?"
    } else if ratio.separated() {
        " *"
    } else {
        ""
    };
    Cell::two(format!("{}{mark}", three(ratio.value)), number::interval(ratio.low, ratio.high))
}

fn as_json(a: &RunRecord, b: &RunRecord, metric: &MetricInfo, names: &[&str], tasks: &[Task]) -> Value {
    let task = |task: &Task| {
        let ratios: serde_json::Map<String, Value> = names
            .iter()
            .zip(&task.ratios)
            .map(|(name, ratio)| (name.to_string(), ratio.as_ref().map_or(Value::Null, ratio_json)))
            .collect();
        json!({"task": task.title, "ratio_b_to_a": ratios, "order": task.orders.as_ref().map(Orders::json)})
    };
    json!({
        "a": a.id,
        "b": b.id,
        "metric": metric,
        "paired": false,
        "differences": differences(a, b),
        "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
    })
}
