//! What to take, where the data can carry a recommendation.

use super::answer::interval;
use super::{Detail, Section};
use crate::document::{Chapter, Document};
use crate::number::plural;
use crate::ranking::{Ranked, Ranking};
use crate::report::Report;
use fsarena_core::metric::label;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::table::FIRST_LOOK;

/// What to take.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

fn parts(report: &Report, _: Detail) -> Document {
    let mut document = Document::default();
    document.list(report.ranking().map(|ranking| recommendation(report, ranking)).into_iter().collect());
    document
}

/// `equal weight for every task`, `untar with weight 3 and every other task with weight 1`.
pub fn weighing(ranking: &Ranking) -> String {
    if ranking.even() {
        return "equal weight for every task".into();
    }
    let special = ranking.weights.iter().filter(|(_, weight)| *weight != 1.0);
    let special: Vec<String> = special.map(|(task, weight)| format!("{task} with weight {weight}")).collect();
    format!("{} and every other task with weight 1", special.join(", "))
}

/// What to take, or why nothing is recommended.
pub fn recommendation(report: &Report, ranking: &Ranking) -> String {
    let name = |variant: usize| report.record.variants[variant].name.as_str();
    let refuse = |why: String| format!("No recommendation: {why}");
    let (best, next) = (&ranking.variants[0], &ranking.variants[1]);
    let Some(ranks) = best.ranks else {
        return refuse(format!(
            "{}, and a verdict requires {FIRST_LOOK}.",
            plural(ranking.rounds, "complete round")
        ));
    };
    if ranks != (1, 1) {
        let first =
            ranking.variants.iter().filter(|ranked| ranked.ranks.is_some_and(|(first, _)| first == 1));
        let names: Vec<String> = first.map(|ranked| name(ranked.variant).to_string()).collect();
        return refuse(format!("no significant difference at the top ({}).", names.join(" ≈ ")));
    }
    if let Some((other, lead)) = not_separated(ranking) {
        return refuse(format!(
            "{} ranks first, but does not differ significantly from {}: {}.",
            name(best.variant),
            name(other),
            interval(lead)
        ));
    }
    if let Some(other) = ranking.overtaken_by() {
        let (best, other) = (name(best.variant), name(other));
        return refuse(format!(
            "{best} is first, but only because of a single task: without it, {other} is ahead."
        ));
    }
    if let Some(other) = winner_by_sum(report).filter(|other| *other != best.variant && ranking.even()) {
        return refuse(format!(
            "{} is first with equal weight for every task, {} by the total time. Choose with --weight.",
            name(best.variant),
            name(other)
        ));
    }
    let ratio = ranking.comparison.variants[next.variant].ratio.map_or(String::new(), interval);
    format!(
        "Recommended by {}, with {}: {}. The next variant, {}, has {ratio} times its figure; no single task changes that.",
        label(&ranking.metric),
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

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Direction;
    use fsarena_stats::comparison::compare;

    #[test]
    fn a_variant_without_a_significant_lead_is_not_recommended() {
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
