//! The history of a metric over runs: its level in each, where it changed, and whether later runs confirm that.
//!
//! Machines drift from run to run, so a variant is followed by its ratio to another variant of the same rounds, the
//! reference; where there is none, by its own values. Changes are those of [`fsarena_stats::change_point`].

use crate::document::{Document, Table, row};
use crate::drawing::{Anchor, Axis, Chart, Dash, Key, Look, Mark, Panel, Sign};
use crate::number::{self, plural, three, with_unit};
use crate::page::Page;
use crate::words::{begun, machines};
use crate::{chart_context::widen_range, difference::ratio_cell, drawing::colour::theme, error::Error};
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
    document.charts((points.len() > 1).then(|| history_chart(asked, &points, &changes, paired)));
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

/// The metric and the variant that a history follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HistoryQuery {
    /// The study or plan.
    pub study: String,
    /// The metric.
    pub metric: String,
    /// The variant.
    pub variant: String,
    /// The variant that it is compared with in every round; `None` for the values of the variant themselves.
    pub reference: Option<String>,
}

/// One run of a history.
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
    /// A hash of the work: runs with other work are not compared.
    work: u64,
    /// The variant over the reference, within rounds.
    pub ratio: Option<Ratio>,
    /// The median over rounds of all tasks together.
    pub median: f64,
    /// The typical value of these rounds, with its interval; `None` for one round.
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

/// The point of a run; `None` if it lacks the variant or has no value of it.
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

/// Height of a panel in CSS pixels.
const HEIGHT: u32 = 280;
/// The share of it that is kept free above all intervals, for what is written there.
const FREE: f64 = 0.12;

/// The chart of at least two runs.
pub fn history_chart(asked: &HistoryQuery, points: &[Point], changes: &[Change], paired: bool) -> Chart {
    let about = "One point a run, oldest first, with its 95% interval (under 8 rounds the extremes seen, of one round \
                 none); that of a median is of the typical value. The level lines are between changes. A solid upright \
                 is a change that later runs confirmed, a broken one a change that is suspected.";
    let mut panels = vec![];
    if paired {
        panels.push(ratio_panel(asked, points, changes));
    }
    panels.push(median_panel(asked, points, if paired { &[] } else { changes }));
    // Variants have their colour and shape from the last run: the next may have others beside them.
    let look = points[points.len() - 1].look;
    let legend = vec![
        Key::new("a run", look.colour, Sign::Point(look.shape)),
        Key::new("level", theme::INK, Sign::Line(Dash::Solid)),
        Key::new("confirmed change", theme::INK, Sign::Upright(Dash::Solid)),
        Key::new("suspected change", theme::INK, Sign::Upright(Dash::Long)),
    ];
    Chart { panels, legend, ..Chart::new("history", heading(asked, paired), about) }
}

/// The variant over the reference, on the logarithm.
fn ratio_panel(asked: &HistoryQuery, points: &[Point], changes: &[Change]) -> Panel {
    let reached = points.iter().filter_map(|point| point.ratio).flat_map(|ratio| [ratio.low, ratio.high]);
    let (low, high) = widen_range((0.0, 0.0), reached.map(f64::ln));
    let reference = asked.reference.as_deref().unwrap_or_default();
    let y = with_room(Axis::changes(format!("{} over {reference}", asked.variant), low, high));
    let marks = point_marks(&y, points, changes, |point| Some((point.ratio?.value, point.ratio)));
    Panel::new("", date_axis(points), y, HEIGHT, marks)
}

/// The variant's own values, and a line through them.
fn median_panel(asked: &HistoryQuery, points: &[Point], changes: &[Change]) -> Panel {
    let medians = || points.iter().map(|point| point.median);
    let reached =
        points.iter().filter_map(|point| point.typical).flat_map(|typical| [typical.low, typical.high]);
    // Zero has no place on the axis: an interval from there begins at its end.
    let (low, high) = widen_range((f64::INFINITY, 0.0), medians().chain(reached.filter(|end| *end > 0.0)));
    let label = format!("{} of {}", asked.metric, asked.variant);
    let y = with_room(Axis::log_in(label, low / 1.05, high * 1.05, points[0].info.unit));
    let line: Vec<_> = medians().enumerate().map(|(at, median)| (at as f64, median)).collect();
    let mut all = vec![Mark::line(line, theme::SHADE, 1.0)];
    all.extend(point_marks(&y, points, changes, |point| Some((point.median, point.typical))));
    Panel::new("Median over rounds", date_axis(points), y, HEIGHT - 60, all)
}

/// The value of each run with its interval, the changes, and the levels between them.
fn point_marks(
    y: &Axis,
    points: &[Point],
    changes: &[Change],
    of: impl Fn(&Point) -> Option<(f64, Option<Ratio>)>,
) -> Vec<Mark> {
    let look = points[points.len() - 1].look;
    // An axis that is not logarithmic itself has logarithms as its coordinates.
    let place = |value: f64| if y.log { value } else { value.ln() };
    let mut marks = change_marks(y, changes);
    for (at, point) in (0..).map(f64::from).zip(points) {
        let Some((value, interval)) = of(point) else { continue };
        let interval = interval.filter(|interval| interval.rounds > 1);
        marks.extend(interval.map(|interval| look.interval(at, (place(interval.low), place(interval.high)))));
        marks.extend(look.dots([(at, place(value))]));
    }
    marks.extend(level_lines(points.len(), changes, |log| place(log.exp())));
    marks
}

