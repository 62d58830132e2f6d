//! The history of a metric over runs: its level in each run, where the level changed, and whether later runs confirm the
//! change.
//!
//! Machines drift from run to run. So the history follows the ratio of a variant to a reference, another variant measured
//! in the same rounds. Without a reference it follows the values of the variant. [`fsarena_stats::change_point`] finds the
//! changes.

use crate::document::{Document, Table, row};
use crate::drawing::{Anchor, Axis, Chart, Dash, KeySign, LegendKey, Mark, Panel, SeriesStyle};
use crate::number::{self, plural, three_digits, with_unit};
use crate::page::Page;
use crate::phrases::{describe_machines, format_start_time};
use crate::{chart_context::widen_range, drawing::colour::theme, error::Error, ratio_verdict::ratio_cell};
use fsarena_core::observations::combine_tasks;
pub use fsarena_core::record::HistoryQuery;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::Direction;
use fsarena_stats::change_point::{Change, Confirmation, SHORTEST_SEGMENT, find_changes};
use fsarena_stats::comparison::median;
use fsarena_stats::ratio::{Ratio, log_ratios};
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// The largest number of runs in a history, the newest ones. Callers read no older runs.
pub const MAX_RUNS: usize = 200;

/// Chooses the reference for a variant: the other variant that the most runs measured together with it. Of several with
/// the same count it is the first. `None` if the variant is in no run, or never beside another.
pub fn choose_reference<'a>(variant: &str, variants_of_runs: impl Iterator<Item = &'a [String]>) -> Option<String> {
    let runs: Vec<&[String]> =
        variants_of_runs.filter(|variants| variants.iter().any(|name| name == variant)).collect();
    let others = runs.iter().flat_map(|variants| variants.iter()).filter(|name| *name != variant);
    // `max_by_key` returns the last of several maxima; in reverse order that is the first.
    others.rev().max_by_key(|name| runs.iter().filter(|variants| variants.contains(name)).count()).cloned()
}

/// Makes the page of a history from the points of its runs, in any order. Runs whose work differs from the newest run's are
/// left out; the page has their number.
pub fn history_page(query: &HistoryQuery, points: Vec<HistoryPoint>) -> Page {
    let runs = ComparableRuns::select(points);
    let mut document = Document::default();
    document.heading(1, runs.title(query));
    document.list(runs.change_sentences(query));
    document.text(runs.left_out_note());
    if !runs.points.is_empty() && !runs.follows_ratio {
        document.text(missing_reference_note(query));
    }
    document.charts((runs.points.len() > 1).then(|| runs.chart(query)));
    document.heading(2, "Runs, newest first");
    document.table(runs.table(query));
    document.text(METHOD_NOTE);
    Page { document, json: runs.json(query) }
}

/// The runs of a history that can be compared, oldest first.
struct ComparableRuns {
    points: Vec<HistoryPoint>,
    changes: Vec<Change>,
    /// Whether the history follows the ratio to the reference; else it follows the medians of the variant.
    follows_ratio: bool,
    /// The number of runs that are left out for other work.
    runs_of_other_work: usize,
    /// The number of runs that are left out because they have no round with values of both the variant and the reference.
    runs_without_ratio: usize,
}

impl ComparableRuns {
    /// Selects the newest of the runs with the same work as the newest run, and finds the changes among them.
    fn select(mut points: Vec<HistoryPoint>) -> ComparableRuns {
        points.sort_by(|a, b| a.started.cmp(&b.started).then(a.run.cmp(&b.run)));
        let all_runs = points.len();
        let newest_work = points.last().map(|point| point.work_hash);
        points.retain(|point| Some(point.work_hash) == newest_work);
        let runs_of_same_work = points.len();
        let runs_of_other_work = all_runs - runs_of_same_work;
        let follows_ratio = points.iter().any(|point| point.ratio.is_some());
        points.retain(|point| point.ln_level(follows_ratio).is_finite());
        let runs_without_ratio = runs_of_same_work - points.len();
        points.drain(..points.len().saturating_sub(MAX_RUNS));
        let levels: Vec<f64> = points.iter().map(|point| point.ln_level(follows_ratio)).collect();
        let changes = find_changes(&levels);
        ComparableRuns { points, changes, follows_ratio, runs_of_other_work, runs_without_ratio }
    }

