//! Modes: variants that do a task at two speeds, and what goes with them.

use crate::number::{plural, with_unit};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::{few_of, label};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::modes::{AssociatedReading, Modes};
use serde_json::{Value, json};

/// The most sentences of a full report. JSON has all.
const MOST: usize = 12;

/// Variants with two speeds.
pub const SECTION: Section = Section::new(Chapter::Answer, add);

/// A sentence for each; in brief the clearest.
fn add(document: &mut Document, report: &Report, detail: Detail) {
    let sentences: Vec<String> = report.modes().iter().map(|modes| sentence(report, modes)).collect();
    if detail < Detail::Full {
        document.list(few_of(sentences, 2));
    } else if !sentences.is_empty() {
        document.heading(3, "Two speeds");
        document.list(few_of(sentences, MOST));
        document.text(
            "Here the values of a variant fall into two clusters, more clearly than those of 95% of runs under any of six \
             simulated noises. What is called associated may be cause or effect.",
        );
    }
}

/// `ext3, Split: two speeds (4.6 ms in 8 rounds, 11 ms in 7). The slow rounds have 3.1 times the device_write_bytes.`
fn sentence(report: &Report, modes: &Modes) -> String {
    let (unit, [high, low]) = words(report);
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
            let words = format!(
                " AssociatedReading: {reading} is {higher} in {high} rounds and {lower} in {low} ones."
            );
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
fn words(report: &Report) -> (Unit, [&'static str; 2]) {
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
pub fn json(report: &Report) -> Value {
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
