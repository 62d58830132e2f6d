//! The sections with the ranking of all variants, and with the number of rounds needed to decide inconclusive comparisons.

use crate::document::{Cell, Detail, Document, Source, Table, row, row_with_source};
use crate::number::{percent, plural, three};
use crate::words::{ratio_with_interval, rounds_needed};
use crate::{chart_context::ChartContext, charts::differences::paired_differences, report::Report};
use fsarena_stats::power::{rounds_for, spread};
use fsarena_stats::ranking::{Ranked, Ranking};
use fsarena_stats::ratio::Ratio;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Adds the table if the user set weights of tasks, and in a full report also if there are more than two variants.
pub fn add_ranking(document: &mut Document, report: &Report, detail: Detail) {
    let Some(ranking) = report.ranking() else { return };
    // The answer already ranks two variants with equal weights of tasks.
    if report.weights.is_empty() && (detail < Detail::Full || ranking.variants.len() <= 2) {
        return;
    }
    document.heading(3, format!("Ranking, by {}", ranking.metric));
    let header = ["variant", "to the best", "group", "rank", "without one task", "best again"];
    let rows = ranking.variants.iter().map(|ranked| variant_row(report, ranking, ranked));
    document.table(Table::figures(header).with(rows));
    document.text(ranking_legend(ranking));
}

/// The table row of a ranked variant.
fn variant_row(report: &Report, ranking: &Ranking, ranked: &Ranked) -> Vec<Cell> {
    let result = &ranking.comparison.variants[ranked.variant];
    let letters = if ranking.comparison.provisional() { "?" } else { &result.letters };
    let ranks = match ranked.ranks {
        None => "?".to_string(),
        Some((first, last)) if first == last => first.to_string(),
        Some((first, last)) => format!("{first}–{last}"),
    };
    let range = |(low, high): (f64, f64)| format!("{}–{}", three(low), three(high));
    let cells = row![
        report.record.name(ranked.variant),
        result.ratio.map_or("1.00".to_string(), ratio_with_interval),
        letters,
        ranks,
        ranked.without_one.map_or("–".to_string(), range),
        ranked.probability_best.map_or("–".to_string(), percent),
    ];
    // Each row compares a variant with the best, so its figures come from both.
    let both = std::iter::once(ranked.variant).chain(ranking.comparison.best());
    row_with_source(Source::new(None, both), cells)
}

/// Explains the columns of the ranking.
fn ranking_legend(ranking: &Ranking) -> String {
    format!(
        "The figure is the geometric mean over {} tasks, {}. Variants in the same group do not differ significantly. Ranks \
         hold for all variants at once (95%, {}). Without one task: the ratio when any single task is left out. Best \
         again: how often the variant is first when rounds are resampled.",
        ranking.weights.len(),
        weights_words(ranking),
        plural(ranking.rounds, "complete round"),
    )
}

/// The weights of the tasks: `equal weight for every task`, `untar with weight 3 and every other task with weight 1`.
fn weights_words(ranking: &Ranking) -> String {
    if ranking.even() {
        return "equal weight for every task".into();
    }
    let special = ranking.weights.iter().filter(|(_, weight)| *weight != 1.0);
    let special: Vec<String> = special.map(|(task, weight)| format!("{task} with weight {weight}")).collect();
    format!("{} and every other task with weight 1", special.join(", "))
}

/// The ranking as JSON; null if the run cannot rank its variants.
pub fn ranking_json(report: &Report) -> Value {
    let Some(ranking) = report.ranking() else { return Value::Null };
    let variant = |ranked: &Ranked| {
        let result = &ranking.comparison.variants[ranked.variant];
        json!({
            "variant": report.record.name(ranked.variant),
            "ratio_to_best": result.ratio,
            "groups": result.letters,
            "ranks": ranked.ranks.map(|(first, last)| json!({"first": first, "last": last})),
            "without_one_task": ranked.without_one.map(|(low, high)| json!({"low": low, "high": high})),
            "probability_best": ranked.probability_best,
        })
    };
    json!({
        "metric": ranking.metric,
        "weights": ranking.weights.iter().cloned().collect::<BTreeMap<_, _>>(),
        "rounds": ranking.rounds,
        "variants": ranking.variants.iter().map(variant).collect::<Vec<_>>(),
    })
}

/// Adds a table of the inconclusive comparisons, with the number of rounds that would find a difference as large as the margin.
pub fn add_rounds_needed(document: &mut Document, report: &Report, _: Detail) {
    let margin = percent(report.margin);
    let mut open = vec![];
    for series in paired_differences(&ChartContext::new(report)) {
        if let Some(ratio) = Ratio::of(series.log_ratios.clone()).filter(|ratio| !ratio.separated()) {
            open.push((ratio, series));
        }
    }
    if open.is_empty() {
        return;
    }
    let so_far = if open.iter().any(|(ratio, _)| ratio.provisional) {
        "so far, range of the rounds if fewer than 8, else 95% interval"
    } else {
        "so far, 95% interval"
    };
    let rows = open.into_iter().map(|(ratio, series)| {
        let sigma = spread(&series.log_ratios).filter(|sigma| *sigma > 0.0);
        let needed = |sigma| rounds_needed(rounds_for(sigma, report.margin));
        let rounds = sigma.map_or("requires 3 rounds".to_string(), needed);
        let cells = row![series.label, ratio_with_interval(ratio), sigma.map_or("–".into(), percent), rounds];
        row_with_source(series.source, cells)
    });
    document.heading(3, "Rounds that inconclusive comparisons need");
    let header = ["inconclusive", so_far, "spread of a round", &format!("rounds that find {margin}")];
    document.table(Table::figures(header).with(rows));
    document.text(format!(
        "With the spread so far, that number of rounds finds a difference of {margin}, the margin of this run, in four of \
         five runs."
    ));
}
