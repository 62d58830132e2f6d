//! The ranking of all variants, and a recommendation where the data can carry one.

use super::either;
use crate::document::source::{self, Source};
use crate::document::{Cell, Document, Table};
use crate::exporters::ratio_json;
use crate::number::{plural, three};
use crate::ranking::{Ranked, Ranking};
use crate::report::Report;
use crate::sections::answer::interval;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::table::FIRST_LOOK;
use serde_json::{Value, json};

/// The table, where there are more than two variants or the user weighs tasks.
pub fn add(document: &mut Document, report: &Report, ranking: Option<&Ranking>) {
    let Some(ranking) = ranking.filter(|ranking| is_worth_a_word(report, ranking)) else { return };
    document.heading(2, format!("Ranking, by {}", ranking.metric));
    let header = ["variant", "to the best", "letters", "rank", "without one task", "best again"];
    let mut table = Table::figures(header.map(String::from).to_vec());
    table.rows = ranking.variants.iter().map(|ranked| row(report, ranking, ranked)).collect();
    document.table(table);
    document.text(legend(ranking));
    document.list(vec![recommendation(report, ranking)]);
}

/// The recommendation alone.
pub fn add_recommendation(document: &mut Document, report: &Report, ranking: Option<&Ranking>) {
    document.list(ranking.map(|ranking| recommendation(report, ranking)).into_iter().collect());
}

/// Of two variants whose tasks weigh the same the answer says it all.
fn is_worth_a_word(report: &Report, ranking: &Ranking) -> bool {
    ranking.variants.len() > 2 || !report.weights.is_empty()
}

fn row(report: &Report, ranking: &Ranking, ranked: &Ranked) -> Vec<Cell> {
    let result = &ranking.comparison.variants[ranked.variant];
    let name = report.record.variants[ranked.variant].name.as_str();
    let letters = if ranking.comparison.provisional() { "?" } else { &result.letters };
    let ranks = match ranked.ranks {
        None => "?".to_string(),
        Some((first, last)) if first == last => first.to_string(),
        Some((first, last)) => format!("{first}–{last}"),
    };
    let range = |(low, high): (f64, f64)| format!("{}–{}", three(low), three(high));
    let cells = vec![
        name.into(),
        result.ratio.map_or("1.00".to_string(), interval).into(),
        letters.into(),
        ranks.into(),
        ranked.without_one.map_or("–".to_string(), range).into(),
        ranked.probability_best.map_or("–".to_string(), |p| format!("{}%", three(100.0 * p))).into(),
    ];
    // What is said of a variant is said of it beside the best.
    let made_of = Source::of(None, std::iter::once(ranked.variant).chain(ranking.comparison.best()));
    source::row(made_of.as_ref(), cells)
}

/// `every task weighing the same`, `untar weighing 3, the others 1`.
fn weighing(ranking: &Ranking) -> String {
    if ranking.even() {
        return "every task weighing the same".into();
    }
    let special = ranking.weights.iter().filter(|(_, weight)| *weight != 1.0);
    let special: Vec<String> = special.map(|(task, weight)| format!("{task} weighing {weight}")).collect();
    format!("{} and every other task 1", special.join(", "))
}

fn legend(ranking: &Ranking) -> String {
    format!(
        "The composite is the geometric mean over {} tasks, {}. Ranks hold for all variants at once (95%, {}). \
         Without one task: the ratio when any single task is left out. Best again: how often the variant is first \
         in rounds drawn again from these; it says nothing of how much is gained.",
        ranking.weights.len(),
        weighing(ranking),
        plural(ranking.rounds, "whole round"),
    )
}

