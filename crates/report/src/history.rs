//! The history of a metric over runs: its level in each, where it changed, and whether later runs confirm that.
//!
//! Machines drift from run to run, so a variant is followed by its ratio to another variant of the same rounds, the
//! reference; where there is none, by its own values. Changes are those of [`fsarena_stats::change_point`].

mod chart;
mod point;
mod words;

use crate::document::{Document, Table, row};
use crate::{difference::ratio_cell, number::with_unit, page::Page, words::begun};
use fsarena_stats::change_point::{Change, Standing, changes};
use serde_json::{Value, json};

pub use point::{Asked, Point, point};

/// The most runs that are followed: the last.
pub const MOST: usize = 200;

/// The variant that others are best compared with: the first of those that most runs have beside them.
pub fn reference<'a>(variant: &str, variants_of_runs: impl Iterator<Item = &'a [String]>) -> Option<String> {
    let runs: Vec<&[String]> =
        variants_of_runs.filter(|variants| variants.iter().any(|name| name == variant)).collect();
    let others = runs.iter().flat_map(|variants| variants.iter()).filter(|name| *name != variant);
    // Of several maxima the last is taken, which is the first from behind.
    others.rev().max_by_key(|name| runs.iter().filter(|variants| variants.contains(name)).count()).cloned()
}

/// Puts the points of runs together, whatever their order. Runs of other work than the last are left out and counted.
pub fn history(asked: &Asked, mut points: Vec<Point>) -> Page {
    points.sort_by(|a, b| a.started.cmp(&b.started).then(a.run.cmp(&b.run)));
    let all = points.len();
    let last = points.last().map(|point| point.work);
    points.retain(|point| Some(point.work) == last);
    let other_work = all - points.len();
    let paired = points.iter().any(|point| point.ratio.is_some());
    let comparable = points.len();
    points.retain(|point| point.level(paired).is_finite());
    let unpaired = comparable - points.len();
    points.drain(..points.len().saturating_sub(MOST));
    let levels: Vec<f64> = points.iter().map(|point| point.level(paired)).collect();
    let changes = changes(&levels);

    let mut document = Document::default();
    document.heading(1, words::title(asked, paired));
    document.list(words::changes(asked, &points, &changes, paired));
    document.text(words::left_out(other_work, unpaired));
    document.charts((points.len() > 1).then(|| chart::chart(asked, &points, &changes, paired)));
    document.heading(2, "Runs, newest first");
    document.table(table(asked, &points, &changes, paired));
    document.text(words::METHOD);
    let json = as_json(asked, &points, &changes, paired);
    Page { document, json }
}

fn table(asked: &Asked, points: &[Point], changes: &[Change], paired: bool) -> Table {
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
        let standing = change.map_or(String::new(), words::standing);
        row.extend(row![point.rounds.to_string(), point.machine.as_str(), standing]);
        table.rows.push(row);
    }
    table
}

fn as_json(asked: &Asked, points: &[Point], changes: &[Change], paired: bool) -> Value {
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
            "standing": words::standing(change),
        })
    };
    json!({
        "study": asked.study, "variant": asked.variant, "reference": asked.reference.as_ref().filter(|_| paired),
        "metric": points.last().map(|point| &point.info),
        "runs": points.iter().map(point).collect::<Vec<_>>(),
        "changes": changes.iter().map(change).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::document::Part;
    use crate::document::terminal::Screen;
    use crate::drawing::{Dash, Look, Shape, colour::VERMILLION};
    use fsarena_core::record::MetricSpec;
    use fsarena_core::sample::{Direction, Unit};
    use fsarena_stats::ratio::Ratio;

    pub(crate) fn asked(reference: Option<&str>) -> Asked {
        Asked {
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
