//! Two arms, B against A: by each metric the difference, and which metric answers cheapest.

use crate::difference::{Finding, percent};
use crate::document::source::{self, Source};
use crate::document::{Cell, Document, Table};
use crate::exporters::ratio_json;
use crate::number::{plural, three};
use crate::report::Report;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_stats::analyse::analyse;
use fsarena_stats::comparison::median;
use fsarena_stats::grid::{dropped, grid};
use fsarena_stats::pairs::log_ratios;
use fsarena_stats::power::{blocks_for, spread};
use fsarena_stats::ratio::Ratio;
use fsarena_stats::sequential::Centre;
use fsarena_stats::weights;
use serde_json::{Value, json};

/// What is looked at besides the metrics that were asked for: the CPU's part is often the quietest.
const COSTS: [&str; 2] = ["system", "total_cpu"];
/// Tasks that are listed one by one; of more, only all together.
const FEW: usize = 4;

/// One metric of one task, or of all.
struct Row {
    task: String,
    metric: MetricInfo,
    ratio: Ratio,
    finding: Finding,
    /// The spread of d. None under three blocks.
    sigma: Option<f64>,
    /// Blocks that find the margin in four of five runs. None where 400 do not.
    blocks: Option<usize>,
}

/// The table, where the run has two arms.
pub fn add(document: &mut Document, report: &Report) {
    let rows = rows(report);
    let [a, b] = report.record.arms.as_slice() else { return };
    if rows.is_empty() {
        return;
    }
    document.heading(2, format!("B, {}, against A, {}", b.name, a.name));
    let margin = percent(report.margin);
    let blocks = format!("blocks for {margin}");
    let header = ["what", "B − A", "verdict", "σ", &blocks];
    let mut table = Table::figures(header.map(String::from).to_vec());
    let cheapest = cheapest(&rows);
    let cells = |(at, row): (usize, &Row)| {
        source::row(made_of(&report.record, row).as_ref(), cells(row, report.margin, cheapest == Some(at)))
    };
    table.rows = rows.iter().enumerate().map(cells).collect();
    document.table(table);
    let intervals = match rows.iter().any(|row| row.ratio.provisional) {
        true => "the extremes seen where there are under 8 blocks, else 95% intervals",
        false => "their 95% intervals",
    };
    document.text(format!(
        "Differences are those of B over A, within blocks, with {intervals}. σ is the spread of the log ratio \
         within blocks; with it a difference of {margin} is found in four of five runs of so many blocks. {}",
        cheapest.map_or(String::new(), |at| answer(&rows[at]))
    ));
}

/// Both arms, B first, in the task of the row or in all of them.
fn made_of(record: &RunRecord, row: &Row) -> Option<Source> {
    Source::of(record.steps.iter().position(|step| step.id.to_string() == row.task), [1, 0])
}

fn answer(row: &Row) -> String {
    let blocks = row.blocks.map_or(String::new(), |blocks| format!(": {}", plural(blocks, "block")));
    format!("Cheapest to ask: {} of {}{blocks}.", row.metric.id, row.task)
}

/// The row with the least spread that is not nothing: a spread of 0 is the resolution of a clock.
fn cheapest(rows: &[Row]) -> Option<usize> {
    let spreads = rows.iter().enumerate().filter_map(|(at, row)| Some((row.sigma.filter(|s| *s > 0.0)?, at)));
    spreads.min_by(|x, y| x.0.total_cmp(&y.0)).map(|(_, at)| at).filter(|_| rows.len() > 1)
}

/// A ratio as a difference: `+2.5%`.
fn signed(ratio: f64) -> String {
    format!("{}{}%", if ratio > 1.0 { "+" } else { "" }, three(100.0 * (ratio - 1.0)))
}

fn cells(row: &Row, margin: f64, cheapest: bool) -> Vec<Cell> {
    let blocks = match (row.sigma, row.blocks) {
        (None, _) => "–".to_string(),
        (_, None) => "over 400".to_string(),
        (_, Some(blocks)) => blocks.to_string(),
    };
    let sigma = Cell::from(row.sigma.map_or("–".to_string(), |sigma| format!("{}%", three(100.0 * sigma))));
    vec![
        format!("{} {}", row.task, row.metric.id).into(),
        Cell::two(
            signed(row.ratio.value),
            format!("{} to {}", signed(row.ratio.low), signed(row.ratio.high)),
        ),
        row.finding.words(Some(row.ratio), row.metric.direction, margin).into(),
        if cheapest { sigma.strong() } else { sigma },
        blocks.into(),
    ]
}

