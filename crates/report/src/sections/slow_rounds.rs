//! The sections about rounds that differ much: how often each variant took much longer than in its own median round, and
//! variants with two speeds.

use crate::document::{Detail, Document};
use crate::number::{plural, with_unit};
use crate::phrases::{join_with_and, shorten_list_to, task_label};
use crate::report::Report;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::modes::{AssociatedReading, Modes};
use fsarena_stats::slow_rounds::{
    SLOW_FACTOR, SlowRound, SlowRounds, find_slow_rounds, variants_with_more_slow_rounds,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

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
    let mut all_slow_rounds = slow_rounds_by_task(report, analysis);
    if detail < Detail::Full {
        let over_all_tasks = all_slow_rounds.iter().filter(|task_slow_rounds| task_slow_rounds.task.is_none());
        let slow_over_all_tasks: BTreeSet<(usize, usize)> =
            over_all_tasks.flat_map(TaskSlowRounds::variants_and_rounds).collect();
        all_slow_rounds.retain(|task_slow_rounds| {
            task_slow_rounds.task.is_none()
                || !task_slow_rounds.variants_and_rounds().all(|slow| slow_over_all_tasks.contains(&slow))
        });
    }
    let sentences: Vec<String> = all_slow_rounds
        .iter()
        .filter_map(|task_slow_rounds| slow_rounds_sentence(report, analysis, task_slow_rounds))
        .collect();
    let explanation = format!(
        "A round counts as slow where a variant needs more than {SLOW_FACTOR} times its own median. Typical ratios hardly change with \
         slow rounds; the ratio of mean cost counts them. Which variant stalls significantly more often is tested once, over \
         all tasks at the end of a run: values divided by the median of their variant are permuted within rounds."
    );
    add_cases(document, detail, "Slow rounds", sentences, &explanation);
}

/// Adds the sentences of a section, in a full report with its title and an explanation. Adds nothing without sentences.
fn add_cases(document: &mut Document, detail: Detail, title: &str, sentences: Vec<String>, explanation: &str) {
    let noun = format!("cases of {}", title.to_lowercase());
    if detail < Detail::Full {
        document.list(shorten_list_to(sentences, MAX_BRIEF_SENTENCES, &noun));
    } else if !sentences.is_empty() {
        document.heading(3, title);
        document.list(shorten_list_to(sentences, MAX_SENTENCES, &noun));
        document.text(explanation);
    }
}

/// The slow rounds of all variants in one task, or over all tasks together.
struct TaskSlowRounds {
    /// The index of the task in the run; `None` for all tasks together.
    task: Option<usize>,
    /// The slow rounds of each variant; `None` if it has too few rounds.
    variants: Vec<Option<SlowRounds>>,
}

impl TaskSlowRounds {
    /// The index of the variant and the index of the round, for each slow round.
    fn variants_and_rounds(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let variants = self.variants.iter().enumerate();
        variants.flat_map(|(variant, slow_rounds)| {
            slow_rounds.iter().flat_map(move |rounds| rounds.slow.iter().map(move |round| (variant, round.column)))
        })
    }

    /// The cost of the slow rounds of all variants beyond their medians.
    fn excess(&self) -> f64 {
        self.variants.iter().flatten().map(SlowRounds::excess).sum()
    }
}

/// Finds the slow rounds: first those over all tasks, if there are several, then those of each task, the costliest first.
fn slow_rounds_by_task(report: &Report, analysis: &Analysis) -> Vec<TaskSlowRounds> {
    let direction = analysis.metric.direction;
    let find_in = |task: Option<usize>, values: &[Vec<f64>]| {
        let of_variant = |(variant, rounds): (usize, &Vec<f64>)| {
            find_slow_rounds(rounds, direction).filter(|_| !analysis.grid.references.contains(&variant))
        };
        TaskSlowRounds { task, variants: values.iter().enumerate().map(of_variant).collect() }
    };
    let grid = analysis.grid.by_round();
    let mut tasks: Vec<TaskSlowRounds> = analysis
        .tasks_in_totals()
        .filter_map(|task| report.record.task_index(&task.task.id))
        .map(|task| find_in(Some(task), &grid.values[task]))
        .collect();
    tasks.sort_by(|a, b| b.excess().total_cmp(&a.excess()));
    let mut all_slow_rounds = vec![];
    if analysis.overall.as_ref().is_some_and(|overall| overall.task_count > 1) {
        all_slow_rounds.push(find_in(None, &grid.combined()));
    }
    all_slow_rounds.extend(tasks);
    all_slow_rounds.retain(|task_slow_rounds| task_slow_rounds.excess() > 0.0);
    all_slow_rounds
}

