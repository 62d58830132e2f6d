//! The ranking of all variants.

use crate::document::{Cell, Source, Table, made_of, row};
use crate::number::{percent, plural, three};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::interval;
use fsarena_stats::ranking::{Ranked, Ranking};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The ranking of all variants.
pub const SECTION: Section = Section::new(Chapter::Data, add);

/// The table, where there are more than two variants or the user weighs tasks; in brief only in the latter case.
fn add(document: &mut Document, report: &Report, detail: Detail) {
    let weighed = !report.weights.is_empty();
    // Of two variants whose tasks weigh the same the answer says it all.
    let told = |ranking: &&Ranking| weighed || (detail >= Detail::Full && ranking.variants.len() > 2);
    let Some(ranking) = report.ranking().filter(told) else { return };
    document.heading(3, format!("Ranking, by {}", ranking.metric));
    let header = ["variant", "to the best", "group", "rank", "without one task", "best again"];
    let rows = ranking.variants.iter().map(|ranked| row(report, ranking, ranked));
    document.table(Table::figures(header).with(rows));
    document.text(legend(ranking));
}

fn row(report: &Report, ranking: &Ranking, ranked: &Ranked) -> Vec<Cell> {
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
        result.ratio.map_or("1.00".to_string(), interval),
        letters,
        ranks,
        ranked.without_one.map_or("–".to_string(), range),
        ranked.probability_best.map_or("–".to_string(), percent),
    ];
    // Each row compares a variant with the best, so its figures come from both.
    let both = std::iter::once(ranked.variant).chain(ranking.comparison.best());
    made_of(Source::of(None, both), cells)
}

fn legend(ranking: &Ranking) -> String {
    format!(
        "The figure is the geometric mean over {} tasks, {}. Variants in the same group do not differ significantly. Ranks \
         hold for all variants at once (95%, {}). Without one task: the ratio when any single task is left out. Best \
         again: how often the variant is first when rounds are resampled.",
        ranking.weights.len(),
        weighing(ranking),
        plural(ranking.rounds, "complete round"),
    )
}

/// `equal weight for every task`, `untar with weight 3 and every other task with weight 1`.
fn weighing(ranking: &Ranking) -> String {
    if ranking.even() {
        return "equal weight for every task".into();
    }
    let special = ranking.weights.iter().filter(|(_, weight)| *weight != 1.0);
    let special: Vec<String> = special.map(|(task, weight)| format!("{task} with weight {weight}")).collect();
    format!("{} and every other task with weight 1", special.join(", "))
}

/// For programs; null where nothing is ranked.
pub fn json(report: &Report) -> Value {
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