    /// The indexes of the runs on each level, oldest first: before the first change, between the changes, and after the last.
    fn runs_by_level(&self) -> Vec<Range<usize>> {
        let change_indexes = || self.changes.iter().map(|change| change.index);
        let starts = std::iter::once(0).chain(change_indexes());
        starts.zip(change_indexes().chain([self.points.len()])).map(|(start, end)| start..end).collect()
    }
}

/// A change of a history, with the runs on both of its levels.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelChange {
    /// The id of the first run on the new level.
    pub first_run: String,
    /// The change of the natural logarithm of the level.
    pub ln_change: f64,
    /// The ids of the runs on the level before the change, newest first.
    pub runs_before: Vec<String>,
    /// The ids of the runs on the level after the change, newest first.
    pub runs_after: Vec<String>,
    /// The ids of the runs at which a shorter history may have had this same change, newest first. Later runs can move a
    /// change by up to [`SHORTEST_SEGMENT`] − 1 runs.
    pub runs_nearby: Vec<String>,
    /// Whether later runs confirm that the level changed.
    pub confirmed: bool,
    /// Where the change is and how large it is, in a sentence.
    pub sentence: String,
}

/// Finds the changes of a history, oldest first. The points may be in any order.
pub fn find_changes_of_history(points: Vec<HistoryPoint>) -> Vec<LevelChange> {
    let runs = ComparableRuns::select(points);
    let points = &runs.points;
    let newest_first =
        |range: &Range<usize>| points[range.clone()].iter().rev().map(|point| point.run.clone()).collect::<Vec<_>>();
    let mut level_changes = vec![];
    for (change, levels) in runs.changes.iter().zip(runs.runs_by_level().windows(2)) {
        let nearby_start = change.index.saturating_sub(SHORTEST_SEGMENT - 1);
        let nearby_end = (change.index + SHORTEST_SEGMENT).min(points.len());
        level_changes.push(LevelChange {
            first_run: points[change.index].run.clone(),
            ln_change: change.median_after - change.median_before,
            runs_before: newest_first(&levels[0]),
            runs_after: newest_first(&levels[1]),
            runs_nearby: newest_first(&(nearby_start..nearby_end)),
            confirmed: is_confirmed(change),
            sentence: describe_change(points, change, runs.follows_ratio),
        });
    }
    level_changes
}

/// One run of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPoint {
    /// The id of the run.
    pub run: String,
    /// When the run started, RFC 3339.
    pub started: String,
    /// The machine and its kernel.
    pub machine: String,
    /// The metric that the history follows.
    pub metric: MetricSpec,
    /// A hash of the work: runs with other work are not compared.
    work_hash: u64,
    /// The ratio of the variant to the reference, paired by round; `None` if no round has values of both.
    pub ratio: Option<Ratio>,
    /// The median over the rounds, in the metric's unit; a round's value combines all tasks.
    pub median: f64,
    /// The typical value of a round with its 95% interval, in the metric's unit ([`Ratio::typical_value`]; despite its type
    /// it is not a ratio). `None` for one round.
    pub typical_value: Option<Ratio>,
    /// The colour and the shape of the variant in the report of the run.
    pub style: SeriesStyle,
    /// The number of rounds with a value.
    pub rounds: usize,
}

impl HistoryPoint {
    /// The natural logarithm of the value that the history follows: of the ratio if `follows_ratio` (NaN without a ratio), else
    /// of the median.
    fn ln_level(&self, follows_ratio: bool) -> f64 {
        if follows_ratio { self.ratio.map_or(f64::NAN, |ratio| ratio.value.ln()) } else { self.median.ln() }
    }
}