/// An axis that goes on above all there is, for words.
fn with_room(mut y: Axis) -> Axis {
    let (low, high) = y.range;
    y.range.1 = if y.log { high * (high / low).powf(FREE) } else { high + FREE * (high - low) };
    y
}

/// The runs by their dates; where some are of one day, `11-22 10:14`.
fn date_axis(points: &[Point]) -> Axis {
    let day = |point: &Point| point.started.chars().take(10).collect::<String>();
    let days_repeat = points.windows(2).any(|two| day(&two[0]) == day(&two[1]));
    let date = |at: f64| match points.get(at as usize).filter(|_| at >= 0.0 && at.fract() == 0.0) {
        Some(point) if days_repeat => begun(&point.started).chars().skip(5).collect(),
        Some(point) => day(point),
        None => String::new(),
    };
    Axis { grid: false, ..Axis::linear("runs, oldest first", -0.5, points.len() as f64 - 0.5, date) }
}

fn change_marks(y: &Axis, changes: &[Change]) -> Vec<Mark> {
    let mut marks = vec![];
    for change in changes {
        let (dash, word) = match change.standing {
            Standing::Confirmed { .. } => (Dash::Solid, "confirmed"),
            Standing::Suspected { .. } => (Dash::Long, "suspected"),
        };
        let x = change.at as f64 - 0.5;
        let points = vec![(x, y.range.0), (x, y.range.1)];
        marks.push(Mark::Line { points, colour: theme::INK, width: 2.0, dash });
        marks.push(Mark::words((x, y.range.1), (4, 10), word, theme::INK, Anchor::Start));
    }
    marks
}

/// The level before, between and after changes. Without a change there is none to show.
fn level_lines(runs: usize, changes: &[Change], place: impl Fn(f64) -> f64) -> Vec<Mark> {
    let Some(first) = changes.first() else { return vec![] };
    let until = || changes.iter().map(|change| change.at).chain([runs]);
    let starts = std::iter::once(0).chain(until());
    let heights = std::iter::once(first.before).chain(changes.iter().map(|change| change.after));
    let level = |((from, to), log): ((usize, usize), f64)| {
        let y = place(log);
        Mark::line([(from as f64 - 0.5, y), (to as f64 - 0.5, y)], theme::INK, 1.5)
    };
    starts.zip(until()).zip(heights).map(level).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::drawing::{Shape, svg};
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

    fn chart_of(page: Page) -> Chart {
        let chart = |part| match part {
            Part::Chart(chart) => Some(*chart),
            _ => None,
        };
        page.document.parts.into_iter().find_map(chart).expect("a chart")
    }

    #[test]
    fn it_is_drawn_with_its_changes_and_any_text() {
        let hostile = HistoryQuery { variant: "<script>".into(), ..asked(Some("ext4")) };
        let chart = chart_of(history(&hostile, points(&STEP)));
        assert_eq!(chart.panels.len(), 2);
        let svg = svg::inline(&chart);
        assert!(svg.contains("confirmed") && svg.contains("2026-11-01") && !svg.contains("<script"), "{svg}");
    }

    #[test]
    fn a_variant_keeps_its_look_and_every_point_its_interval() {
        let chart = chart_of(history(&asked(Some("ext4")), points(&STEP)));
        let (mut ups, mut dots) = (0, 0);
        for panel in &chart.panels {
            let top = |mark: &Mark| match mark {
                Mark::VerticalInterval { y, .. } => y.1,
                _ => f64::NEG_INFINITY,
            };
            let highest = panel.marks.iter().map(top).fold(f64::NEG_INFINITY, f64::max);
            assert!(
                panel.y.share(panel.y.range.1) > panel.y.share(highest),
                "words stand above all intervals"
            );
            for mark in &panel.marks {
                match mark {
                    Mark::VerticalInterval { colour, .. } => {
                        assert_eq!(*colour, VERMILLION);
                        ups += 1;
                    }
                    Mark::Dot { colour, shape, .. } => {
                        assert_eq!((*colour, *shape), (VERMILLION, Shape::Square));
                        dots += 1;
                    }
                    Mark::Line { colour, .. } => assert!([theme::INK, theme::SHADE].contains(colour)),
                    _ => {}
                }
            }
        }
        assert_eq!((ups, dots), (2 * STEP.len(), 2 * STEP.len()));
    }

    #[test]
    fn without_a_reference_the_values_are_followed() {
        let values: Vec<_> = points(&STEP)
            .into_iter()
            .map(|mut point| {
                point.median = point.ratio.take().unwrap().value;
                point
            })
            .collect();
        let history = history(&asked(None), values);
        assert_eq!(history.json["changes"][0]["run"], "run-08");
        let chart = chart_of(history);
        assert_eq!(chart.panels.len(), 1);
        assert!(svg::inline(&chart).contains("confirmed"));
    }
}
