//! Modes: variants that do a task at two speeds, and what goes with them.

use super::answer::{clipped, few_of};
use super::{Detail, Section, label};
use crate::document::{Chapter, Document};
use crate::number::{plural, with_unit};
use crate::report::Report;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::modes::{Associated, Modes};
use serde_json::{Value, json};

/// The most sentences of a full report. JSON has all.
const MOST: usize = 12;

/// Variants with two speeds.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// A sentence for each; in brief the clearest.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    let sentences: Vec<String> = report.modes().iter().map(|modes| sentence(report, modes)).collect();
    if detail < Detail::Full {
        document.list(few_of(sentences, 2).iter().map(|sentence| clipped(sentence)).collect());
    } else if !sentences.is_empty() {
        document.heading(3, "Two speeds");
        document.list(few_of(sentences, MOST));
        document.text(
            "Here the values of a variant fall into two clusters, more clearly than those of 95% of runs under any of six \
             simulated noises. What is called associated may be cause or effect.",
        );
    }
    document
}

/// `ext3, Split: two speeds (4.6 ms in 8 rounds, 11 ms in 7). The slow rounds have 3.1 times the device_write_bytes.`
fn sentence(report: &Report, modes: &Modes) -> String {
    let name = |variant: usize| report.record.variants[variant].name.as_str();
    let (unit, [high, low]) = words(report);
    let of = |at: usize| {
        let cluster = &modes.clusters[at];
        (with_unit(cluster.median, unit), cluster.columns.len())
    };
    let ((lower, in_lower), (higher, in_higher)) = (of(0), of(1));
    let mut text = format!(
        "{} has two {} at {}: {lower} in {}, {higher} in {in_higher}.",
        name(modes.variant),
        if high == "slow" { "speeds" } else { "levels" },
        label(&report.record.tasks[modes.task]),
        plural(in_lower, "round"),
    );
    if let Some(later) = modes.why.later_is_higher {
        let when = if later { "later" } else { "earlier" };
        text.push_str(&format!(" It is {high} where it ran {when} in the round."));
    }
    if let Some(after) = modes.why.after {
        text.push_str(&format!(" It is {high} more often after {}.", name(after)));
    }
    match &modes.why.associated {
        Some(associated) => text.push_str(&beside(associated, high, low)),
        None if modes.why.later_is_higher.is_none() && modes.why.after.is_none() => {
            text.push_str(" No reading and no order goes with it.");
        }
        None => {}
    }
    text
}

/// What else differs between the clusters.
fn beside(
    Associated { reading, medians: [lower, higher], unit }: &Associated,
    high: &str,
    low: &str,
) -> String {
    let (higher, lower) = (with_unit(*higher, *unit), with_unit(*lower, *unit));
    format!(" Associated: {reading} is {higher} in {high} rounds and {lower} in {low} ones.")
}

/// The unit of the first metric, and what people call high and low values of it.
fn words(report: &Report) -> (Unit, [&'static str; 2]) {
    let metric = report.analyses.first().map(|analysis| &analysis.metric);
    let unit = metric.map_or(Unit::Ratio, |metric| metric.unit);
    match metric.map(|metric| metric.direction) {
        Some(Direction::Lower) if matches!(unit, Unit::Seconds | Unit::Nanoseconds) => {
            (unit, ["slow", "fast"])
        }
        Some(Direction::Higher) => (unit, ["fast", "slow"]),
        _ => (unit, ["high", "low"]),
    }
}

/// The modes as JSON, rounds as the run counts them.
pub fn json(report: &Report) -> Value {
    let name = |variant: usize| report.record.variants[variant].name.as_str();
    let one = |modes: &Modes| {
        let rounds = report.analyses.first().map_or(&[][..], |analysis| &analysis.grid.rounds);
        let clusters = modes.clusters.iter().map(|cluster| {
            let rounds: Vec<u32> = cluster.columns.iter().map(|column| rounds[*column]).collect();
            json!({ "median": cluster.median, "rounds": rounds })
        });
        let associated =
            modes.why.associated.as_ref().map(
                |found| json!({ "reading": found.reading, "unit": found.unit, "medians": found.medians }),
            );
        json!({
            "variant": name(modes.variant),
            "task": report.record.tasks[modes.task].id.to_string(),
            "clusters": clusters.collect::<Vec<_>>(),
            "later_is_higher": modes.why.later_is_higher,
            "higher_after": modes.why.after.map(name),
            "associated": associated,
        })
    };
    report.modes().iter().map(one).collect()
}
