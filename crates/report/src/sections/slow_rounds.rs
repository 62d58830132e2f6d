//! Rounds that differ much: how often each variant took much longer than in its own median round, and variants that do a task
//! at two speeds.

use crate::number::{plural, with_unit};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::{few_of, label, listed};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::modes::{AssociatedReading, Modes};
use fsarena_stats::slow_rounds::{SLOW, SlowRound, SlowRounds, slow_rounds, stalling};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The most sentences on a screen, and those of a full report. JSON has all.
const MAX_SENTENCES: [usize; 2] = [2, 12];
/// The most variants that a sentence names with their slow rounds.
const MAX_VARIANTS: usize = 4;

/// Slow rounds.
pub const SLOW_ROUNDS: Section = Section::new(Chapter::Answer, add_slow_rounds);

/// A sentence for all tasks and for each task that has slow rounds, by the first metric; the tasks that lost most first. In
/// brief a task is left out if all its slow rounds are slow over all tasks.
fn add_slow_rounds(document: &mut Document, report: &Report, detail: Detail) {
    let Some(analysis) = report.analyses.first() else { return };
    let mut found = slow_places(report, analysis);
    if detail < Detail::Full {
        let told: BTreeSet<(usize, usize)> =
            found.iter().filter(|place| place.task.is_none()).flat_map(SlowPlace::rounds).collect();
        found.retain(|place| place.task.is_none() || !place.rounds().all(|round| told.contains(&round)));
    }
    let sentences: Vec<String> =
        found.iter().filter_map(|place| slow_sentence(report, analysis, place)).collect();
    if detail < Detail::Full {
        return document.list(few_of(sentences, MAX_SENTENCES[0]));
    }
    if sentences.is_empty() {
        return;
    }
    document.heading(3, "Slow rounds");
    document.list(few_of(sentences, MAX_SENTENCES[1]));
    document.text(format!(
        "A round counts as slow where a variant needs more than {SLOW} times its own median. Typical ratios hardly change with \
         slow rounds; the ratio of mean cost counts them. Which variant stalls significantly more often is tested once, over \
         all tasks at the end of a run: values divided by the median of their variant are permuted within rounds."
    ));
}

/// Slow rounds of the variants over all tasks, or in one.
struct SlowPlace<'a> {
    /// The task, by its index into the run; `None` for all tasks together.
    task: Option<usize>,
    /// `[variant][round]`.
    values: &'a [Vec<f64>],
    /// For each variant; `None` if it has too few rounds.
    variants: Vec<Option<SlowRounds>>,
}

impl SlowPlace<'_> {
    /// Each slow round with its variant.
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

/// Where variants had slow rounds: first over all tasks, if there are several, then in the tasks, the costliest first.
fn slow_places<'a>(report: &Report, analysis: &'a Analysis) -> Vec<SlowPlace<'a>> {
    let direction = analysis.metric.direction;
    let place = |task: Option<usize>, values: &'a [Vec<f64>]| {
        let of_variant = |(variant, rounds): (usize, &Vec<f64>)| {
            slow_rounds(rounds, direction).filter(|_| !analysis.grid.references.contains(&variant))
        };
        SlowPlace { task, values, variants: values.iter().enumerate().map(of_variant).collect() }
    };
    let mut tasks: Vec<SlowPlace> = analysis
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
fn slow_sentence(report: &Report, analysis: &Analysis, place: &SlowPlace) -> Option<String> {
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
    let mut parts = vec![format!("{} {what} in {}", name(*first), slow_count(of_first, metric.unit))];
    parts.extend(
        slow[1..]
            .iter()
            .take(MAX_VARIANTS - 1)
            .map(|(variant, found)| format!("{} in {}", name(*variant), slow_count(found, metric.unit))),
    );
    parts.extend((slow.len() > MAX_VARIANTS).then(|| plural(slow.len() - MAX_VARIANTS, "more variant")));
    parts.extend((!none.is_empty()).then(|| format!("{} in none", listed(&none))));
    let where_ = match place.task {
        None => "Over all tasks".to_string(),
        Some(task) => format!("In {}", label(&record.tasks[task])),
    };
    let significant: Vec<String> =
        stalling_variants(report, analysis, place).into_iter().map(|at| name(at).to_string()).collect();
    let mut text = format!("{where_}, {}.", parts.join(", "));
    if !significant.is_empty() {
        text.push_str(&format!(" Significantly more often than the others: {}.", listed(&significant)));
    }
    Some(text)
}

/// `3 of 22 rounds (at most 2.9 times: 1.93 s instead of 0.66 s)`.
fn slow_count(found: &SlowRounds, unit: Unit) -> String {
    let worst = found.slow[0];
    let most = if found.slow.len() == 1 { "" } else { "at most " };
    let times =
        if worst.times.is_finite() { format!("{} times: ", two_digits(worst.times)) } else { String::new() };
    format!(
        "{} of {} ({most}{times}{} instead of {})",
        found.slow.len(),
        plural(found.rounds, "round"),
        with_unit(worst.value, unit),
        with_unit(found.median, unit)
    )
}

/// Two significant digits or all whole ones: `2.9`, `30`.
fn two_digits(times: f64) -> String {
    if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") }
}

