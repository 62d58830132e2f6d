//! Charts of runs on aged filesystems: what a task costs over the age, and over the layout of the files.

use crate::chart_context::{ChartContext, point_with_interval};
use crate::drawing::{Axis, Chart, Panel, SeriesPoint, axis::format_trimmed};
use crate::phrases::task_label;
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::factor::{AGE, age};
use fsarena_core::metric::reading::{DYNAMIC_LAYOUT_SCORE, LAYOUT_BEFORE};
use fsarena_core::observations::Grid;
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::{analyse::Analysis, comparison::median};
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of tasks with a panel each. A chart of more tasks has only the panel of all tasks together.
const MAX_TASK_PANELS: usize = 6;

/// The kind and the amount of a variant's age: `pulls` and 1000 for `git:1000`. `None` for a variant that is not aged. Each
/// command that ages is a separate kind.
fn age_kind_and_amount(variant: &Variant) -> Option<(String, f64)> {
    Some(match age::parse_age(variant.level(AGE)).ok()?? {
        age::Age::Churn { percent } => ("times its size written".into(), f64::from(percent) / 100.0),
        age::Age::Git { pulls } => ("pulls".into(), f64::from(pulls)),
        age::Age::Command { runs, argv } => (format!("runs of {}", argv.join(" ")), f64::from(runs)),
    })
}

/// Variants that differ in age only.
struct AgeSeries {
    /// The index of the variant that is not aged.
    fresh: usize,
    /// The aged variants by the kind of their age: the amount of age and the index of each variant, by ascending amount.
    aged_by_kind: BTreeMap<String, Vec<(f64, usize)>>,
}

/// Finds the series of each fresh variant that also ran aged.
fn find_age_series(variants: &[Variant]) -> Vec<AgeSeries> {
    let other_levels = |variant: &Variant| {
        let mut levels = variant.levels.clone();
        levels.remove(AGE);
        levels
    };
    let ages: Vec<Option<(String, f64)>> = variants.iter().map(age_kind_and_amount).collect();
    let mut all_series = vec![];
    for fresh in (0..variants.len()).filter(|variant| ages[*variant].is_none()) {
        let fresh_levels = other_levels(&variants[fresh]);
        let mut aged_by_kind: BTreeMap<_, Vec<(f64, usize)>> = BTreeMap::new();
        for (variant, age) in ages.iter().enumerate() {
            if let Some((kind, amount)) = age
                && other_levels(&variants[variant]) == fresh_levels
            {
                aged_by_kind.entry(kind.clone()).or_default().push((*amount, variant));
            }
        }
        aged_by_kind.values_mut().for_each(|aged| aged.sort_by(|a, b| a.0.total_cmp(&b.0)));
        if !aged_by_kind.is_empty() {
            all_series.push(AgeSeries { fresh, aged_by_kind });
        }
    }
    all_series
}

/// The titles and values of the panels: all tasks together, then each task. The values are by variant and round.
fn titled_values<'a>(context: &ChartContext, analysis: &'a Analysis) -> Vec<(String, &'a [Vec<f64>])> {
    let tasks: Vec<_> = analysis.tasks_in_totals().filter(|task| task.unranked_because.is_none()).collect();
    let mut titled = vec![];
    if let Some(overall) = analysis.overall.as_ref().filter(|overall| overall.task_count > 1) {
        titled
            .push((format!("{} of {}", overall.name, overall.scope()), overall.total_or_geometric().values.as_slice()));
    }
    if tasks.len() <= MAX_TASK_PANELS {
        for task in tasks {
            let index = context.record().task_index(&task.task.id);
            titled.extend(index.map(|index| (task_label(&task.task), analysis.grid.values[index].as_slice())));
        }
    }
    titled
}

/// For each kind of age a chart with a panel for each task: the ratio of each aged variant to the fresh one in the primary
/// metric.
pub fn age_charts(context: &ChartContext) -> Vec<Chart> {
    let all_series = find_age_series(&context.record().variants);
    let Some(analysis) = context.report.analyses.first().filter(|_| !all_series.is_empty()) else {
        return vec![];
    };
    let kinds: BTreeSet<&str> =
        all_series.iter().flat_map(|series| series.aged_by_kind.keys()).map(String::as_str).collect();
    let chart = |kind: &str| {
        let panels = titled_values(context, analysis).into_iter();
        let panels = panels.filter_map(|(title, values)| age_panel(context, &all_series, kind, title, values));
        let caption = format!(
            "{metric} of each aged filesystem divided by {metric} of a fresh filesystem with the same files, in the same round. \
             Bars are 95% intervals over images or rounds; with fewer than 8, the smallest and the largest value.",
            metric = analysis.metric.id
        );
        let drawn = all_series.iter().filter(|series| series.aged_by_kind.contains_key(kind));
        let legend =
            drawn.map(|series| context.styles[series.fresh].legend_key(context.variant_name(series.fresh))).collect();
        let chart = Chart::new(format!("age-{kind}"), format!("{} over age: {kind}", analysis.metric.id), caption);
        Chart { legend, ..chart.with_panels(panels.collect()) }
    };
    kinds.into_iter().map(chart).collect()
}