/// Computes the point of a run; `None` if the run has no variant of that name, or no positive value of the metric for it.
///
/// # Errors
/// If the metric is unknown.
pub fn history_point(record: &RunRecord, query: &HistoryQuery) -> Result<Option<HistoryPoint>, Error> {
    let Some(variant) = record.variant_index(&query.variant) else { return Ok(None) };
    let (metric, values_by_variant) = combine_tasks(record, &query.metric)?;
    let Some(values) = values_by_variant.get(variant) else { return Ok(None) };
    let Some(median) = median(values).filter(|median| *median > 0.0) else { return Ok(None) };
    let reference = query.reference.as_deref().and_then(|name| record.variant_index(name));
    let ratio =
        reference.and_then(|reference| Ratio::from_log_ratios(log_ratios(&values_by_variant[reference], values).d));
    Ok(Some(HistoryPoint {
        run: record.id.clone(),
        started: record.started.clone(),
        machine: describe_machines(record),
        metric,
        work_hash: work_hash(record),
        ratio,
        median,
        typical_value: Ratio::typical_value(values),
        style: SeriesStyle::of_variants(&record.variants)[variant],
        rounds: values.iter().filter(|value| !value.is_nan()).count(),
    }))
}

/// A hash of the scale, the workloads and the kind of backing device.
fn work_hash(record: &RunRecord) -> u64 {
    let mut hasher = DefaultHasher::new();
    let plan = &record.plan;
    json!([plan.scale, plan.workloads, json!(plan.device.backing)["kind"]]).to_string().hash(&mut hasher);
    hasher.finish()
}

/// The note below the table: how fsarena finds and confirms changes.
const METHOD_NOTE: &str = "Changes are found by E-divisive over one value a run (the Hodges–Lehmann estimate of its \
    ratios; without a reference, its median), at 5%, in at most the newest 200 runs. A change is confirmed if the \
    next three runs after it was first found lie significantly beyond the old level (Mann–Whitney, one-sided, 5%). Until \
    then, or if they do not, it is suspected. A question mark after a ratio means fewer than 8 rounds.";

impl ComparableRuns {
    /// The title of the history: `study: metric of variant over reference, within rounds`.
    fn title(&self, query: &HistoryQuery) -> String {
        let against = match &query.reference {
            Some(reference) if self.follows_ratio => format!(" over {reference}, within rounds"),
            _ => String::new(),
        };
        format!("{}: {} of {}{against}", query.study, query.metric, query.variant)
    }

    /// Sentences about each change, or one sentence that no run or no change was found.
    fn change_sentences(&self, query: &HistoryQuery) -> Vec<String> {
        if self.points.is_empty() {
            return vec![format!("No run of {} has {} of {}.", query.study, query.metric, query.variant)];
        }
        if self.changes.is_empty() {
            return vec![format!("No change was found over {}.", plural(self.points.len(), "run"))];
        }
        let sentence = |change| {
            format!("{} {}", describe_confirmation(change), describe_change(&self.points, change, self.follows_ratio))
        };
        self.changes.iter().map(sentence).collect()
    }

    /// States how many runs the history leaves out, and why; empty if none.
    fn left_out_note(&self) -> String {
        let other_work =
            "the scale, the settings of the work or the kind of device differ from those of the newest run";
        let no_ratio = "no round has values of both the variant and the reference";
        let mut sentences = vec![];
        for (count, why) in [(self.runs_of_other_work, other_work), (self.runs_without_ratio, no_ratio)] {
            if count > 0 {
                sentences.push(format!("{} left out: {why}.", plural(count, "run")));
            }
        }
        sentences.join(" ")
    }

