//! The sections about rounds that differ much: how often each variant took much longer than in its own median round, and
//! variants with two speeds.

use crate::document::{Detail, Document};
use crate::number::{plural, with_unit};
use crate::phrases::{join_with_and, shorten_list_to, task_label};
use crate::report::Report;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::modes::{AssociatedReading, Modes};
use fsarena_stats::slow_rounds::{SLOW_FACTOR, SlowRound, SlowRounds, slow_rounds, variants_with_more_stalls};
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeSet};

/// The largest number of sentences in a brief report. JSON has all.
const MAX_BRIEF_SENTENCES: usize = 2;
/// The largest number of sentences in a full report. JSON has all.
const MAX_SENTENCES: usize = 12;
/// The largest number of variants that a sentence names with their slow rounds.
const MAX_NAMED_VARIANTS: usize = 4;

/// Adds a sentence for all tasks together and for each task with slow rounds, by the first metric. The tasks that lost the most
/// time are first. A brief report leaves out a task if all its slow rounds are also slow over all tasks.
pub fn add_slow_rounds(document: &mut Document, report: &Report, detail: Detail) {
    let Some(analysis) = report.analyses.first() else { return };
    let mut found = slow_rounds_by_task(report, analysis);
    if detail < Detail::Full {
        let overall: BTreeSet<(usize, usize)> =
            found.iter().filter(|slow_rounds| slow_rounds.task.is_none()).flat_map(TaskSlowRounds::rounds).collect();
        found.retain(|slow_rounds| {
            slow_rounds.task.is_none() || !slow_rounds.rounds().all(|round| overall.contains(&round))
        });
    }
    let sentences: Vec<String> =
        found.iter().filter_map(|slow_rounds| slow_sentence(report, analysis, slow_rounds)).collect();
    if detail < Detail::Full {
        return document.list(shorten_list_to(sentences, MAX_BRIEF_SENTENCES, "cases of slow rounds"));
    }
    if sentences.is_empty() {
        return;
    }
    document.heading(3, "Slow rounds");
    document.list(shorten_list_to(sentences, MAX_SENTENCES, "cases of slow rounds"));
    document.text(format!(
        "A round counts as slow where a variant needs more than {SLOW_FACTOR} times its own median. Typical ratios hardly change with \
         slow rounds; the ratio of mean cost counts them. Which variant stalls significantly more often is tested once, over \
         all tasks at the end of a run: values divided by the median of their variant are permuted within rounds."
    ));
}

/// The slow rounds of all variants in one task, or over all tasks together.
struct TaskSlowRounds<'a> {
    /// The index of the task in the run; `None` for all tasks together.
    task: Option<usize>,
    /// The values by variant and round.
    values: Cow<'a, [Vec<f64>]>,
    /// The slow rounds of each variant; `None` if it has too few rounds.
    variants: Vec<Option<SlowRounds>>,
}

impl TaskSlowRounds<'_> {
    /// Each slow round, as the indices of the variant and the round.
    fn rounds(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let variants = self.variants.iter().enumerate();
        variants.flat_map(|(at, found)| {
            found.iter().flat_map(move |found| found.slow.iter().map(move |slow| (at, slow.column)))
        })
    }

    /// The cost of the slow rounds of all variants beyond their medians.
    fn excess(&self) -> f64 {
        self.variants.iter().flatten().map(SlowRounds::excess).sum()
    }
}

/// Finds the slow rounds: first those over all tasks, if there are several, then those of each task, the costliest first.
fn slow_rounds_by_task<'a>(report: &Report, analysis: &'a Analysis) -> Vec<TaskSlowRounds<'a>> {
    let direction = analysis.metric.direction;
    let find_in = |task: Option<usize>, values: Cow<'a, [Vec<f64>]>| {
        let of_variant = |(variant, rounds): (usize, &Vec<f64>)| {
            slow_rounds(rounds, direction).filter(|_| !analysis.grid.references.contains(&variant))
        };
        TaskSlowRounds { task, variants: values.iter().enumerate().map(of_variant).collect(), values }
    };
    let grid = analysis.grid.by_round();
    let mut tasks: Vec<TaskSlowRounds> = analysis
        .tasks_in_totals()
        .filter_map(|task| report.record.task(&task.task.id))
        .map(|task| find_in(Some(task), Cow::Borrowed(&grid.values[task])))
        .collect();
    tasks.sort_by(|a, b| b.excess().total_cmp(&a.excess()));
    let all = analysis.overall.as_ref().filter(|overall| overall.tasks > 1);
    let all = all.map(|_| find_in(None, Cow::Owned(grid.combined())));
    all.into_iter().chain(tasks).filter(|slow_rounds| slow_rounds.excess() > 0.0).collect()
}