/// What to take, or why nothing is recommended.
pub fn recommendation(report: &Report, ranking: &Ranking) -> String {
    let name = |variant: usize| report.record.variants[variant].name.as_str();
    let refuse = |why: String| format!("No recommendation: {why}");
    let (best, next) = (&ranking.variants[0], &ranking.variants[1]);
    let Some(ranks) = best.ranks else {
        return refuse(format!(
            "{}, and a verdict needs {FIRST_LOOK}.",
            plural(ranking.rounds, "whole round")
        ));
    };
    if ranks != (1, 1) {
        let first =
            ranking.variants.iter().filter(|ranked| ranked.ranks.is_some_and(|(first, _)| first == 1));
        let names: Vec<String> = first.map(|ranked| name(ranked.variant).to_string()).collect();
        return refuse(format!("{} may each be first; these rounds do not tell them apart.", either(&names)));
    }
    if let Some((other, lead)) = not_separated(ranking) {
        return refuse(format!(
            "{} is first by the ranks, but the interval of {} holds 1: {}.",
            name(best.variant),
            name(other),
            interval(lead)
        ));
    }
    if let Some(other) = ranking.overtaken_by() {
        let (best, other) = (name(best.variant), name(other));
        return refuse(format!(
            "{best} is first, but it hangs on a single task: without that, {other} is ahead."
        ));
    }
    if let Some(other) = winner_by_sum(report).filter(|other| *other != best.variant && ranking.even()) {
        return refuse(format!(
            "{} is first with every task weighing the same, {} by the sum of all; say what matters with --weight.",
            name(best.variant),
            name(other)
        ));
    }
    let ratio = ranking.comparison.variants[next.variant].ratio.map_or(String::new(), interval);
    format!(
        "Recommended by {}, {}: {}. The next, {}, is at {ratio} of it, and no single task decides that.",
        ranking.metric,
        weighing(ranking),
        name(best.variant),
        name(next.variant)
    )
}

/// The first variant behind the best whose interval, made for looking again and again, does not leave out 1: ranks are of one
/// look, and nothing is recommended that the answer calls inconclusive.
fn not_separated(ranking: &Ranking) -> Option<(usize, Ratio)> {
    let ratio = |ranked: &Ranked| Some((ranked.variant, ranking.comparison.variants[ranked.variant].ratio?));
    ranking.variants.iter().skip(1).filter_map(ratio).find(|(_, ratio)| !ratio.separated())
}

fn winner_by_sum(report: &Report) -> Option<usize> {
    report.analyses.first()?.overall.as_ref()?.total.as_ref()?.comparison.winner()
}

/// For programs; null where nothing is ranked.
pub fn json(report: &Report) -> Value {
    let Some(ranking) = Ranking::of(report) else { return Value::Null };
    let variant = |ranked: &Ranked| {
        let result = &ranking.comparison.variants[ranked.variant];
        json!({
            "variant": report.record.variants[ranked.variant].name,
            "ratio_to_best": result.ratio.as_ref().map(ratio_json),
            "letters": result.letters,
            "ranks": ranked.ranks.map(|(first, last)| json!({"first": first, "last": last})),
            "without_one_task": ranked.without_one.map(|(low, high)| json!({"low": low, "high": high})),
            "probability_best": ranked.probability_best,
        })
    };
    json!({
        "metric": ranking.metric,
        "weights": ranking.weights.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "rounds": ranking.rounds,
        "variants": ranking.variants.iter().map(variant).collect::<Vec<_>>(),
        "recommendation": recommendation(report, &ranking),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Direction;
    use fsarena_stats::comparison::compare;

    #[test]
    fn what_is_not_told_apart_is_not_recommended() {
        let ranking = |second: f64| {
            let values = |share: f64, wobble: f64| -> Vec<f64> {
                (0..9).map(|round| share * (1.0 + wobble * f64::from(round % 3 - 1))).collect()
            };
            let comparison = compare(&[values(1.0, 0.0), values(second, 0.1)], Direction::Lower);
            let ranked = |variant| Ranked {
                variant,
                ranks: Some((variant + 1, variant + 1)),
                without_one: None,
                probability_best: None,
            };
            Ranking {
                metric: "elapsed".into(),
                direction: Direction::Lower,
                weights: vec![],
                comparison,
                variants: vec![ranked(0), ranked(1)],
                rounds: 9,
            }
        };
        assert_eq!(not_separated(&ranking(1.5)), None);
        assert_eq!(not_separated(&ranking(1.02)).map(|(variant, _)| variant), Some(1));
    }
}