    /// The table of the runs, newest first.
    fn table(&self, query: &HistoryQuery) -> Table {
        let mut header = vec!["run".to_string(), "begun".into(), format!("{} of {}", query.metric, query.variant)];
        header.extend(self.follows_ratio.then(|| ratio_label(query)));
        header.extend(["rounds", "machine", "change"].map(String::from));
        let mut table = Table::of_words(header);
        for (index, point) in self.points.iter().enumerate().rev() {
            let mut row =
                row![point.run.as_str(), format_start_time(&point.started), with_unit(point.median, point.metric.unit)];
            if let Some(ratio) = point.ratio {
                row.push(ratio_cell(ratio, if ratio.provisional { " ?" } else { "" }));
            }
            let change = self.changes.iter().find(|change| change.index == index);
            let confirmation = change.map_or(String::new(), describe_confirmation);
            row.extend(row![point.rounds.to_string(), point.machine.as_str(), confirmation]);
            table.rows.push(row);
        }
        table
    }

    fn json(&self, query: &HistoryQuery) -> Value {
        let point_json = |point: &HistoryPoint| {
            json!({
                "run": point.run, "started": point.started, "machine": point.machine, "rounds": point.rounds,
                "median": point.median,
                "ratio": point.ratio,
            })
        };
        let change_json = |change: &Change| {
            json!({
                "run": self.points[change.index].run, "before": change.median_before.exp(),
                "after": change.median_after.exp(), "p": change.p_value,
                "confirmed": is_confirmed(change),
                "standing": describe_confirmation(change),
            })
        };
        json!({
            "study": query.study, "variant": query.variant,
            "reference": query.reference.as_ref().filter(|_| self.follows_ratio),
            "metric": self.points.last().map(|point| &point.metric),
            "runs": self.points.iter().map(point_json).collect::<Vec<_>>(),
            "changes": self.changes.iter().map(change_json).collect::<Vec<_>>(),
        })
    }
}

/// The name of the ratio that a history follows: `xfs over ext4`.
fn ratio_label(query: &HistoryQuery) -> String {
    format!("{} over {}", query.variant, query.reference.as_deref().unwrap_or_default())
}

/// Where a change lies and how large it is: `Since run RUN (2026-11-22 10:14): 1.02 → 1.05 (+2.9%, worse).`
fn describe_change(points: &[HistoryPoint], change: &Change, follows_ratio: bool) -> String {
    let (point, previous_point) = (&points[change.index], &points[change.index - 1]);
    let factor = (change.median_after - change.median_before).exp();
    let judgement = match point.metric.direction {
        Direction::Neutral => "",
        // Values can change their spread only.
        _ if factor == 1.0 => "",
        Direction::Lower if factor < 1.0 => ", better",
        Direction::Higher if factor > 1.0 => ", better",
        _ => ", worse",
    };
    let format_level = |ln_level: f64| {
        let level = ln_level.exp();
        if follows_ratio { three_digits(level) } else { with_unit(level, point.metric.unit) }
    };
    let machine_note = if point.machine == previous_point.machine {
        String::new()
    } else {
        format!(" With it the machine changed: {} → {}.", previous_point.machine, point.machine)
    };
    format!(
        "Since run {} ({}): {} → {} ({}{judgement}).{machine_note}",
        point.run,
        format_start_time(&point.started),
        format_level(change.median_before),
        format_level(change.median_after),
        number::percent_change(factor),
    )
}

/// Whether later runs confirmed a change.
fn is_confirmed(change: &Change) -> bool {
    matches!(change.confirmation, Confirmation::Confirmed { .. })
}

/// Whether later runs confirmed a change, in words.
fn describe_confirmation(change: &Change) -> String {
    match change.confirmation {
        Confirmation::Confirmed { p } => format!("Confirmed by later runs (p = {}).", three_digits(p)),
        Confirmation::Suspected { missing_values: 0 } => "Suspected: later runs did not confirm it.".into(),
        Confirmation::Suspected { missing_values } => {
            format!("Suspected: {} can confirm it.", plural(missing_values, "more run"))
        }
    }
}

/// For a history that follows medians: states why, if the query names a reference; else empty.
fn missing_reference_note(query: &HistoryQuery) -> String {
    let Some(reference) = &query.reference else { return String::new() };
    let variant = &query.variant;
    format!("No run has a ratio of {variant} to {reference}, so this history follows the medians of {variant}.")
}

