//! Levels that were varied one at a time: the difference of each to the plain variant.

use crate::document::{Detail, Document, FigureSource, Table, row, row_with_source};
use crate::figures::mean_ratio_json;
use crate::pair::{PairRow, rows_of_metric};
use crate::phrases::shorten_list;
use crate::sections::pair::{describe_difference, difference_cell};
use crate::{ratio_verdict::RatioVerdict, report::Report};
use fsarena_core::matrix::plain_variants;
use fsarena_stats::mean_ratio::ROUNDS_FOR_MEAN_RATIO;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What one level costs: the comparison of a variant with the plain variant, by one metric over all tasks.
struct LevelCost {
    /// The index of the variant with the level.
    variant: usize,
    /// The index of the plain variant, from which it differs in one level.
    plain: usize,
    row: PairRow,
}

/// The cost of each level that was varied alone, by each metric of the report, metric by metric.
fn level_costs(report: &Report) -> Vec<LevelCost> {
    let record = &report.record;
    let plain_variants = plain_variants(&record.plan, &record.variants);
    let mut costs = vec![];
    for analysis in &report.analyses {
        for (variant, plain) in plain_variants.iter().enumerate() {
            let Some(plain) = *plain else { continue };
            let mut rows = rows_of_metric(record, (plain, variant), &analysis.metric.id, report.margin).into_iter();
            if let Some(row) = rows.find(|row| row.covers_all_tasks) {
                costs.push(LevelCost { variant, plain, row });
            }
        }
    }
    costs
}

/// Adds a table with the cost of each level by each metric; in a brief report a sentence for each level by the first metric.
pub fn add_level_costs(document: &mut Document, report: &Report, detail: Detail) {
    let costs = level_costs(report);
    let Some(main_metric) = costs.first().map(|cost| cost.row.metric.id.clone()) else { return };
    let references: BTreeSet<usize> = costs.iter().map(|cost| cost.plain).collect();
    let verb = if references.len() == 1 { "is the reference" } else { "are the references" };
    let names = references.into_iter().map(|plain| report.record.variant_name(plain).into()).collect();
    let names = shorten_list(names, "variants").join(", ");
    document.heading(3, format!("Compared with the plain variant, one level at a time ({names} {verb})"));
    if detail < Detail::Full {
        let by_main_metric = costs.iter().filter(|cost| cost.row.metric.id == main_metric);
        return document.list(by_main_metric.map(|cost| cost_sentence(report, cost)).collect());
    }
    let header = ["variant", "reference", "metric", "difference", "finding"];
    let cells = |cost: &LevelCost| {
        let cells = row![
            report.record.variant_name(cost.variant),
            report.record.variant_name(cost.plain),
            cost.row.metric.id.as_str(),
            difference_cell(&cost.row, report.margin),
            describe_verdict(&cost.row, report.margin),
        ];
        row_with_source(FigureSource::new(None, [cost.variant, cost.plain]), cells)
    };
    document.table(Table::of_figures(header).with_rows(costs.iter().map(cells)));
    document.text(
        "Each variant differs from its reference in one level. Differences are those over all tasks in a typical round, \
         with 95% confidence intervals (the range of the rounds if they are fewer than 8), not corrected for their number.",
    );
}

/// A sentence about the cost of a level: `xfs, noatime: elapsed −3% [−5% to −1%] compared with xfs (costs less).`
fn cost_sentence(report: &Report, cost: &LevelCost) -> String {
    let difference = describe_difference(&cost.row, report.margin);
    let (variant, plain) = (report.record.variant_name(cost.variant), report.record.variant_name(cost.plain));
    let (metric, verdict) = (&cost.row.metric.id, describe_verdict(&cost.row, report.margin));
    format!("{variant}: {metric} {difference} compared with {plain} ({verdict}){}.", cost.row.excluded_rounds_note())
}

/// The verdict on a cost in words: `costs more`, `equivalent within 1%`.
fn describe_verdict(row: &PairRow, margin: f64) -> String {
    match row.verdict {
        RatioVerdict::Different => row.describe_effect().into(),
        RatioVerdict::Provisional => "provisional, fewer than 8 rounds".into(),
        other => other.describe(Some(row.ratio), row.metric.direction, margin),
    }
}

/// The costs as JSON: one entry for each level and metric; null where nothing was varied one level at a time.
pub fn level_costs_json(report: &Report) -> Value {
    if report.record.plan.vary.is_empty() {
        return Value::Null;
    }
    let cost_json = |cost: &LevelCost| {
        let mean_ratio = cost.row.mean_ratio.filter(|ratio| ratio.rounds >= ROUNDS_FOR_MEAN_RATIO);
        json!({
            "variant": report.record.variant_name(cost.variant),
            "reference": report.record.variant_name(cost.plain),
            "metric": cost.row.metric.id,
            "ratio": cost.row.ratio,
            "mean_ratio": mean_ratio.as_ref().map(mean_ratio_json),
            "finding": cost.row.verdict,
        })
    };
    level_costs(report).iter().map(cost_json).collect()
}