/// A sentence about the slow rounds of a task: `Over all tasks, xfs took more than 1.5 times its median in 3 of 22 rounds (at
/// most 2.9 times: 1.93 s instead of 0.66 s), ext4 in none.` `None` if no variant has slow rounds.
fn slow_sentence(report: &Report, analysis: &Analysis, slow_rounds: &TaskSlowRounds) -> Option<String> {
    let (record, metric) = (&report.record, &analysis.metric);
    let mut slow: Vec<(usize, &SlowRounds)> = vec![];
    let mut without_slow: Vec<String> = vec![];
    for (variant, found) in slow_rounds.variants.iter().enumerate() {
        match found {
            Some(found) if !found.slow.is_empty() => slow.push((variant, found)),
            Some(_) => without_slow.push(record.name(variant).to_string()),
            None => {}
        }
    }
    slow.sort_by(|(_, a), (_, b)| b.slow.len().cmp(&a.slow.len()).then(b.excess().total_cmp(&a.excess())));
    let what = match metric.direction {
        Direction::Higher => format!("had less than two thirds of its median {}", metric.id),
        _ if matches!(metric.unit, Unit::Seconds | Unit::Nanoseconds) => {
            format!("took more than {SLOW_FACTOR} times its median")
        }
        _ => format!("had more than {SLOW_FACTOR} times its median {}", metric.id),
    };
    let name = |variant: usize| record.name(variant);
    let ((first, rounds_of_first), others) = slow.split_first()?;
    let mut parts = vec![format!("{} {what} in {}", name(*first), describe_slow_rounds(rounds_of_first, metric.unit))];
    for (variant, found) in others.iter().take(MAX_NAMED_VARIANTS - 1) {
        parts.push(format!("{} in {}", name(*variant), describe_slow_rounds(found, metric.unit)));
    }
    if slow.len() > MAX_NAMED_VARIANTS {
        parts.push(format!("{} in some", plural(slow.len() - MAX_NAMED_VARIANTS, "more variant")));
    }
    if !without_slow.is_empty() {
        parts.push(format!("{} in none", join_with_and(&without_slow)));
    }
    let scope = match slow_rounds.task {
        None => "Over all tasks".to_string(),
        Some(task) => format!("In {}", task_label(&record.tasks[task])),
    };
    let significant: Vec<String> =
        stalling_variants(report, analysis, slow_rounds).into_iter().map(|at| name(at).to_string()).collect();
    let mut text = format!("{scope}, {}.", parts.join(", "));
    if !significant.is_empty() {
        text.push_str(&format!(" Significantly more often than the others: {}.", join_with_and(&significant)));
    }
    Some(text)
}

/// The number of slow rounds, with the slowest: `3 of 22 rounds (at most 2.9 times: 1.93 s instead of 0.66 s)`.
fn describe_slow_rounds(found: &SlowRounds, unit: Unit) -> String {
    let worst = found.slow[0];
    let at_most = if found.slow.len() == 1 { "" } else { "at most " };
    let factor =
        if worst.factor.is_finite() { format!("{} times: ", format_factor(worst.factor)) } else { String::new() };
    format!(
        "{} of {} ({at_most}{factor}{} instead of {})",
        found.slow.len(),
        plural(found.rounds, "round"),
        with_unit(worst.value, unit),
        with_unit(found.median, unit)
    )
}

/// A factor with one decimal under 10, and without decimals from 10 on: `2.9`, `30`.
fn format_factor(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// The variants that have slow rounds significantly more often than the others. Empty before the run is complete. If the run has
/// several tasks, only the values over all tasks are tested.
fn stalling_variants(report: &Report, analysis: &Analysis, slow_rounds: &TaskSlowRounds) -> Vec<usize> {
    let covers_all = slow_rounds.task.is_none() || analysis.overall.as_ref().is_some_and(|overall| overall.tasks == 1);
    if !report.record.status.complete || !covers_all {
        return vec![];
    }
    let mut values = slow_rounds.values.to_vec();
    for reference in &analysis.grid.references {
        values[*reference].clear();
    }
    variants_with_more_stalls(&values, analysis.metric.direction, report.record.plan.seed)
}

/// The slow rounds by every metric as JSON. Rounds have the numbers of the run.
pub fn slow_rounds_json(report: &Report) -> Value {
    let mut all = vec![];
    for analysis in &report.analyses {
        for slow_rounds in slow_rounds_by_task(report, analysis) {
            let stalling_variants = stalling_variants(report, analysis, &slow_rounds);
            let known = slow_rounds.variants.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?)));
            for (variant, found) in known {
                let round = |slow: &SlowRound| {
                    json!({
                        "round": analysis.grid.by_round().rounds[slow.column],
                        "value": slow.value,
                        "times_median": slow.factor,
                    })
                };
                all.push(json!({
                    "metric": analysis.metric.id,
                    "unit": analysis.metric.unit,
                    "task": slow_rounds.task.map(|task| report.record.tasks[task].id.to_string()),
                    "variant": report.record.name(variant),
                    "rounds": found.rounds,
                    "median": found.median,
                    "slow": found.slow.iter().map(round).collect::<Vec<_>>(),
                    "significantly_more_often": stalling_variants.contains(&variant),
                }));
            }
        }
    }
    Value::Array(all)
}

