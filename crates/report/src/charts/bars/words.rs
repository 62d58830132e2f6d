//! What the captions of bars say: what the whiskers are, what is not drawn, and why.

use crate::seen::{Seen, only_together};
use crate::words::{listed, not_drawn};
use fsarena_stats::{analyse::Analysis, comparison::Comparison, table::FIRST_LOOK};

/// What the whiskers of these comparisons are.
pub fn whiskers<'c>(comparisons: impl Iterator<Item = &'c Comparison>, rounds: usize) -> &'static str {
    let ratios = comparisons.flat_map(|c| &c.variants).filter_map(|variant| variant.ratio);
    let ratios: Vec<_> = ratios.filter(|ratio| ratio.rounds > 1).collect();
    let provisional = ratios.iter().filter(|ratio| ratio.provisional).count();
    match (provisional, rounds < FIRST_LOOK) {
        _ if ratios.is_empty() => "not there: each would rest on one round",
        (0, _) => "95% intervals, within rounds",
        (_, true) => "the extremes seen: under 8 rounds nothing is exact",
        (some, _) if some == ratios.len() => "the extremes seen: under 8 rounds have a ratio",
        _ => {
            "95% intervals, within rounds, or, at figures with a ?, the extremes seen: under 8 rounds have a ratio"
        }
    }
}

/// Why a variant has no bar in a comparison.
const NO_VALUE: &str =
    "no round has a value of it, and a geometric mean takes values above zero of all tasks";
const ZERO: &str = "in every round either it or the best variant is zero, and zero has no ratio";
const APART: &str = "it shares no round with the best variant";

fn not_there(comparison: &Comparison, variant: usize) -> Option<&'static str> {
    let result = &comparison.variants[variant];
    let missing = comparison.best() != Some(variant) && result.ratio.is_none();
    missing.then_some(match (result.rounds, result.excluded) {
        (0, _) => NO_VALUE,
        (_, 0) => APART,
        _ => ZERO,
    })
}

/// Sentences, each with a space before it, on every variant, task and interval that is not drawn.
pub fn left_out(
    seen: &Seen,
    analysis: &Analysis,
    groups: &[(String, &Comparison)],
    without: &[(String, &Comparison)],
) -> String {
    let names: Vec<String> = without.iter().map(|(name, _)| name.clone()).collect();
    let mut words = not_drawn(&names, "no two variants are above zero in one round, and zero has no ratio");
    words.push_str(&only_together(analysis.tasks().count()));
    for (variant, name) in seen.record().names().into_iter().enumerate() {
        for why in [NO_VALUE, ZERO, APART] {
            let of = groups.iter().filter(|(_, c)| not_there(c, variant) == Some(why));
            let tasks: Vec<String> = of.map(|(name, _)| name.clone()).collect();
            // Nothing where it is so in all there are.
            let within =
                if tasks.len() == groups.len() { String::new() } else { format!(" in {}", listed(&tasks)) };
            if !tasks.is_empty() {
                words.push_str(&format!(" {name} is not drawn{within}: {why}."));
            }
        }
        words.push_str(&thin(variant, name, groups));
    }
    words
}

/// Where an interval rests on fewer rounds than were run, or is none.
fn thin(variant: usize, name: &str, groups: &[(String, &Comparison)]) -> String {
    let mut words = String::new();
    for (task, comparison) in groups {
        let result = &comparison.variants[variant];
        let Some(ratio) = result.ratio.filter(|_| comparison.best() != Some(variant)) else { continue };
        let shared = ratio.rounds + result.excluded;
        match (ratio.rounds, result.excluded) {
            (1, 0) => words.push_str(&format!(" {name} has no interval in {task}: it takes two rounds.")),
            (1, _) => words.push_str(&format!(
                " {name} has no interval in {task}: in {} of {shared} rounds it or the best variant is zero, zero has no \
                 ratio, and an interval takes two.",
                result.excluded
            )),
            (_, 0) => {}
            (_, zeros) => words.push_str(&format!(
                " {name} in {task}: {zeros} of {shared} rounds are left out, for zero has no ratio."
            )),
        }
    }
    words
}