/// Height of a panel in CSS pixels.
const PANEL_HEIGHT: u32 = 280;
/// Share of the axis added above all intervals, for the labels of the changes.
const HEADROOM_SHARE: f64 = 0.12;

impl ComparableRuns {
    /// The chart of at least two runs.
    fn chart(&self, query: &HistoryQuery) -> Chart {
        let caption = "One point for each run, oldest first, with its 95% interval (with fewer than 8 rounds, the smallest and \
                     the largest value; with one round, none). The interval around a median is that of the \
                     Hodges–Lehmann estimate (the typical value of a round). The level lines show the median level before, \
                     between and after the changes. A solid upright line is a change that later runs confirmed, a broken one \
                     a change that is suspected.";
        let mut panels = vec![];
        panels.extend(self.follows_ratio.then(|| self.ratio_panel(query)));
        panels.push(self.median_panel(query));
        let style = self.newest_style();
        let legend = vec![
            LegendKey::new("a run", style.colour, KeySign::Point(style.shape)),
            LegendKey::new("level", theme::INK, KeySign::Line(Dash::Solid)),
            LegendKey::new("confirmed change", theme::INK, KeySign::VerticalLine(Dash::Solid)),
            LegendKey::new("suspected change", theme::INK, KeySign::VerticalLine(Dash::Dashed)),
        ];
        Chart { panels, legend, ..Chart::new("history", self.title(query), caption) }
    }

    /// The style of the variant in the newest run: in each run its colour and shape depend on the other variants.
    fn newest_style(&self) -> SeriesStyle {
        self.points[self.points.len() - 1].style
    }

    /// The panel of ratios to the reference. Its vertical axis has natural logarithms as coordinates.
    fn ratio_panel(&self, query: &HistoryQuery) -> Panel {
        let ratios = || self.points.iter().filter_map(|point| point.ratio);
        let (low, high) = widen_range((0.0, 0.0), ratios().flat_map(|ratio| [ratio.low, ratio.high]).map(f64::ln));
        let y = with_headroom(Axis::of_log_ratios(ratio_label(query), low, high));
        let marks = self.marks(&y, ratios().map(|ratio| (ratio.value, Some(ratio))), true);
        Panel::new("", date_axis(&self.points), y, PANEL_HEIGHT, marks)
    }

    /// The panel of the variant's medians, with a line through them.
    fn median_panel(&self, query: &HistoryQuery) -> Panel {
        let points = &self.points;
        let medians = || points.iter().map(|point| point.median);
        let interval_ends =
            points.iter().filter_map(|point| point.typical_value).flat_map(|value| [value.low, value.high]);
        // A logarithmic axis has no zero: an interval that starts at 0 is drawn from the end of the axis.
        let (low, high) = widen_range((f64::INFINITY, 0.0), medians().chain(interval_ends.filter(|end| *end > 0.0)));
        let label = format!("{} of {}", query.metric, query.variant);
        let y = with_headroom(Axis::log_in_unit(label, low / 1.05, high * 1.05, points[0].metric.unit));
        let line: Vec<_> = medians().enumerate().map(|(index, median)| (index as f64, median)).collect();
        let mut marks = vec![Mark::line(line, theme::GREY, 1.0)];
        let values = points.iter().map(|point| (point.median, point.typical_value));
        marks.extend(self.marks(&y, values, !self.follows_ratio));
        Panel::new("Median over rounds", date_axis(points), y, PANEL_HEIGHT - 60, marks)
    }