/// The same for programs; null where there are not two arms.
pub fn json(report: &Report) -> Value {
    let [a, b] = report.record.arms.as_slice() else { return Value::Null };
    let row = |row: &Row| {
        json!({
            "task": row.task,
            "metric": row.metric.id,
            "ratio_b_to_a": ratio_json(&row.ratio),
            "verdict": row.finding.id(),
            "sigma_of_log_ratio": row.sigma,
            "blocks_for_margin": row.blocks,
        })
    };
    json!({
        "a": a.name,
        "b": b.name,
        "margin": report.margin,
        "rows": rows(report).iter().map(row).collect::<Vec<_>>(),
    })
}

fn rows(report: &Report) -> Vec<Row> {
    if report.record.arms.len() != 2 || !report.ranks() {
        return vec![];
    }
    let asked = report.analyses.iter().map(|analysis| analysis.metric.id.as_str());
    let mut ids: Vec<&str> = asked.collect();
    let costs = COSTS.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>();
    ids.extend(costs);
    let by_metric: Vec<Vec<Row>> =
        ids.into_iter().map(|id| of_metric(&report.record, id, report.margin)).collect();
    // Task by task: that is how a question is asked.
    let most = by_metric.iter().map(Vec::len).max().unwrap_or(0);
    let mut columns: Vec<_> = by_metric.into_iter().map(Vec::into_iter).collect();
    (0..most).flat_map(|_| columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

fn of_metric(record: &RunRecord, id: &str, margin: f64) -> Vec<Row> {
    let Some((metric, values)) = record.metric(id) else { return vec![] };
    let grid = grid(record, &values, &dropped(record));
    let tasks: Vec<(String, &Vec<Vec<f64>>)> = record
        .steps
        .iter()
        .zip(&grid.values)
        .filter(|(step, values)| {
            step.in_composite && values.iter().all(|arm| arm.iter().any(|v| !v.is_nan()))
        })
        .map(|(step, values)| (step.id.to_string(), values))
        .collect();
    let one = |task: String, d: Vec<f64>| row(task, &metric, d, margin);
    let mut rows = Vec::new();
    if tasks.len() > 1 {
        let overall_of = analyse(record, id).ok().and_then(|analysis| analysis.overall);
        let adds_up = overall_of.is_some_and(|overall| overall.total.is_some());
        rows.extend(one(format!("ALL {} tasks", tasks.len()), overall(&tasks, adds_up)));
    }
    if tasks.len() <= FEW {
        rows.extend(
            tasks.iter().filter_map(|(task, values)| one(task.clone(), log_ratios(&values[0], &values[1]).d)),
        );
    }
    rows
}

/// The log ratio of all tasks together: of their sum where that means anything, else their mean log ratio.
fn overall(tasks: &[(String, &Vec<Vec<f64>>)], adds_up: bool) -> Vec<f64> {
    let values: Vec<&Vec<Vec<f64>>> = tasks.iter().map(|(_, values)| *values).collect();
    if adds_up {
        let sums = fsarena_stats::composite::sums(&values);
        return log_ratios(&sums[0], &sums[1]).d;
    }
    let log = |values: &&Vec<Vec<f64>>| -> Vec<f64> {
        values[0].iter().zip(&values[1]).map(|(a, b)| (b / a).ln()).collect()
    };
    let d: Vec<Vec<f64>> = values.iter().map(log).collect();
    weights::composite(&d, &vec![1.0; d.len()]).into_iter().filter(|d| d.is_finite()).collect()
}

fn row(task: String, metric: &MetricInfo, d: Vec<f64>, margin: f64) -> Option<Row> {
    let narrow = Centre::of(&d)?.narrow;
    // A clock that mostly sees no difference at all has no spread to plan with.
    let sigma = spread(&d).filter(|_| median(&d.iter().map(|d| d.abs()).collect::<Vec<_>>()) != Some(0.0));
    let ratio = Ratio::of(d)?;
    Some(Row {
        task,
        metric: metric.clone(),
        ratio,
        finding: Finding::of(Some(ratio), Some(narrow), margin),
        sigma,
        blocks: sigma.and_then(|sigma| blocks_for(sigma, margin)),
    })
}
