//! The sections with the ranking of all variants, and with the number of rounds needed to decide inconclusive comparisons.

use crate::document::{Cell, Detail, Document, FigureSource, Table, row, row_with_source};
use crate::number::{percent, plural, three_digits};
use crate::phrases::{format_ratio, format_rounds_needed};
use crate::{chart_context::ChartContext, charts::differences::paired_differences, report::Report};
use fsarena_stats::power::{rounds_to_detect, spread};
use fsarena_stats::ranking::{RankedVariant, Ranking};
use fsarena_stats::ratio::Ratio;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Adds the table of the ranking if the user set weights of tasks, and in a full report also if there are more than two
/// variants.
pub fn add_ranking(document: &mut Document, report: &Report, detail: Detail) {
    let Some(ranking) = report.ranking() else { return };
    // The answer already ranks two variants with equal weights of tasks.
    if report.weights.is_empty() && (detail < Detail::Full || ranking.variants.len() <= 2) {
        return;
    }
    document.heading(3, format!("Ranking, by {}", ranking.metric));
    let header = ["variant", "to the best", "group", "rank", "without one task", "best again"];
    let rows = ranking.variants.iter().map(|ranked| variant_row(report, ranking, ranked));
    document.table(Table::of_figures(header).with_rows(rows));
    document.text(ranking_legend(ranking));
}

/// The table row of a ranked variant.
fn variant_row(report: &Report, ranking: &Ranking, ranked: &RankedVariant) -> Vec<Cell> {
    let result = &ranking.comparison.variants[ranked.variant];
    let letters = if ranking.comparison.is_provisional() { "?" } else { &result.letters };
    let ranks = match ranked.ranks {
        None => "?".to_string(),
        Some((first, last)) if first == last => first.to_string(),
        Some((first, last)) => format!("{first}–{last}"),
    };
    let range = |(low, high): (f64, f64)| format!("{}–{}", three_digits(low), three_digits(high));
    let is_best = ranking.comparison.best() == Some(ranked.variant);
    let cells = row![
        report.record.variant_name(ranked.variant),
        result.ratio.map_or(if is_best { "1.00" } else { "–" }.to_string(), format_ratio),
        letters,
        ranks,
        ranked.ratios_without_one_task.map_or("–".to_string(), range),
        ranked.probability_best.map_or("–".to_string(), percent),
    ];
    // Each row compares a variant with the best, so its figures come from both.
    let compared = std::iter::once(ranked.variant).chain(ranking.comparison.best());
    row_with_source(FigureSource::new(None, compared), cells)
}

/// Explains the columns of the ranking.
fn ranking_legend(ranking: &Ranking) -> String {
    format!(
        "The figure is the geometric mean over {} tasks, {}. Variants in the same group do not differ significantly. Ranks \
         hold for all variants at once (95%, {}). Without one task: the ratio when any single task is left out. Best \
         again: how often the variant is first when rounds are resampled.",
        ranking.weights.len(),
        describe_weights(ranking),
        plural(ranking.rounds, "complete round"),
    )
}

/// The weights of the tasks: `equal weight for every task`, `untar with weight 3 and every other task with weight 1`. The other
/// tasks are only mentioned if there are some.
fn describe_weights(ranking: &Ranking) -> String {
    if ranking.has_equal_weights() {
        return "equal weight for every task".into();
    }
    let unequal = ranking.weights.iter().filter(|(_, weight)| *weight != 1.0);
    let unequal: Vec<String> = unequal.map(|(task, weight)| format!("{task} with weight {weight}")).collect();
    let has_others = unequal.len() < ranking.weights.len();
    let others = if has_others { " and every other task with weight 1" } else { "" };
    format!("{}{others}", unequal.join(", "))
}

/// The ranking as JSON; null if the run cannot rank its variants.
pub fn ranking_json(report: &Report) -> Value {
    let Some(ranking) = report.ranking() else { return Value::Null };
    let variant = |ranked: &RankedVariant| {
        let result = &ranking.comparison.variants[ranked.variant];
        json!({
            "variant": report.record.variant_name(ranked.variant),
            "ratio_to_best": result.ratio,
            "groups": result.letters,
            "ranks": ranked.ranks.map(|(first, last)| json!({"first": first, "last": last})),
            "without_one_task": ranked.ratios_without_one_task.map(|(low, high)| json!({"low": low, "high": high})),
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
    let mut inconclusive = vec![];
    for paired in paired_differences(&ChartContext::new(report)) {
        if let Some(ratio) = Ratio::from_log_ratios(paired.log_ratios.clone()).filter(|ratio| !ratio.is_significant()) {
            inconclusive.push((ratio, paired));
        }
    }
    if inconclusive.is_empty() {
        return;
    }
    let so_far_header = if inconclusive.iter().any(|(ratio, _)| ratio.provisional) {
        "so far, range of the rounds if fewer than 8, else 95% interval"
    } else {
        "so far, 95% interval"
    };
    let rows = inconclusive.into_iter().map(|(ratio, paired)| {
        let [sigma, rounds] = spread_and_rounds(&paired.log_ratios, report.margin);
        let cells = row![paired.label, format_ratio(ratio), sigma, rounds];
        row_with_source(paired.source, cells)
    });
    document.heading(3, "Rounds that inconclusive comparisons need");
    let header = ["inconclusive", so_far_header, "spread of a round", &format!("rounds that find {margin}")];
    document.table(Table::of_figures(header).with_rows(rows));
    document.text(format!(
        "With the spread so far, that number of rounds finds a difference of {margin}, the margin of this run, in four of \
         five runs."
    ));
}

/// The spread of a round, and the number of rounds that finds a difference as large as the margin, in words. A spread of zero
/// only shows that the values are too coarse, so it gives no number of rounds.
fn spread_and_rounds(log_ratios: &[f64], margin: f64) -> [String; 2] {
    match spread(log_ratios) {
        None => ["–".into(), "requires 3 rounds".into()],
        Some(sigma) if sigma > 0.0 => [percent(sigma), format_rounds_needed(rounds_to_detect(sigma, margin))],
        Some(_) => ["–".into(), "–".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Direction;
    use fsarena_stats::comparison::compare;

    #[test]
    fn equal_values_give_no_number_of_rounds() {
        assert_eq!(spread_and_rounds(&[0.0; 8], 0.01), ["–", "–"]);
        assert_eq!(spread_and_rounds(&[0.1, 0.2], 0.01), ["–", "requires 3 rounds"]);
    }

    #[test]
    fn the_weights_mention_other_tasks_only_if_there_are_some() {
        let describe = |weights: &[(&str, f64)]| {
            describe_weights(&Ranking {
                metric: "elapsed".into(),
                direction: Direction::Lower,
                weights: weights.iter().map(|(task, weight)| (task.to_string(), *weight)).collect(),
                comparison: compare(&[vec![1.0], vec![2.0]], Direction::Lower),
                variants: vec![],
                rounds: 1,
            })
        };
        assert_eq!(describe(&[("cp", 2.0), ("rm", 2.0)]), "equal weight for every task");
        assert_eq!(describe(&[("cp", 3.0), ("rm", 1.0)]), "cp with weight 3 and every other task with weight 1");
        assert_eq!(describe(&[("cp", 3.0), ("rm", 2.0)]), "cp with weight 3, rm with weight 2");
    }
}