    /// Marks for the value of each run with its interval, and, if `shows_changes`, for the changes and the levels between them.
    fn marks(&self, y: &Axis, values: impl Iterator<Item = (f64, Option<Ratio>)>, shows_changes: bool) -> Vec<Mark> {
        let style = self.newest_style();
        // The axis of ratios is linear, with logarithms as its coordinates.
        let coordinate = |value: f64| if y.is_log { value } else { value.ln() };
        let mut marks = if shows_changes { change_marks(y, &self.changes) } else { vec![] };
        for (x, (value, interval)) in (0..).map(f64::from).zip(values) {
            if let Some(interval) = interval.filter(|interval| interval.rounds > 1) {
                marks.push(style.interval_mark(x, (coordinate(interval.low), coordinate(interval.high))));
            }
            marks.extend(style.dot_marks([(x, coordinate(value))]));
        }
        if shows_changes {
            marks.extend(self.level_lines(|ln_level| coordinate(ln_level.exp())));
        }
        marks
    }

    /// Horizontal lines at the levels before, between and after the changes; none without a change. `coordinate` converts the
    /// natural logarithm of a level to a coordinate of the vertical axis.
    fn level_lines(&self, coordinate: impl Fn(f64) -> f64) -> Vec<Mark> {
        let Some(first) = self.changes.first() else { return vec![] };
        let later_levels = self.changes.iter().map(|change| change.median_after);
        let line = |(runs, ln_level): (Range<usize>, f64)| {
            let y = coordinate(ln_level);
            Mark::line([(runs.start as f64 - 0.5, y), (runs.end as f64 - 0.5, y)], theme::INK, 1.5)
        };
        let ln_levels = std::iter::once(first.median_before).chain(later_levels);
        self.runs_by_level().into_iter().zip(ln_levels).map(line).collect()
    }
}

/// Extends an axis upwards, to leave room for labels above all marks.
fn with_headroom(mut y: Axis) -> Axis {
    let (low, high) = y.range;
    y.range.1 = if y.is_log { high * (high / low).powf(HEADROOM_SHARE) } else { high + HEADROOM_SHARE * (high - low) };
    y
}

/// The horizontal axis: one run a unit, labelled with its date, or with date and time (`11-22 10:14`, with the year if
/// the runs are of several years) if two runs have the same date.
fn date_axis(points: &[HistoryPoint]) -> Axis {
    let day = |point: &HistoryPoint| point.started.chars().take(10).collect::<String>();
    let days_repeat = points.windows(2).any(|pair| day(&pair[0]) == day(&pair[1]));
    let year = |point: &HistoryPoint| point.started.chars().take(4).collect::<String>();
    let years_differ = points.windows(2).any(|pair| year(&pair[0]) != year(&pair[1]));
    let left_out_chars = if years_differ { 0 } else { "2026-".len() };
    let label = |x: f64| match points.get(x as usize).filter(|_| x >= 0.0 && x.fract() == 0.0) {
        Some(point) if days_repeat => format_start_time(&point.started).chars().skip(left_out_chars).collect(),
        Some(point) => day(point),
        None => String::new(),
    };
    Axis { has_grid_lines: false, ..Axis::linear("runs, oldest first", -0.5, points.len() as f64 - 0.5, label) }
}

