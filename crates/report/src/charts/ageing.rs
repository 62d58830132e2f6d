//! Charts of runs on aged filesystems: what a task costs over the age, and over the layout of the files.

use crate::chart_context::{ChartContext, ratio_point};
use crate::drawing::{Axis, Chart, Panel, SeriesPoint, axis::trimmed};
use crate::words::task_label;
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::factor::{AGE, age};
use fsarena_core::metric::layout::{BEFORE, DYNAMIC_SCORE};
use fsarena_core::observations::Grid;
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::{analyse::Analysis, comparison::median};
use std::collections::BTreeMap;

/// The most tasks that have a panel. Of more tasks, only all of them together have one.
const MAX_TASKS: usize = 6;

/// The kind and the amount of an age: `pulls` and 1000 for `git:1000`. None for a variant that is not aged.
fn age_amount(variant: &Variant) -> Option<(&'static str, f64)> {
    Some(match age::parse(variant.level(AGE)).ok()?? {
        age::Age::Churn { percent } => ("times its size written", f64::from(percent) / 100.0),
        age::Age::Git { pulls } => ("pulls", f64::from(pulls)),
        age::Age::Command { runs, .. } => ("runs of the command", f64::from(runs)),
    })
}

/// The variants that differ in age only: the fresh one, and the others by the kind of their age, in ascending order.
struct AgeSeries {
    fresh: usize,
    aged: BTreeMap<&'static str, Vec<(f64, usize)>>,
}

fn age_series(variants: &[Variant]) -> Vec<AgeSeries> {
    let others = |variant: &Variant| {
        let mut levels = variant.levels.clone();
        levels.remove(AGE);
        levels
    };
    let mut all = vec![];
    for (fresh, plain) in variants.iter().enumerate().filter(|(_, variant)| age_amount(variant).is_none()) {
        let mut aged: BTreeMap<_, Vec<(f64, usize)>> = BTreeMap::new();
        for (at, variant) in variants.iter().enumerate() {
            if let Some((kind, amount)) = age_amount(variant).filter(|_| others(variant) == others(plain)) {
                aged.entry(kind).or_default().push((amount, at));
            }
        }
        aged.values_mut().for_each(|variants| variants.sort_by(|a, b| a.0.total_cmp(&b.0)));
        if !aged.is_empty() {
            all.push(AgeSeries { fresh, aged });
        }
    }
    all
}

/// The values of all tasks together and of single tasks, each with a title.
fn task_values<'a>(context: &ChartContext, analysis: &'a Analysis) -> Vec<(String, &'a [Vec<f64>])> {
    let tasks: Vec<_> = analysis.tasks().filter(|task| task.excluded.is_none()).collect();
    let mut titled = vec![];
    if let Some(overall) = analysis.overall.as_ref().filter(|overall| overall.tasks > 1) {
        titled.push((format!("{} of {}", overall.name, overall.scope()), overall.main().values.as_slice()));
    }
    if tasks.len() <= MAX_TASKS {
        for task in tasks {
            let at = context.record().task(&task.task.id);
            titled.extend(at.map(|at| (task_label(&task.task), analysis.grid.values[at].as_slice())));
        }
    }
    titled
}

/// For each kind of age a chart with a panel for each task: the value of each aged variant divided by that of the fresh one.
pub fn age_charts(context: &ChartContext) -> Vec<Chart> {
    let series = age_series(&context.record().variants);
    let Some(analysis) = context.report.analyses.first().filter(|_| !series.is_empty()) else {
        return vec![];
    };
    let kinds: BTreeMap<&str, ()> =
        series.iter().flat_map(|one| one.aged.keys()).map(|kind| (*kind, ())).collect();
    let chart = |kind: &str| {
        let panels = task_values(context, analysis).into_iter();
        let panels = panels.filter_map(|(title, values)| age_panel(context, &series, kind, title, values));
        let about = format!(
            "{} of each aged filesystem divided by that of the same filesystem with the same files copied fresh, within rounds. \
             Bars are 95% intervals over images or rounds; with fewer than 8, the smallest and the largest value.",
            analysis.metric.id
        );
        let drawn = series.iter().filter(|one| one.aged.contains_key(kind));
        let legend = drawn.map(|one| context.looks[one.fresh].key(context.name(one.fresh))).collect();
        let id = format!("age-{}", kind.replace(' ', "-"));
        let chart = Chart::new(id, format!("{} over age: {kind}", analysis.metric.id), about);
        Chart { legend, ..chart.in_pairs(panels.collect()) }
    };
    kinds.into_keys().map(chart).collect()
}