/// A sentence about the slow rounds of a task: `Over all tasks, xfs took more than 1.5 times its median in 3 of 22 rounds (at
/// most 2.9 times: 1.93 s instead of 0.66 s), ext4 in none.` `None` if no variant has slow rounds.
fn slow_rounds_sentence(report: &Report, analysis: &Analysis, task_slow_rounds: &TaskSlowRounds) -> Option<String> {
    let (record, metric) = (&report.record, &analysis.metric);
    let mut with_slow_rounds: Vec<(usize, &SlowRounds)> = vec![];
    let mut without_slow_rounds: Vec<String> = vec![];
    for (variant, slow_rounds) in task_slow_rounds.variants.iter().enumerate() {
        match slow_rounds {
            Some(slow_rounds) if !slow_rounds.slow.is_empty() => with_slow_rounds.push((variant, slow_rounds)),
            Some(_) => without_slow_rounds.push(record.variant_name(variant).to_string()),
            None => {}
        }
    }
    with_slow_rounds.sort_by(|(_, a), (_, b)| b.slow.len().cmp(&a.slow.len()).then(b.excess().total_cmp(&a.excess())));
    let predicate = match metric.direction {
        Direction::Higher => format!("had less than two thirds of its median {}", metric.id),
        _ if matches!(metric.unit, Unit::Seconds | Unit::Nanoseconds) => {
            format!("took more than {SLOW_FACTOR} times its median")
        }
        _ => format!("had more than {SLOW_FACTOR} times its median {}", metric.id),
    };
    let name = |variant: usize| record.variant_name(variant);
    let ((first, rounds_of_first), others) = with_slow_rounds.split_first()?;
    let mut parts =
        vec![format!("{} {predicate} in {}", name(*first), describe_slow_rounds(rounds_of_first, metric.unit))];
    for (variant, slow_rounds) in others.iter().take(MAX_NAMED_VARIANTS - 1) {
        parts.push(format!("{} in {}", name(*variant), describe_slow_rounds(slow_rounds, metric.unit)));
    }
    if with_slow_rounds.len() > MAX_NAMED_VARIANTS {
        parts.push(format!("{} in some", plural(with_slow_rounds.len() - MAX_NAMED_VARIANTS, "more variant")));
    }
    if !without_slow_rounds.is_empty() {
        parts.push(format!("{} in none", join_with_and(&without_slow_rounds)));
    }
    let scope = match task_slow_rounds.task {
        None => "Over all tasks".to_string(),
        Some(task) => format!("In {}", task_label(&record.tasks[task])),
    };
    let significant: Vec<String> = stalling_variants(report, analysis, task_slow_rounds)
        .into_iter()
        .map(|variant| name(variant).to_string())
        .collect();
    let mut text = format!("{scope}, {}.", parts.join(", "));
    if !significant.is_empty() {
        text.push_str(&format!(" Significantly more often than the others: {}.", join_with_and(&significant)));
    }
    Some(text)
}

/// The number of slow rounds, with the slowest: `3 of 22 rounds (at most 2.9 times: 1.93 s instead of 0.66 s)`.
fn describe_slow_rounds(slow_rounds: &SlowRounds, unit: Unit) -> String {
    let worst = slow_rounds.slow[0];
    let at_most = if slow_rounds.slow.len() == 1 { "" } else { "at most " };
    let factor =
        if worst.factor.is_finite() { format!("{} times: ", format_factor(worst.factor)) } else { String::new() };
    format!(
        "{} of {} ({at_most}{factor}{} instead of {})",
        slow_rounds.slow.len(),
        plural(slow_rounds.rounds, "round"),
        with_unit(worst.value, unit),
        with_unit(slow_rounds.median, unit)
    )
}

