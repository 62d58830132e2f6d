//! The history of a metric over runs: its level in each, where it changed, and whether later runs confirm that.
//!
//! Machines drift from run to run, so a variant is followed by its ratio to another variant of the same rounds, the
//! reference; where there is none, by its own values. Changes are those of [`fsarena_stats::change_point`].

mod chart;

use crate::document::{Document, Page, Table, row};
use crate::number::{self, plural, three, with_unit};
use crate::words::{begun, machines};
use crate::{difference::ratio_cell, drawing::Look, error::Error};
use fsarena_core::observations::combine_tasks;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::Direction;
use fsarena_stats::change_point::{Change, Standing, changes};
use fsarena_stats::comparison::median;
use fsarena_stats::ratio::{Ratio, log_ratios};
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most runs that are followed: the last.
pub const MAX_RUNS: usize = 200;

/// The variant that others are best compared with: the first of those that most runs have beside them.
pub fn reference<'a>(variant: &str, variants_of_runs: impl Iterator<Item = &'a [String]>) -> Option<String> {
    let runs: Vec<&[String]> =
        variants_of_runs.filter(|variants| variants.iter().any(|name| name == variant)).collect();
    let others = runs.iter().flat_map(|variants| variants.iter()).filter(|name| *name != variant);
    // Of several maxima the last is taken, which is the first from behind.
    others.rev().max_by_key(|name| runs.iter().filter(|variants| variants.contains(name)).count()).cloned()
}

/// Puts the points of runs together, whatever their order. Runs of other work than the last are left out and counted.
pub fn history(asked: &HistoryQuery, mut points: Vec<Point>) -> Page {
    points.sort_by(|a, b| a.started.cmp(&b.started).then(a.run.cmp(&b.run)));
    let all = points.len();
    let last = points.last().map(|point| point.work);
    points.retain(|point| Some(point.work) == last);
    let other_work = all - points.len();
    let paired = points.iter().any(|point| point.ratio.is_some());
    let comparable = points.len();
    points.retain(|point| point.level(paired).is_finite());
    let unpaired = comparable - points.len();
    points.drain(..points.len().saturating_sub(MAX_RUNS));
    let levels: Vec<f64> = points.iter().map(|point| point.level(paired)).collect();
    let changes = changes(&levels);

    let mut document = Document::default();
    document.heading(1, heading(asked, paired));
    document.list(change_sentences(asked, &points, &changes, paired));
    document.text(left_out_note(other_work, unpaired));
    document.charts((points.len() > 1).then(|| chart::chart(asked, &points, &changes, paired)));
    document.heading(2, "Runs, newest first");
    document.table(table(asked, &points, &changes, paired));
    document.text(METHOD);
    let json = as_json(asked, &points, &changes, paired);
    Page { document, json }
}

fn table(asked: &HistoryQuery, points: &[Point], changes: &[Change], paired: bool) -> Table {
    let what = match &asked.reference {
        Some(reference) if paired => format!("{} over {reference}", asked.variant),
        _ => String::new(),
    };
    let mut header =
        vec!["run".to_string(), "begun".into(), format!("{} of {}", asked.metric, asked.variant)];
    header.extend(paired.then_some(what));
    header.extend(["rounds", "machine", "level"].map(String::from));
    let mut table = Table::words(header);
    for (at, point) in points.iter().enumerate().rev() {
        let mut row =
            row![point.run.as_str(), begun(&point.started), with_unit(point.median, point.info.unit)];
        row.extend(
            point
                .ratio
                .filter(|_| paired)
                .map(|ratio| ratio_cell(ratio, if ratio.provisional { " ?" } else { "" })),
        );
        let change = changes.iter().find(|change| change.at == at);
        let standing = change.map_or(String::new(), standing_words);
        row.extend(row![point.rounds.to_string(), point.machine.as_str(), standing]);
        table.rows.push(row);
    }
    table
}

fn as_json(asked: &HistoryQuery, points: &[Point], changes: &[Change], paired: bool) -> Value {
    let point = |point: &Point| {
        json!({
            "run": point.run, "started": point.started, "machine": point.machine, "rounds": point.rounds,
            "median": point.median,
            "ratio": point.ratio,
        })
    };
    let change = |change: &Change| {
        json!({
            "run": points[change.at].run, "before": change.before.exp(), "after": change.after.exp(), "p": change.p,
            "confirmed": matches!(change.standing, Standing::Confirmed { .. }),
            "standing": standing_words(change),
        })
    };
    json!({
        "study": asked.study, "variant": asked.variant, "reference": asked.reference.as_ref().filter(|_| paired),
        "metric": points.last().map(|point| &point.info),
        "runs": points.iter().map(point).collect::<Vec<_>>(),
        "changes": changes.iter().map(change).collect::<Vec<_>>(),
    })
}