fn age_panel(
    context: &ChartContext,
    series: &[AgeSeries],
    kind: &str,
    title: String,
    values: &[Vec<f64>],
) -> Option<Panel> {
    let (mut marks, mut all) = (vec![], vec![]);
    for one in series {
        let mut points = vec![SeriesPoint { x: 0.0, y: 1.0, interval: None }];
        for (amount, variant) in one.aged.get(kind).into_iter().flatten() {
            let ratio = Ratio::of(log_ratios(&values[one.fresh], &values[*variant]).d);
            points.extend(ratio.map(|ratio| ratio_point(*amount, ratio.value, Some(ratio))));
        }
        if points.len() > 1 {
            marks.extend(context.looks[one.fresh].series(&points, 1.5));
            all.extend(points);
        }
    }
    let oldest = all.iter().map(|point| point.x).fold(0.0, f64::max);
    let (low, high) = SeriesPoint::vertical_range(&all, (1.0, 1.0));
    (oldest > 0.0).then(|| {
        let x = Axis::linear(kind, 0.0, 1.04 * oldest, trimmed);
        let y = Axis::log("aged / fresh", 0.97 * low, 1.03 * high, |at| format!("{}×", trimmed(at)));
        Panel::new(title, x, y, 260, marks)
    })
}

/// A chart with a panel for each task: the value of each variant over the dynamic layout score of its files before the work.
pub fn layout_charts(context: &ChartContext) -> Vec<Chart> {
    let record = context.record();
    let Some(analysis) = context.report.analyses.first() else { return vec![] };
    let Some(task) = record.task(&TaskId::new(BEFORE)) else { return vec![] };
    let Some(grid) = Grid::of(record, DYNAMIC_SCORE) else { return vec![] };
    let scores: Vec<Option<f64>> = grid.values[task].iter().map(|scores| median(scores)).collect();
    let drawn = context.variants(|variant| scores[variant].is_some());
    if drawn.len() < 2 {
        return vec![];
    }
    let unit = analysis.metric.unit;
    let panel = |(title, values): (String, &[Vec<f64>])| {
        let (mut marks, mut all) = (vec![], vec![]);
        for variant in &drawn {
            let (Some(x), Some(y)) = (scores[*variant], median(&values[*variant])) else { continue };
            let point = ratio_point(x, y, Ratio::typical_value(&values[*variant]));
            marks.extend(context.looks[*variant].points(&[point]));
            all.push(point);
        }
        let (_, most) = SeriesPoint::vertical_range(&all, (0.0, 0.0));
        let x = Axis::linear("dynamic layout score before the work", 0.0, 1.02, trimmed);
        let y = Axis::from_zero(analysis.metric.id.clone(), most, unit);
        Panel::new(title, x, y, 260, marks)
    };
    let panels = task_values(context, analysis).into_iter().map(panel).collect();
    let about = format!(
        "Median {} of each variant over the dynamic layout score of its files: the share of blocks that follow the block read \
         before, if all files are read in the order of their directories. Bars are 95% intervals of the typical value.{}",
        analysis.metric.id,
        context.not_drawn(&drawn, "no layout")
    );
    let title = format!("{} over the layout of the files", analysis.metric.id);
    vec![Chart {
        legend: context.legend(&drawn, true),
        ..Chart::new("layout", title, about).in_pairs(panels)
    }]
}
