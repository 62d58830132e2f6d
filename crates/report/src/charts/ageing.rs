//! Charts of runs on aged filesystems: what a task costs over the age, and over the layout of the files.

use crate::chart_context::{ChartContext, ratio_point};
use crate::drawing::{Axis, Chart, Panel, SeriesPoint, axis::format_trimmed};
use crate::phrases::task_label;
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::factor::{AGE, age};
use fsarena_core::metric::layout::{BEFORE, DYNAMIC_SCORE};
use fsarena_core::observations::Grid;
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::{analyse::Analysis, comparison::median};
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of tasks with a panel each. A report of more tasks has only the panel of all tasks
/// together.
const MAX_TASKS: usize = 6;

/// The kind and the amount of an age: `pulls` and 1000 for `git:1000`. None for a variant that is not aged.
fn age_kind_and_amount(variant: &Variant) -> Option<(&'static str, f64)> {
    Some(match age::parse(variant.level(AGE)).ok()?? {
        age::Age::Churn { percent } => ("times its size written", f64::from(percent) / 100.0),
        age::Age::Git { pulls } => ("pulls", f64::from(pulls)),
        age::Age::Command { runs, .. } => ("runs of the command", f64::from(runs)),
    })
}

/// Variants that differ in age only: the fresh one, and the others by the kind of their age, in ascending
/// order.
struct AgeSeries {
    fresh: usize,
    aged: BTreeMap<&'static str, Vec<(f64, usize)>>,
}

fn age_series(variants: &[Variant]) -> Vec<AgeSeries> {
    let other_levels = |variant: &Variant| {
        let mut levels = variant.levels.clone();
        levels.remove(AGE);
        levels
    };
    let mut all_series = vec![];
    for (fresh, fresh_variant) in
        variants.iter().enumerate().filter(|(_, variant)| age_kind_and_amount(variant).is_none())
    {
        let mut aged: BTreeMap<_, Vec<(f64, usize)>> = BTreeMap::new();
        for (index, variant) in variants.iter().enumerate() {
            if let Some((kind, amount)) =
                age_kind_and_amount(variant).filter(|_| other_levels(variant) == other_levels(fresh_variant))
            {
                aged.entry(kind).or_default().push((amount, index));
            }
        }
        aged.values_mut().for_each(|variants| variants.sort_by(|a, b| a.0.total_cmp(&b.0)));
        if !aged.is_empty() {
            all_series.push(AgeSeries { fresh, aged });
        }
    }
    all_series
}

/// The values of all tasks together and of single tasks, each with a title.
fn task_values<'a>(context: &ChartContext, analysis: &'a Analysis) -> Vec<(String, &'a [Vec<f64>])> {
    let tasks: Vec<_> = analysis.tasks_in_totals().filter(|task| task.unranked_because.is_none()).collect();
    let mut titled = vec![];
    if let Some(overall) = analysis.overall.as_ref().filter(|overall| overall.tasks > 1) {
        titled
            .push((format!("{} of {}", overall.name, overall.scope()), overall.total_or_geometric().values.as_slice()));
    }
    if tasks.len() <= MAX_TASKS {
        for task in tasks {
            let index = context.record().task(&task.task.id);
            titled.extend(index.map(|index| (task_label(&task.task), analysis.grid.values[index].as_slice())));
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
    let kinds: BTreeSet<&str> = series.iter().flat_map(|family| family.aged.keys()).copied().collect();
    let chart = |kind: &str| {
        let panels = task_values(context, analysis).into_iter();
        let panels = panels.filter_map(|(title, values)| age_panel(context, &series, kind, title, values));
        let about = format!(
            "{} of each aged filesystem divided by that of the same filesystem with the same files copied fresh, within rounds. \
             Bars are 95% intervals over images or rounds; with fewer than 8, the smallest and the largest value.",
            analysis.metric.id
        );
        let drawn = series.iter().filter(|family| family.aged.contains_key(kind));
        let legend = drawn.map(|family| context.styles[family.fresh].legend_key(context.name(family.fresh))).collect();
        let id = format!("age-{}", kind.replace(' ', "-"));
        let chart = Chart::new(id, format!("{} over age: {kind}", analysis.metric.id), about);
        Chart { legend, ..chart.with_panels(panels.collect()) }
    };
    kinds.into_iter().map(chart).collect()
}

fn age_panel(
    context: &ChartContext,
    series: &[AgeSeries],
    kind: &str,
    title: String,
    values: &[Vec<f64>],
) -> Option<Panel> {
    let (mut marks, mut all_points) = (vec![], vec![]);
    for family in series {
        let mut points = vec![SeriesPoint { x: 0.0, y: 1.0, interval: None }];
        for (amount, variant) in family.aged.get(kind).into_iter().flatten() {
            let ratio = Ratio::of(log_ratios(&values[family.fresh], &values[*variant]).d);
            points.extend(ratio.map(|ratio| ratio_point(*amount, ratio.value, Some(ratio))));
        }
        if points.len() > 1 {
            marks.extend(context.styles[family.fresh].series_marks(&points, 1.5));
            all_points.extend(points);
        }
    }
    let oldest = all_points.iter().map(|point| point.x).fold(0.0, f64::max);
    let (low, high) = SeriesPoint::vertical_range(&all_points, (1.0, 1.0));
    (oldest > 0.0).then(|| {
        let x = Axis::linear(kind, 0.0, 1.04 * oldest, format_trimmed);
        let y = Axis::log("aged / fresh", 0.97 * low, 1.03 * high, |ratio| format!("{}×", format_trimmed(ratio)));
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
        let (mut marks, mut all_points) = (vec![], vec![]);
        for variant in &drawn {
            let (Some(x), Some(y)) = (scores[*variant], median(&values[*variant])) else { continue };
            let point = ratio_point(x, y, Ratio::typical_value(&values[*variant]));
            marks.extend(context.styles[*variant].point_marks(&[point]));
            all_points.push(point);
        }
        let (_, max_value) = SeriesPoint::vertical_range(&all_points, (0.0, 0.0));
        let x = Axis::linear("dynamic layout score before the work", 0.0, 1.02, format_trimmed);
        let y = Axis::from_zero(analysis.metric.id.clone(), max_value, unit);
        Panel::new(title, x, y, 260, marks)
    };
    let panels = task_values(context, analysis).into_iter().map(panel).collect();
    let about = format!(
        "Median {} of each variant over the dynamic layout score of its files: the share of blocks that follow the block read \
         before, if all files are read in the order of their directories. Bars are 95% intervals of the typical value.{}",
        analysis.metric.id,
        context.not_drawn_note(&drawn, "no layout")
    );
    let title = format!("{} over the layout of the files", analysis.metric.id);
    vec![Chart { legend: context.legend(&drawn, true), ..Chart::new("layout", title, about).with_panels(panels) }]
}
