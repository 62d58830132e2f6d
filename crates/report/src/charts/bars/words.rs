//! What the captions of bars say: what the whiskers are, what is not drawn, and why.

use crate::number::plural;
use crate::seen::{MOST, Seen};
use crate::words::{listed, not_drawn};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::comparison::Comparison;
use fsarena_stats::table::FIRST_LOOK;

/// What the whiskers of these comparisons are.
pub fn whiskers<'c>(comparisons: impl Iterator<Item = &'c Comparison>, rounds: usize) -> &'static str {
    let ratios: Vec<_> = comparisons
        .flat_map(|c| &c.variants)
        .filter_map(|variant| variant.ratio)
        .filter(|ratio| ratio.rounds > 1)
        .collect();
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

/// Whether something is so of a comparison.
type Is<'a> = &'a dyn Fn(&Comparison) -> bool;

/// Sentences, each with a space before it, on every variant, task and interval that is not drawn.
pub fn left_out(
    seen: &Seen,
    analysis: &Analysis,
    groups: &[(String, &Comparison)],
    without: &[(String, &Comparison)],
) -> String {
    let names: Vec<String> = without.iter().map(|(name, _)| name.clone()).collect();
    let mut words = not_drawn(&names, "no two variants are above zero in one round, and zero has no ratio");
    let tasks = analysis.tasks().count();
    if tasks > MOST {
        words.push_str(&format!(" Of {}, all together are drawn and none alone.", plural(tasks, "task")));
    }
    for (variant, name) in seen.record().variants.iter().map(|variant| &variant.name).enumerate() {
        let of = |is: Is| -> Vec<String> {
            groups.iter().filter(|(_, c)| is(c)).map(|(name, _)| name.clone()).collect()
        };
        let missing = |c: &Comparison| c.best() != Some(variant) && c.variants[variant].ratio.is_none();
        let reasons: [(&str, Is); 3] = [
            ("no round has a value of it, and a geometric mean takes values above zero of all tasks", &|c| {
                missing(c) && c.variants[variant].rounds == 0
            }),
            ("in every round either it or the best variant is zero, and zero has no ratio", &|c| {
                missing(c) && c.variants[variant].excluded > 0
            }),
            ("it shares no round with the best variant", &|c| {
                missing(c) && c.variants[variant].excluded == 0 && c.variants[variant].rounds > 0
            }),
        ];
        for (why, is) in reasons {
            let tasks = of(is);
            if !tasks.is_empty() {
                words.push_str(&format!(" {name} is not drawn{}: {why}.", within(&tasks, groups.len())));
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

/// ` in a and b`; nothing where it is so in all there are.
fn within(tasks: &[String], of: usize) -> String {
    if tasks.len() == of { String::new() } else { format!(" in {}", listed(tasks)) }
}
