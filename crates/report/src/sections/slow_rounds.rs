//! Slow rounds: how often each variant took much longer than in its own median round, over all tasks and in single ones.

use crate::number::{plural, with_unit};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::{few_of, label, listed};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::slow_rounds::{SLOW, SlowRound, SlowRounds, slow_rounds, stalling};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The most sentences on a screen, and those of a full report. JSON has all.
const MOST: [usize; 2] = [2, 12];
/// The most variants that a sentence names with their slow rounds.
const VARIANTS: usize = 4;

/// Slow rounds.
pub const SECTION: Section = Section::new(Chapter::Answer, add);

/// A sentence for all tasks and for each task that has slow rounds, by the first metric; the tasks that lost most first. In
/// brief a task is left out if all its slow rounds are slow over all tasks.
fn add(document: &mut Document, report: &Report, detail: Detail) {
    let Some(analysis) = report.analyses.first() else { return };
    let mut found = found(report, analysis);
    if detail < Detail::Full {
        let told: BTreeSet<(usize, usize)> =
            found.iter().filter(|place| place.task.is_none()).flat_map(Place::rounds).collect();
        found.retain(|place| place.task.is_none() || !place.rounds().all(|round| told.contains(&round)));
    }
    let sentences: Vec<String> = found.iter().filter_map(|place| sentence(report, analysis, place)).collect();
    if detail < Detail::Full {
        return document.list(few_of(sentences, MOST[0]));
    }
    if sentences.is_empty() {
        return;
    }
    document.heading(3, "Slow rounds");
    document.list(few_of(sentences, MOST[1]));
    document.text(format!(
        "A round counts as slow where a variant needs more than {SLOW} times its own median. Typical ratios hardly change with \
         slow rounds; the ratio of mean cost counts them. Which variant stalls significantly more often is tested once, over \
         all tasks at the end of a run: values divided by the median of their variant are permuted within rounds."
    ));
}

/// Slow rounds of the variants over all tasks, or in one.
struct Place<'a> {
    /// The task, by its index into the run; none for all tasks together.
    task: Option<usize>,
    /// `[variant][round]`.
    values: &'a [Vec<f64>],
    /// For each variant; none where it has too few rounds.
    variants: Vec<Option<SlowRounds>>,
}

impl Place<'_> {
    /// Each slow round with its variant.
    fn rounds(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let variants = self.variants.iter().enumerate();
        variants.flat_map(|(at, found)| {
            found.iter().flat_map(move |found| found.slow.iter().map(move |slow| (at, slow.column)))
        })
    }

    /// What the slow rounds of all variants cost beyond their medians.
    fn excess(&self) -> f64 {
        self.variants.iter().flatten().map(SlowRounds::excess).sum()
    }
}

/// Where variants had slow rounds: first over all tasks, if there are several, then in the tasks, the costliest first.
fn found<'a>(report: &Report, analysis: &'a Analysis) -> Vec<Place<'a>> {
    let direction = analysis.metric.direction;
    let place = |task: Option<usize>, values: &'a [Vec<f64>]| {
        let of_variant = |(variant, rounds): (usize, &Vec<f64>)| {
            slow_rounds(rounds, direction).filter(|_| !analysis.grid.references.contains(&variant))
        };
        Place { task, values, variants: values.iter().enumerate().map(of_variant).collect() }
    };
    let mut tasks: Vec<Place> = analysis
        .tasks()
        .filter_map(|task| report.record.task(&task.task.id))
        .map(|task| place(Some(task), &analysis.grid.values[task]))
        .collect();
    tasks.sort_by(|a, b| b.excess().total_cmp(&a.excess()));
    let all = analysis.overall.as_ref().filter(|overall| overall.tasks > 1);
    let all = all.map(|overall| place(None, &overall.main().values));
    all.into_iter().chain(tasks).filter(|place| place.excess() > 0.0).collect()
}