/// What the history follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HistoryQuery {
    /// The study or plan.
    pub study: String,
    /// The metric.
    pub metric: String,
    /// The variant.
    pub variant: String,
    /// The variant that it is compared with in every round; none for the values of the variant themselves.
    pub reference: Option<String>,
}

/// What one run says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The run.
    pub run: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// The machine and its kernel.
    pub machine: String,
    /// The metric.
    pub info: MetricSpec,
    /// What the work was: runs of other work do not compare.
    work: u64,
    /// The variant over the reference, within rounds.
    pub ratio: Option<Ratio>,
    /// The median over rounds of all tasks together.
    pub median: f64,
    /// The typical value of these rounds, with its interval; None for one round.
    pub typical: Option<Ratio>,
    /// How the run's report draws the variant.
    pub look: Look,
    /// Rounds that have a value.
    pub rounds: usize,
}

impl Point {
    /// The value that is followed: a logarithm.
    fn level(&self, paired: bool) -> f64 {
        if paired { self.ratio.map_or(f64::NAN, |ratio| ratio.value.ln()) } else { self.median.ln() }
    }
}

/// What a run says of a variant; none where it has no such variant, or no value of it.
///
/// # Errors
/// Where nothing is called by the name of the metric.
pub fn point(record: &RunRecord, asked: &HistoryQuery) -> Result<Option<Point>, Error> {
    let Some(at) = record.variant(&asked.variant) else { return Ok(None) };
    let (info, values) = combine_tasks(record, &asked.metric)?;
    let Some(own) = values.get(at) else { return Ok(None) };
    let Some(median) = median(own).filter(|median| *median > 0.0) else { return Ok(None) };
    let reference = asked.reference.as_deref().and_then(|name| record.variant(name));
    let ratio = reference.and_then(|other| Ratio::of(log_ratios(&values[other], own).d));
    Ok(Some(Point {
        run: record.id.clone(),
        started: record.started.clone(),
        machine: machines(record),
        info,
        work: work_hash(record),
        ratio,
        median,
        typical: Ratio::typical(own),
        look: Look::of_variants(&record.variants)[at],
        rounds: own.iter().filter(|value| !value.is_nan()).count(),
    }))
}

/// The scale, the workloads and what carries the filesystems, in a number.
fn work_hash(record: &RunRecord) -> u64 {
    let mut hasher = DefaultHasher::new();
    let plan = &record.plan;
    json!([plan.scale, plan.workloads, json!(plan.device.backing)["kind"]]).to_string().hash(&mut hasher);
    hasher.finish()
}

/// How changes are found and confirmed.
pub const METHOD: &str = "Changes are found by E-divisive over one value a run (the Hodges–Lehmann estimate over its \
    rounds), at 5%. A change is confirmed when the next three runs after it was first seen lie on the new level \
    (Mann–Whitney, one-sided, 5%); until then it is suspected.";

/// The heading.
pub fn heading(asked: &HistoryQuery, paired: bool) -> String {
    let against = match &asked.reference {
        Some(reference) if paired => format!(" over {reference}, within rounds"),
        _ => String::new(),
    };
    format!("{}: {} of {}{against}", asked.study, asked.metric, asked.variant)
}

/// A sentence for each change, or one that there is none.
pub fn change_sentences(
    asked: &HistoryQuery,
    points: &[Point],
    changes: &[Change],
    paired: bool,
) -> Vec<String> {
    match (points, changes) {
        ([], _) => vec![format!("No run of {} has {} of {}.", asked.study, asked.metric, asked.variant)],
        (points, []) => vec![format!("No change was found over {}.", plural(points.len(), "run"))],
        (points, changes) => changes.iter().map(|change| change_sentence(points, change, paired)).collect(),
    }
}

fn change_sentence(points: &[Point], change: &Change, paired: bool) -> String {
    let (point, earlier) = (&points[change.at], &points[change.at - 1]);
    let factor = (change.after - change.before).exp();
    let better = match point.info.direction {
        Direction::Neutral => "",
        Direction::Lower if factor < 1.0 => ", better",
        Direction::Higher if factor > 1.0 => ", better",
        _ => ", worse",
    };
    let level = |log: f64| if paired { three(log.exp()) } else { with_unit(log.exp(), point.info.unit) };
    let machine = if point.machine == earlier.machine {
        String::new()
    } else {
        format!(" With it the machine changed: {} → {}.", earlier.machine, point.machine)
    };
    format!(
        "{} Since run {} ({}): {} → {} ({}{better}).{machine}",
        standing_words(change),
        point.run,
        begun(&point.started),
        level(change.before),
        level(change.after),
        number::change(factor),
    )
}