/// A vertical line and a word for each change, half way between the last run before it and the first run after it.
fn change_marks(y: &Axis, changes: &[Change]) -> Vec<Mark> {
    let mut marks = vec![];
    for change in changes {
        let (dash, word) = match change.confirmation {
            Confirmation::Confirmed { .. } => (Dash::Solid, "confirmed"),
            Confirmation::Suspected { .. } => (Dash::Dashed, "suspected"),
        };
        let x = change.index as f64 - 0.5;
        let ends = vec![(x, y.range.0), (x, y.range.1)];
        marks.push(Mark::Line { points: ends, colour: theme::INK, width: 2.0, dash });
        marks.push(Mark::text((x, y.range.1), (4, 10), word, theme::INK, Anchor::Start));
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::{PointShape, svg};
    use crate::{document::Part, document::terminal::Screen, drawing::colour::VERMILLION};
    use fsarena_core::sample::Unit;

    fn query(reference: Option<&str>) -> HistoryQuery {
        HistoryQuery {
            study: "piszcz".into(),
            metric: "elapsed".into(),
            variant: "xfs".into(),
            reference: reference.map(String::from),
        }
    }

    /// Points of runs with these ratios to the reference. The kernel changes after the eighth run.
    fn points(ratios: &[f64]) -> Vec<HistoryPoint> {
        let metric = MetricSpec::new("elapsed".into(), Unit::Seconds, Direction::Lower, String::new());
        let point = |(index, value): (usize, &f64)| HistoryPoint {
            run: format!("run-{index:02}"),
            started: format!("2026-11-{:02}T10:00:00.000Z", index + 1),
            machine: if index < 8 { "h, Linux 6.17" } else { "h, Linux 6.18" }.into(),
            metric: metric.clone(),
            work_hash: 7,
            ratio: Some(Ratio { value: *value, low: value * 0.98, high: value * 1.02, rounds: 9, provisional: false }),
            median: 2.0,
            typical_value: Some(Ratio { value: 2.0, low: 1.9, high: 2.1, rounds: 9, provisional: false }),
            style: SeriesStyle { colour: VERMILLION, shape: PointShape::Square, dash: Dash::Solid },
            rounds: 9,
        };
        ratios.iter().enumerate().map(point).collect()
    }

    /// Eight runs at one level, seven at another.
    const RATIOS_WITH_STEP: [f64; 15] =
        [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.015, 1.3, 1.31, 1.29, 1.32, 1.28, 1.3, 1.31];

    fn render_markdown(page: &Page) -> String {
        let mut out = vec![];
        page.write("md", Screen::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn has_chart(page: &Page) -> bool {
        page.document.parts.iter().any(|part| matches!(part, Part::Chart(_)))
    }

    #[test]
    fn the_page_names_the_run_the_kernels_and_the_confirmation_of_a_change() {
        let page = history_page(&query(Some("ext4")), points(&RATIOS_WITH_STEP));
        let json = &page.json;
        assert_eq!((&json["changes"][0]["run"], &json["changes"][0]["confirmed"]), (&json!("run-08"), &json!(true)));
        let text = render_markdown(&page);
        assert!(text.contains("Confirmed") && text.contains("run-08") && text.contains("6.17 → "), "{text}");
        assert!(text.contains("worse"), "{text}");
        assert!(has_chart(&page));
    }

    #[test]
    fn labels_with_a_time_have_a_year_if_the_runs_are_of_several_years() {
        let mut points = points(&[1.0, 1.0, 1.0]);
        points[1].started = points[0].started.clone();
        let first_label =
            |points: &[HistoryPoint]| date_axis(points).ticks.into_iter().find(|(x, _)| *x == 0.0).unwrap().1;
        assert_eq!(first_label(&points[..]), "11-01 10:00");
        points[0].started = "2025-11-01T10:00:00.000Z".into();
        points[1].started = points[0].started.clone();
        assert_eq!(first_label(&points[..]), "2025-11-01 10:00");
    }

    #[test]
    fn a_change_that_leaves_the_median_is_neither_better_nor_worse() {
        let sentence = |median_after: f64| {
            let confirmation = Confirmation::Suspected { missing_values: 3 };
            let change =
                Change { index: 8, median_before: 0.0, median_after, p_value: 0.01, prefix_length: 11, confirmation };
            describe_change(&points(&RATIOS_WITH_STEP), &change, true)
        };
        assert!(!sentence(0.0).contains("worse") && sentence(0.1).contains(", worse)"), "{}", sentence(0.0));
    }

    #[test]
    fn runs_of_other_work_are_left_out_and_the_order_of_points_does_not_matter() {
        let mut all = points(&RATIOS_WITH_STEP);
        all[3].work_hash = 9;
        all[4].ratio = None;
        let mut reversed = all.clone();
        reversed.reverse();
        let page = history_page(&query(Some("ext4")), all);
        assert_eq!(page, history_page(&query(Some("ext4")), reversed));
        assert_eq!(page.json["runs"].as_array().unwrap().len(), 13);
        assert!(render_markdown(&page).contains("left out"));
    }

    #[test]
    fn a_history_of_no_run_or_one_run_has_no_chart() {
        assert!(!has_chart(&history_page(&query(None), vec![])));
        let page_of_one_run = history_page(&query(None), points(&[1.0]));
        assert_eq!(page_of_one_run.json["runs"][0]["median"], 2.0);
        assert!(!has_chart(&page_of_one_run));
    }

    #[test]
    fn the_reference_is_the_variant_that_most_runs_have() {
        let runs = [vec!["xfs", "btrfs", "ext4"], vec!["ext4", "xfs"], vec!["ext3", "btrfs"]];
        let runs: Vec<Vec<String>> = runs.map(|variants| variants.into_iter().map(String::from).collect()).into();
        assert_eq!(choose_reference("xfs", runs.iter().map(Vec::as_slice)), Some("ext4".into()));
        assert_eq!(choose_reference("jfs", runs.iter().map(Vec::as_slice)), None);
    }

    fn chart_of(page: Page) -> Chart {
        let chart = |part| match part {
            Part::Chart(chart) => Some(*chart),
            _ => None,
        };
        page.document.parts.into_iter().find_map(chart).expect("a chart")
    }

    #[test]
    fn the_chart_marks_changes_and_escapes_hostile_names() {
        let hostile = HistoryQuery { variant: "<script>".into(), ..query(Some("ext4")) };
        let chart = chart_of(history_page(&hostile, points(&RATIOS_WITH_STEP)));
        assert_eq!(chart.panels.len(), 2);
        let svg = svg::inline_svg(&chart);
        assert!(svg.contains("confirmed") && svg.contains("2026-11-01") && !svg.contains("<script"), "{svg}");
    }

    #[test]
    fn every_point_has_its_interval_and_the_variant_one_colour_and_shape() {
        let chart = chart_of(history_page(&query(Some("ext4")), points(&RATIOS_WITH_STEP)));
        let (mut intervals, mut dots) = (0, 0);
        for panel in &chart.panels {
            let top = |mark: &Mark| match mark {
                Mark::VerticalInterval { y, .. } => y.1,
                _ => f64::NEG_INFINITY,
            };
            let highest = panel.marks.iter().map(top).fold(f64::NEG_INFINITY, f64::max);
            assert!(
                panel.y_axis.fraction_at(panel.y_axis.range.1) > panel.y_axis.fraction_at(highest),
                "words stand above all intervals"
            );
            for mark in &panel.marks {
                match mark {
                    Mark::VerticalInterval { colour, .. } => {
                        assert_eq!(*colour, VERMILLION);
                        intervals += 1;
                    }
                    Mark::Dot { colour, shape, .. } => {
                        assert_eq!((*colour, *shape), (VERMILLION, PointShape::Square));
                        dots += 1;
                    }
                    Mark::Line { colour, .. } => assert!([theme::INK, theme::GREY].contains(colour)),
                    _ => {}
                }
            }
        }
        assert_eq!((intervals, dots), (2 * RATIOS_WITH_STEP.len(), 2 * RATIOS_WITH_STEP.len()));
    }

    #[test]
    fn without_a_reference_the_history_follows_the_medians() {
        let values: Vec<_> = points(&RATIOS_WITH_STEP)
            .into_iter()
            .map(|mut point| {
                point.median = point.ratio.take().unwrap().value;
                point
            })
            .collect();
        let markdown = render_markdown(&history_page(&query(Some("jfs")), values.clone()));
        assert!(markdown.contains("No run has a ratio of xfs to jfs"), "{markdown}");
        let history = history_page(&query(None), values);
        assert!(!render_markdown(&history).contains("No run has"));
        assert_eq!(history.json["changes"][0]["run"], "run-08");
        let chart = chart_of(history);
        assert_eq!(chart.panels.len(), 1);
        assert!(svg::inline_svg(&chart).contains("confirmed"));
    }
}