/// A panel with a line for each series with this kind of age; `None` if the values have no ratio.
fn age_panel(
    context: &ChartContext,
    all_series: &[AgeSeries],
    kind: &str,
    title: String,
    values: &[Vec<f64>],
) -> Option<Panel> {
    let (mut marks, mut all_points) = (vec![], vec![]);
    for series in all_series {
        let mut points = vec![SeriesPoint { x: 0.0, y: 1.0, interval: None }];
        for (amount, variant) in series.aged_by_kind.get(kind).into_iter().flatten() {
            let ratio = Ratio::from_log_ratios(log_ratios(&values[series.fresh], &values[*variant]).d);
            points.extend(ratio.map(|ratio| point_with_interval(*amount, ratio.value, Some(ratio))));
        }
        if points.len() > 1 {
            marks.extend(context.styles[series.fresh].series_marks(&points, 1.5));
            all_points.extend(points);
        }
    }
    let largest_age = all_points.iter().map(|point| point.x).fold(0.0, f64::max);
    let (low, high) = SeriesPoint::vertical_range(&all_points, (1.0, 1.0));
    (largest_age > 0.0).then(|| {
        let x = Axis::linear(kind, 0.0, 1.04 * largest_age, format_trimmed);
        let y = Axis::log("aged / fresh", 0.97 * low, 1.03 * high, |ratio| format!("{}×", format_trimmed(ratio)));
        Panel::new(title, x, y, 260, marks)
    })
}

/// A chart with a panel for each task: the primary metric of each variant over the dynamic layout score of its files before the
/// work.
pub fn layout_charts(context: &ChartContext) -> Vec<Chart> {
    let record = context.record();
    let Some(analysis) = context.report.analyses.first() else { return vec![] };
    let Some(task) = record.task_index(&TaskId::new(LAYOUT_BEFORE)) else { return vec![] };
    let Some(grid) = Grid::of(record, DYNAMIC_LAYOUT_SCORE) else { return vec![] };
    let scores: Vec<Option<f64>> = grid.values[task].iter().map(|scores| median(scores)).collect();
    let drawn = context.variants_where(|variant| scores[variant].is_some());
    if drawn.len() < 2 {
        return vec![];
    }
    let unit = analysis.metric.unit;
    let panel = |(title, values): (String, &[Vec<f64>])| {
        let (mut marks, mut all_points) = (vec![], vec![]);
        for variant in &drawn {
            let (Some(x), Some(y)) = (scores[*variant], median(&values[*variant])) else { continue };
            let point = point_with_interval(x, y, Ratio::typical_value(&values[*variant]));
            marks.extend(context.styles[*variant].point_marks(&[point]));
            all_points.push(point);
        }
        (!all_points.is_empty()).then(|| {
            let (_, max_value) = SeriesPoint::vertical_range(&all_points, (0.0, 0.0));
            let x = Axis::linear("dynamic layout score before the work", 0.0, 1.02, format_trimmed);
            let y = Axis::from_zero(analysis.metric.id.clone(), max_value, unit);
            Panel::new(title, x, y, 260, marks)
        })
    };
    let panels: Vec<Panel> = titled_values(context, analysis).into_iter().filter_map(panel).collect();
    if panels.is_empty() {
        return vec![];
    }
    let caption = format!(
        "Median {} of each variant over the dynamic layout score of its files: the share of blocks whose place \
         on the device follows that of the block read before, if all files are read in the order of their directories. Bars \
         are 95% intervals of the typical value.{}",
        analysis.metric.id,
        context.undrawn_variants_note(&drawn, "no layout")
    );
    let title = format!("{} over the layout of the files", analysis.metric.id);
    vec![Chart { legend: context.line_legend(&drawn), ..Chart::new("layout", title, caption).with_panels(panels) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filesystems_aged_by_different_commands_are_not_on_one_line() {
        let variants = ["none", "command:2:a", "command:1:a", "command:1:b c"]
            .map(|level| Variant { name: level.into(), levels: [(AGE.to_string(), level.to_string())].into() });
        let [series] = &find_age_series(&variants)[..] else { panic!("one variant is not aged") };
        let expected = [("runs of a", vec![(1.0, 2), (2.0, 1)]), ("runs of b c", vec![(1.0, 3)])];
        let expected: BTreeMap<String, _> = expected.map(|(kind, aged)| (kind.to_string(), aged)).into();
        assert_eq!(series.aged_by_kind, expected);
    }
}