/// How a change stands.
pub fn standing_words(change: &Change) -> String {
    match change.standing {
        Standing::Confirmed { p } => format!("Confirmed by later runs (p = {}).", three(p)),
        Standing::Suspected { wanting: 0 } => "Suspected: later runs did not confirm it.".into(),
        Standing::Suspected { wanting } => format!("Suspected: {} will tell.", plural(wanting, "more run")),
    }
}

/// The runs left out of the history, and why.
pub fn left_out_note(other_work: usize, unpaired: usize) -> String {
    let mut words = vec![];
    if other_work > 0 {
        words.push(format!(
            "{} left out: of another scale, other settings of the work, or another kind of device than the last.",
            plural(other_work, "run")
        ));
    }
    if unpaired > 0 {
        words.push(format!("{} left out: without the reference.", plural(unpaired, "run")));
    }
    words.join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::drawing::{Dash, Shape};
    use crate::{document::Part, document::terminal::Screen, drawing::colour::VERMILLION};
    use fsarena_core::sample::Unit;

    pub(crate) fn asked(reference: Option<&str>) -> HistoryQuery {
        HistoryQuery {
            study: "piszcz".into(),
            metric: "elapsed".into(),
            variant: "xfs".into(),
            reference: reference.map(String::from),
        }
    }

    pub(crate) fn points(ratios: &[f64]) -> Vec<Point> {
        let info = MetricSpec::new("elapsed".into(), Unit::Seconds, Direction::Lower, String::new());
        let point = |(at, value): (usize, &f64)| Point {
            run: format!("run-{at:02}"),
            started: format!("2026-11-{:02}T10:00:00.000Z", at + 1),
            machine: if at < 8 { "h, Linux 6.17" } else { "h, Linux 6.18" }.into(),
            info: info.clone(),
            work: 7,
            ratio: Some(Ratio {
                value: *value,
                low: value * 0.98,
                high: value * 1.02,
                rounds: 9,
                provisional: false,
            }),
            median: 2.0,
            typical: Some(Ratio { value: 2.0, low: 1.9, high: 2.1, rounds: 9, provisional: false }),
            look: Look { colour: VERMILLION, shape: Shape::Square, dash: Dash::Solid },
            rounds: 9,
        };
        ratios.iter().enumerate().map(point).collect()
    }

    /// Eight runs at one level, seven at another.
    pub(crate) const STEP: [f64; 15] =
        [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.015, 1.3, 1.31, 1.29, 1.32, 1.28, 1.3, 1.31];

    fn md(page: &Page) -> String {
        let mut out = vec![];
        page.write("md", Screen::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn drawn(page: &Page) -> bool {
        page.document.parts.iter().any(|part| matches!(part, Part::Chart(_)))
    }

    #[test]
    fn a_change_is_told_with_its_run_its_kernel_and_its_confirmation() {
        let page = history(&asked(Some("ext4")), points(&STEP));
        let json = &page.json;
        assert_eq!(
            (&json["changes"][0]["run"], &json["changes"][0]["confirmed"]),
            (&json!("run-08"), &json!(true))
        );
        let text = md(&page);
        assert!(text.contains("Confirmed") && text.contains("run-08") && text.contains("6.17 → "), "{text}");
        assert!(text.contains("worse"), "{text}");
        assert!(drawn(&page));
    }

    #[test]
    fn other_work_is_left_out_and_counted_and_order_does_not_matter() {
        let mut all = points(&STEP);
        all[3].work = 9;
        all[4].ratio = None;
        let mut turned = all.clone();
        turned.reverse();
        let one = history(&asked(Some("ext4")), all);
        assert_eq!(one, history(&asked(Some("ext4")), turned));
        assert_eq!(one.json["runs"].as_array().unwrap().len(), 13);
        assert!(md(&one).contains("left out"));
    }

    #[test]
    fn nothing_and_one_run_are_a_history_too() {
        assert!(!drawn(&history(&asked(None), vec![])));
        let one = history(&asked(None), points(&[1.0]));
        assert_eq!(one.json["runs"][0]["median"], 2.0);
        assert!(!drawn(&one));
    }

    #[test]
    fn the_reference_is_the_variant_that_most_runs_have() {
        let runs = [vec!["xfs", "btrfs", "ext4"], vec!["ext4", "xfs"], vec!["ext3", "btrfs"]];
        let runs: Vec<Vec<String>> =
            runs.map(|variants| variants.into_iter().map(String::from).collect()).into();
        assert_eq!(reference("xfs", runs.iter().map(Vec::as_slice)), Some("ext4".into()));
        assert_eq!(reference("jfs", runs.iter().map(Vec::as_slice)), None);
    }
}