/// The largest number of sentences about modes in a full report. JSON has all.
const MAX_MODE_SENTENCES: usize = 12;

/// Adds a sentence for each variant and task with two speeds; in a brief report only for the clearest.
pub fn add_modes(document: &mut Document, report: &Report, detail: Detail) {
    let sentences: Vec<String> = report.modes().iter().map(|modes| mode_sentence(report, modes)).collect();
    if detail < Detail::Full {
        document.list(shorten_list_to(sentences, 2, "cases of two speeds"));
    } else if !sentences.is_empty() {
        document.heading(3, "Two speeds");
        document.list(shorten_list_to(sentences, MAX_MODE_SENTENCES, "cases of two speeds"));
        document.text(
            "Here the values of a variant fall into two clusters, more clearly than those of 95% of runs under any of six \
             simulated noises. What is called associated may be cause or effect.",
        );
    }
}

/// Sentences about a variant with two speeds, and about the conditions that go with them: `ext3 has two speeds at Split: 4.6 ms
/// in 8 rounds, 11 ms in 7. It is slow where it ran later in the round.`
fn mode_sentence(report: &Report, modes: &Modes) -> String {
    let (unit, [high, low]) = speed_words(report);
    let [(lower, in_lower), (higher, in_higher)] =
        [0, 1].map(|at| (with_unit(modes.clusters[at].median, unit), modes.clusters[at].columns.len()));
    let mut text = format!(
        "{} has two {} at {}: {lower} in {}, {higher} in {in_higher}.",
        report.record.name(modes.variant),
        if high == "slow" { "speeds" } else { "levels" },
        task_label(&report.record.tasks[modes.task]),
        plural(in_lower, "round"),
    );
    if let Some(later) = modes.correlates.later_is_higher {
        let when = if later { "later" } else { "earlier" };
        text.push_str(&format!(" It is {high} where it ran {when} in the round."));
    }
    if let Some(after) = modes.correlates.after {
        text.push_str(&format!(" It is {high} more often after {}.", report.record.name(after)));
    }
    match &modes.correlates.associated {
        Some(AssociatedReading { reading, medians, unit }) => {
            let [lower, higher] = medians.map(|median| with_unit(median, *unit));
            let sentence = format!(" Associated: {reading} is {higher} in {high} rounds and {lower} in {low} ones.");
            text.push_str(&sentence);
        }
        None if modes.correlates.later_is_higher.is_none() && modes.correlates.after.is_none() => {
            text.push_str(" It correlates with no reading and with no order of the variants.");
        }
        None => {}
    }
    text
}

/// The unit of the first metric, and the words for a high and a low value: slow and fast, or high and low.
fn speed_words(report: &Report) -> (Unit, [&'static str; 2]) {
    let metric = report.analyses.first().map(|analysis| &analysis.metric);
    let unit = metric.map_or(Unit::Ratio, |metric| metric.unit);
    let is_time = matches!(unit, Unit::Seconds | Unit::Nanoseconds);
    match metric.map(|metric| metric.direction) {
        Some(Direction::Lower) if is_time => (unit, ["slow", "fast"]),
        Some(Direction::Higher) => (unit, ["fast", "slow"]),
        _ => (unit, ["high", "low"]),
    }
}

/// The modes as JSON. Rounds have the numbers of the run.
pub fn modes_json(report: &Report) -> Value {
    let record = &report.record;
    let one = |modes: &Modes| {
        let rounds = report.analyses.first().map_or(&[][..], |analysis| &analysis.grid.by_round().rounds);
        let clusters = modes.clusters.iter().map(|cluster| {
            let rounds: Vec<u32> = cluster.columns.iter().map(|column| rounds[*column]).collect();
            json!({ "median": cluster.median, "rounds": rounds })
        });
        json!({
            "variant": record.name(modes.variant),
            "task": record.tasks[modes.task].id.to_string(),
            "clusters": clusters.collect::<Vec<_>>(),
            "later_is_higher": modes.correlates.later_is_higher,
            "higher_after": modes.correlates.after.map(|variant| record.name(variant)),
            "associated": modes.correlates.associated,
        })
    };
    report.modes().iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_slow_rounds_has_the_slowest_one() {
        let mut values = vec![0.7; 22];
        values[9] = 20.97;
        let count =
            |values: &[f64]| describe_slow_rounds(&slow_rounds(values, Direction::Lower).unwrap(), Unit::Seconds);
        assert_eq!(count(&values), "1 of 22 rounds (30 times: 21.0 s instead of 0.700 s)");
        values[3] = 1.4;
        assert_eq!(count(&values), "2 of 22 rounds (at most 30 times: 21.0 s instead of 0.700 s)");
    }
}