/// `Over all tasks, xfs took more than 1.5 times its median in 3 of 22 rounds (at most 2.9 times: 1.93 s), ext4 in none.`
fn sentence(report: &Report, analysis: &Analysis, place: &Place) -> Option<String> {
    let (record, metric) = (&report.record, &analysis.metric);
    let mut slow: Vec<(usize, &SlowRounds)> = vec![];
    let mut none: Vec<String> = vec![];
    for (variant, found) in place.variants.iter().enumerate() {
        match found {
            Some(found) if !found.slow.is_empty() => slow.push((variant, found)),
            Some(_) => none.push(record.name(variant).to_string()),
            None => {}
        }
    }
    slow.sort_by(|(_, a), (_, b)| b.slow.len().cmp(&a.slow.len()).then(b.excess().total_cmp(&a.excess())));
    let what = match metric.direction {
        Direction::Higher => format!("had less than two thirds of its median {}", metric.id),
        _ if matches!(metric.unit, Unit::Seconds | Unit::Nanoseconds) => {
            format!("took more than {SLOW} times its median")
        }
        _ => format!("had more than {SLOW} times its median {}", metric.id),
    };
    let name = |variant: usize| record.name(variant);
    let (first, of_first) = slow.first()?;
    let mut parts = vec![format!("{} {what} in {}", name(*first), counted(of_first, metric.unit))];
    parts.extend(
        slow[1..]
            .iter()
            .take(VARIANTS - 1)
            .map(|(variant, found)| format!("{} in {}", name(*variant), counted(found, metric.unit))),
    );
    parts.extend((slow.len() > VARIANTS).then(|| plural(slow.len() - VARIANTS, "more variant")));
    parts.extend((!none.is_empty()).then(|| format!("{} in none", listed(&none))));
    let where_ = match place.task {
        None => "Over all tasks".to_string(),
        Some(task) => format!("In {}", label(&record.tasks[task])),
    };
    let significant: Vec<String> =
        stalls(report, analysis, place).into_iter().map(|at| name(at).to_string()).collect();
    let mut text = format!("{where_}, {}.", parts.join(", "));
    if !significant.is_empty() {
        text.push_str(&format!(" Significantly more often than the others: {}.", listed(&significant)));
    }
    Some(text)
}

/// `3 of 22 rounds (at most 2.9 times: 1.93 s instead of 0.66 s)`.
fn counted(found: &SlowRounds, unit: Unit) -> String {
    let worst = found.slow[0];
    let most = if found.slow.len() == 1 { "" } else { "at most " };
    let times = if worst.times.is_finite() { format!("{} times: ", two(worst.times)) } else { String::new() };
    format!(
        "{} of {} ({most}{times}{} instead of {})",
        found.slow.len(),
        plural(found.rounds, "round"),
        with_unit(worst.value, unit),
        with_unit(found.median, unit)
    )
}

/// Two significant digits or all whole ones: `2.9`, `30`.
fn two(times: f64) -> String {
    if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") }
}

/// The variants that stall significantly more often. None before the run has ended; of several tasks only all together are
/// tested.
fn stalls(report: &Report, analysis: &Analysis, place: &Place) -> Vec<usize> {
    let whole = place.task.is_none() || analysis.overall.as_ref().is_some_and(|overall| overall.tasks == 1);
    if !report.record.status.complete || !whole {
        return vec![];
    }
    let mut values = place.values.to_vec();
    analysis.grid.references.iter().for_each(|reference| values[*reference].clear());
    stalling(&values, analysis.metric.direction, report.record.plan.seed)
}

/// The slow rounds by every metric, rounds as the run counts them.
pub fn json(report: &Report) -> Value {
    let mut all = vec![];
    for analysis in &report.analyses {
        for place in found(report, analysis) {
            let stalls = stalls(report, analysis, &place);
            let known =
                place.variants.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?)));
            for (variant, found) in known {
                let round = |slow: &SlowRound| {
                    json!({
                        "round": analysis.grid.rounds[slow.column],
                        "value": slow.value,
                        "times_median": slow.times,
                    })
                };
                all.push(json!({
                    "metric": analysis.metric.id,
                    "unit": analysis.metric.unit,
                    "task": place.task.map(|task| report.record.tasks[task].id.to_string()),
                    "variant": report.record.name(variant),
                    "rounds": found.rounds,
                    "median": found.median,
                    "slow": found.slow.iter().map(round).collect::<Vec<_>>(),
                    "significantly_more_often": stalls.contains(&variant),
                }));
            }
        }
    }
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_round_is_told_with_its_value() {
        let mut values = vec![0.7; 22];
        values[9] = 20.97;
        let told = |values: &[f64]| counted(&slow_rounds(values, Direction::Lower).unwrap(), Unit::Seconds);
        assert_eq!(told(&values), "1 of 22 rounds (30 times: 21.0 s instead of 0.700 s)");
        values[3] = 1.4;
        assert_eq!(told(&values), "2 of 22 rounds (at most 30 times: 21.0 s instead of 0.700 s)");
    }
}