/// The variants that stall significantly more often. None before the run has ended; of several tasks only all together are
/// tested.
fn stalling_variants(report: &Report, analysis: &Analysis, place: &SlowPlace) -> Vec<usize> {
    let whole = place.task.is_none() || analysis.overall.as_ref().is_some_and(|overall| overall.tasks == 1);
    if !report.record.status.complete || !whole {
        return vec![];
    }
    let mut values = place.values.to_vec();
    for reference in &analysis.grid.references {
        values[*reference].clear();
    }
    stalling(&values, analysis.metric.direction, report.record.plan.seed)
}

/// The slow rounds by every metric, rounds as the run counts them.
pub fn slow_rounds_json(report: &Report) -> Value {
    let mut all = vec![];
    for analysis in &report.analyses {
        for place in slow_places(report, analysis) {
            let stalls = stalling_variants(report, analysis, &place);
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

/// The most sentences of a full report. JSON has all.
const MAX_MODES: usize = 12;

/// Variants with two speeds.
pub const MODES: Section = Section::new(Chapter::Answer, add_modes);

/// A sentence for each; in brief the clearest.
fn add_modes(document: &mut Document, report: &Report, detail: Detail) {
    let sentences: Vec<String> = report.modes().iter().map(|modes| mode_sentence(report, modes)).collect();
    if detail < Detail::Full {
        document.list(few_of(sentences, 2));
    } else if !sentences.is_empty() {
        document.heading(3, "Two speeds");
        document.list(few_of(sentences, MAX_MODES));
        document.text(
            "Here the values of a variant fall into two clusters, more clearly than those of 95% of runs under any of six \
             simulated noises. What is called associated may be cause or effect.",
        );
    }
}

/// `ext3, Split: two speeds (4.6 ms in 8 rounds, 11 ms in 7). The slow rounds have 3.1 times the device_write_bytes.`
fn mode_sentence(report: &Report, modes: &Modes) -> String {
    let (unit, [high, low]) = speed_words(report);
    let [(lower, in_lower), (higher, in_higher)] =
        [0, 1].map(|at| (with_unit(modes.clusters[at].median, unit), modes.clusters[at].columns.len()));
    let mut text = format!(
        "{} has two {} at {}: {lower} in {}, {higher} in {in_higher}.",
        report.record.name(modes.variant),
        if high == "slow" { "speeds" } else { "levels" },
        label(&report.record.tasks[modes.task]),
        plural(in_lower, "round"),
    );
    if let Some(later) = modes.why.later_is_higher {
        let when = if later { "later" } else { "earlier" };
        text.push_str(&format!(" It is {high} where it ran {when} in the round."));
    }
    if let Some(after) = modes.why.after {
        text.push_str(&format!(" It is {high} more often after {}.", report.record.name(after)));
    }
    match &modes.why.associated {
        Some(AssociatedReading { reading, medians, unit }) => {
            let [lower, higher] = medians.map(|median| with_unit(median, *unit));
            let words =
                format!(" Associated: {reading} is {higher} in {high} rounds and {lower} in {low} ones.");
            text.push_str(&words);
        }
        None if modes.why.later_is_higher.is_none() && modes.why.after.is_none() => {
            text.push_str(" No reading and no order goes with it.");
        }
        None => {}
    }
    text
}

/// The unit of the first metric, and what people call high and low values of it.
fn speed_words(report: &Report) -> (Unit, [&'static str; 2]) {
    let metric = report.analyses.first().map(|analysis| &analysis.metric);
    let unit = metric.map_or(Unit::Ratio, |metric| metric.unit);
    let time = matches!(unit, Unit::Seconds | Unit::Nanoseconds);
    match metric.map(|metric| metric.direction) {
        Some(Direction::Lower) if time => (unit, ["slow", "fast"]),
        Some(Direction::Higher) => (unit, ["fast", "slow"]),
        _ => (unit, ["high", "low"]),
    }
}

/// The modes as JSON, rounds as the run counts them.
pub fn modes_json(report: &Report) -> Value {
    let record = &report.record;
    let one = |modes: &Modes| {
        let rounds = report.analyses.first().map_or(&[][..], |analysis| &analysis.grid.rounds);
        let clusters = modes.clusters.iter().map(|cluster| {
            let rounds: Vec<u32> = cluster.columns.iter().map(|column| rounds[*column]).collect();
            json!({ "median": cluster.median, "rounds": rounds })
        });
        json!({
            "variant": record.name(modes.variant),
            "task": record.tasks[modes.task].id.to_string(),
            "clusters": clusters.collect::<Vec<_>>(),
            "later_is_higher": modes.why.later_is_higher,
            "higher_after": modes.why.after.map(|variant| record.name(variant)),
            "associated": modes.why.associated,
        })
    };
    report.modes().iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_round_is_told_with_its_value() {
        let mut values = vec![0.7; 22];
        values[9] = 20.97;
        let told =
            |values: &[f64]| slow_count(&slow_rounds(values, Direction::Lower).unwrap(), Unit::Seconds);
        assert_eq!(told(&values), "1 of 22 rounds (30 times: 21.0 s instead of 0.700 s)");
        values[3] = 1.4;
        assert_eq!(told(&values), "2 of 22 rounds (at most 30 times: 21.0 s instead of 0.700 s)");
    }
}