/// A factor with one decimal under 10, and without decimals from 10 on: `2.9`, `30`.
fn format_factor(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// The variants that have slow rounds significantly more often than the others. Empty before the run is complete, and for a
/// single task of several, because only the values over all tasks are tested.
fn stalling_variants(report: &Report, analysis: &Analysis, task_slow_rounds: &TaskSlowRounds) -> Vec<usize> {
    let grid = analysis.grid.by_round();
    if !report.record.status.complete {
        return vec![];
    }
    let mut values = match task_slow_rounds.task {
        None => grid.combined(),
        Some(task) if analysis.overall.as_ref().is_some_and(|overall| overall.task_count == 1) => {
            grid.values[task].clone()
        }
        Some(_) => return vec![],
    };
    for reference in &analysis.grid.references {
        values[*reference].clear();
    }
    variants_with_more_slow_rounds(&values, analysis.metric.direction, report.record.plan.seed)
}

/// The slow rounds by every metric as JSON. Rounds have the numbers of the run.
pub fn slow_rounds_json(report: &Report) -> Value {
    let mut entries = vec![];
    for analysis in &report.analyses {
        for task_slow_rounds in slow_rounds_by_task(report, analysis) {
            let stalling_variants = stalling_variants(report, analysis, &task_slow_rounds);
            for (variant, slow_rounds) in task_slow_rounds.variants.iter().enumerate() {
                let Some(slow_rounds) = slow_rounds else { continue };
                let round_json = |round: &SlowRound| {
                    json!({
                        "round": analysis.grid.by_round().rounds[round.column],
                        "value": round.value,
                        "times_median": round.factor,
                    })
                };
                entries.push(json!({
                    "metric": analysis.metric.id,
                    "unit": analysis.metric.unit,
                    "task": task_slow_rounds.task.map(|task| report.record.tasks[task].id.to_string()),
                    "variant": report.record.variant_name(variant),
                    "rounds": slow_rounds.rounds,
                    "median": slow_rounds.median,
                    "slow": slow_rounds.slow.iter().map(round_json).collect::<Vec<_>>(),
                    "significantly_more_often": stalling_variants.contains(&variant),
                }));
            }
        }
    }
    Value::Array(entries)
}

/// Adds a sentence for each variant and task with two speeds; in a brief report only for the clearest.
pub fn add_two_speeds(document: &mut Document, report: &Report, detail: Detail) {
    let sentences: Vec<String> = report.modes().iter().map(|modes| two_speeds_sentence(report, modes)).collect();
    let explanation = "Here the values of a variant fall into two clusters, more clearly than those of 95% of runs under any \
                       of six simulated noises. What is called associated may be cause or effect.";
    add_cases(document, detail, "Two speeds", sentences, explanation);
}

/// Sentences about a variant with two speeds, and about the conditions that go with them: `ext3 has two speeds at Split: 4.6 ms
/// in 8 rounds, 11 ms in 7. It is slow where it ran later in the round.`
fn two_speeds_sentence(report: &Report, modes: &Modes) -> String {
    let (unit, [high, low]) = speed_words(report);
    let [(lower, lower_rounds), (higher, higher_rounds)] =
        [0, 1].map(|index| (with_unit(modes.clusters[index].median, unit), modes.clusters[index].columns.len()));
    let mut text = format!(
        "{} has two {} at {}: {lower} in {}, {higher} in {higher_rounds}.",
        report.record.variant_name(modes.variant),
        if high == "slow" { "speeds" } else { "levels" },
        task_label(&report.record.tasks[modes.task]),
        plural(lower_rounds, "round"),
    );
    if let Some(later) = modes.correlates.later_is_higher {
        let when = if later { "later" } else { "earlier" };
        text.push_str(&format!(" It is {high} where it ran {when} in the round."));
    }
    if let Some(after) = modes.correlates.predecessor {
        text.push_str(&format!(" It is {high} more often after {}.", report.record.variant_name(after)));
    }
    match &modes.correlates.associated_reading {
        Some(AssociatedReading { reading, medians, unit }) => {
            let [lower, higher] = medians.map(|median| with_unit(median, *unit));
            let sentence = format!(" Associated: {reading} is {higher} in {high} rounds and {lower} in {low} ones.");
            text.push_str(&sentence);
        }
        None if modes.correlates.later_is_higher.is_none() && modes.correlates.predecessor.is_none() => {
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

/// The variants with two speeds as JSON. Rounds have the numbers of the run.
pub fn modes_json(report: &Report) -> Value {
    let record = &report.record;
    let modes_of_variant = |modes: &Modes| {
        let rounds = report.analyses.first().map_or(&[][..], |analysis| &analysis.grid.by_round().rounds);
        let clusters = modes.clusters.iter().map(|cluster| {
            let rounds: Vec<u32> = cluster.columns.iter().map(|column| rounds[*column]).collect();
            json!({ "median": cluster.median, "rounds": rounds })
        });
        json!({
            "variant": record.variant_name(modes.variant),
            "task": record.tasks[modes.task].id.to_string(),
            "clusters": clusters.collect::<Vec<_>>(),
            "later_is_higher": modes.correlates.later_is_higher,
            "higher_after": modes.correlates.predecessor.map(|variant| record.variant_name(variant)),
            "associated": modes.correlates.associated_reading,
        })
    };
    report.modes().iter().map(modes_of_variant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_slow_rounds_has_the_slowest_one() {
        let mut values = vec![0.7; 22];
        values[9] = 20.97;
        let count =
            |values: &[f64]| describe_slow_rounds(&find_slow_rounds(values, Direction::Lower).unwrap(), Unit::Seconds);
        assert_eq!(count(&values), "1 of 22 rounds (30 times: 21.0 s instead of 0.700 s)");
        values[3] = 1.4;
        assert_eq!(count(&values), "2 of 22 rounds (at most 30 times: 21.0 s instead of 0.700 s)");
    }
}
