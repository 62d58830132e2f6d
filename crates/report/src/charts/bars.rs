//! Bar charts of the variants for each task: in per cent of the best variant, and in the unit of the metric.

use crate::chart_context::{
    CUT_OFF_MULTIPLE, ChartContext, MAX_TASKS, VariantBar, clipped_whisker, too_many_tasks_note,
};
use crate::drawing::{Axis, Chart, Colour, Mark, Panel, ValueScale, theme};
use crate::phrases::{join_with_and, not_drawn_note, task_label};
use crate::{matrix, number::with_unit};
use fsarena_core::observations::VariantValues;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::comparison::{Comparison, median};
use fsarena_stats::{analyse::Analysis, critical_values::FIRST_LOOK_ROUNDS, ratio::Ratio, simulate::in_parallel};

/// Explains a bar that is better than 100%. The best variant beats most other variants, but not always all.
const CYCLE_NOTE: &str = " A bar can be better than 100% if A is typically better than B in the same round, B better than C, and C \
                      better than A. The difference between such a bar and the best is then not significant. A bar can also be \
                      better than 100% if some variants share no round.";
/// Explains a whisker that the chart cuts off.
pub const CUT_OFF_NOTE: &str = "a whisker that is cut off has an arrow, and after it the number at which it ends";

/// Heights in a chart of ratios in CSS pixels: of a bar, of the gap between two groups, and of the title with the axis.
const BAR_HEIGHT: usize = 13;
const GROUP_GAP: usize = 10;
const TITLE_AND_AXIS: u32 = 60;

/// A chart for each metric: every task, the total and the geometric mean in per cent of the best variant.
pub fn ratio_charts(context: &ChartContext) -> Vec<Chart> {
    let analyses = context.report.analyses.iter().filter(|analysis| !matrix::is_matrix(analysis));
    analyses.filter_map(|analysis| ratio_chart(context, analysis)).collect()
}

fn ratio_chart(context: &ChartContext, analysis: &Analysis) -> Option<Chart> {
    let (groups, groups_without_bars): (Vec<_>, Vec<_>) =
        named_comparisons(analysis).into_iter().partition(|(_, comparison)| comparison.has_ratio());
    if groups.is_empty() {
        return None;
    }
    let comparisons: Vec<&Comparison> = groups.iter().map(|(_, comparison)| *comparison).collect();
    let variants =
        context.variants_where(|variant| comparisons.iter().any(|comparison| comparison.order.contains(&variant)));
    let limit = axis_end(comparisons.iter().copied());
    // A group takes 84% of its row, and the gap between two bars is a tenth of their distance.
    let bar_distance = 0.84 / variants.len() as f64;
    let mut marks = vec![];
    for (group, comparison) in comparisons.iter().enumerate() {
        for (bar, variant) in variants.iter().enumerate() {
            let top = -(group as f64) - 0.08 - bar as f64 * bar_distance;
            let (y, colour) = ((top - bar_distance * 0.9, top), context.styles[*variant].colour);
            marks.extend(bar_marks(comparison, *variant, colour, y, limit));
        }
    }
    // Room for the figures behind the bars.
    let x_axis = Axis::from_zero(axis_label(analysis), limit * 1.1, Unit::Percent);
    let row_height = (variants.len() * BAR_HEIGHT + GROUP_GAP) as u32;
    let panel = Panel::with_rows("", x_axis, groups.iter().map(|(name, _)| name), (TITLE_AND_AXIS, row_height), marks);
    let metric = &analysis.metric;
    let caption = format!(
        "Bars of {} for each task, in per cent of the best variant of that task, which is 100% and has no interval because \
         the others are measured by it. {} Variants that share a letter are not significantly different.{}{}",
        metric.help,
        whiskers_note(&comparisons, analysis.grid.rounds.len()),
        if comparisons.iter().any(|comparison| comparison.has_ratio_better_than_best()) { CYCLE_NOTE } else { "" },
        left_out_note(context, analysis, &groups, &groups_without_bars)
    );
    let chart = Chart::new(format!("ratios-{}", metric.id), format!("{}, best = 100%", metric.id), caption);
    let legend = context.area_legend(&variants);
    Some(Chart { value_scale: ValueScale::Normalised, panels: vec![panel], legend, ..chart })
}

/// The comparisons that the chart shows as groups of bars, with their names: over all tasks, and, if the tasks are not too many,
/// of each task.
fn named_comparisons(analysis: &Analysis) -> Vec<(String, &Comparison)> {
    let task_count = analysis.tasks_in_totals().count();
    let mut groups = vec![];
    if task_count > 1
        && let Some(overall) = &analysis.overall
    {
        if let Some(total) = &overall.total {
            groups.push((overall.name.to_uppercase(), &total.comparison));
        }
        groups.push(("GEOMETRIC MEAN".into(), &overall.geometric.comparison));
    }
    if task_count <= MAX_TASKS {
        groups.extend(analysis.tasks_in_totals().map(|task| (task_label(&task.task), &task.comparison)));
    }
    groups
}

/// The label of the horizontal axis: `elapsed in per cent of the best; shorter is better`.
fn axis_label(analysis: &Analysis) -> String {
    let better = match analysis.metric.direction {
        Direction::Lower => "; shorter is better",
        Direction::Higher => "; longer is better",
        Direction::Neutral => "",
    };
    format!("{} in per cent of the best{better}", analysis.metric.id)
}

/// The end of the axis, in per cent of the best: the furthest end of a bar or whisker of these comparisons, but at most
/// [`CUT_OFF_MULTIPLE`] times the longest bar, where the chart cuts off whiskers.
pub fn axis_end<'c>(comparisons: impl Iterator<Item = &'c Comparison>) -> f64 {
    let (mut longest_bar, mut furthest_end) = (1.0_f64, 1.0_f64);
    for ratio in comparisons.flat_map(|comparison| &comparison.variants).filter_map(|variant| variant.ratio) {
        longest_bar = longest_bar.max(ratio.value);
        furthest_end = furthest_end.max(ratio.high);
    }
    100.0 * furthest_end.max(longest_bar).min(longest_bar * CUT_OFF_MULTIPLE)
}

/// The marks of one variant in per cent of the best: a bar from zero, its interval, its figure and letters. `y` has the lower
/// and the upper edge of the bar; `limit` is the end of the axis. Empty if the variant has no ratio.
pub fn bar_marks(comparison: &Comparison, variant: usize, colour: Colour, y: (f64, f64), limit: f64) -> Vec<Mark> {
    let (result, is_best) = (&comparison.variants[variant], comparison.best() == Some(variant));
    let percent = if is_best { Some(100.0) } else { result.ratio.map(|ratio| 100.0 * ratio.value) };
    let Some(percent) = percent else { return vec![] };
    let middle = (y.0 + y.1) / 2.0;
    let mut marks = vec![Mark::Box { x: (0.0, percent), y, colour, opacity: 1.0 }];
    let ratio = result.ratio.filter(|ratio| !is_best && ratio.rounds > 1);
    let interval = ratio.map(|ratio| (100.0 * ratio.low, 100.0 * ratio.high));
    let (whisker, end_text) = clipped_whisker(limit, interval, middle, |high| with_unit(high, Unit::Percent));
    marks.extend(whisker);
    let is_provisional = !is_best && result.ratio.is_some_and(|ratio| ratio.provisional);
    let letters = if is_provisional || comparison.is_provisional() { "?" } else { &result.letters };
    marks.push(Mark::ValueText {
        y: middle,
        text: format!("{} {letters}{end_text}", with_unit(percent, Unit::Percent)),
        colour: if is_best { theme::INK } else { theme::MUTED },
        bold: is_best,
    });
    marks
}

/// A sentence that explains the whiskers of these comparisons. `rounds` is the number of rounds of the run.
fn whiskers_note(comparisons: &[&Comparison], rounds: usize) -> String {
    let ratios = comparisons.iter().flat_map(|comparison| &comparison.variants).filter_map(|variant| variant.ratio);
    let ratios: Vec<Ratio> = ratios.filter(|ratio| ratio.rounds > 1).collect();
    let provisional_count = ratios.iter().filter(|ratio| ratio.provisional).count();
    if ratios.is_empty() {
        return "There are no whiskers, because each bar rests on one round.".into();
    }
    let meaning = if provisional_count == 0 {
        "95% intervals of the ratio to the best in the same round"
    } else if rounds < FIRST_LOOK_ROUNDS {
        "the smallest and the largest value, because fewer than 8 rounds give no 95% interval"
    } else if provisional_count == ratios.len() {
        "the smallest and the largest value, because fewer than 8 rounds have a ratio"
    } else {
        "95% intervals of the ratio to the best in the same round; at figures with a ?, the smallest and the largest \
         value, because fewer than 8 rounds have a ratio"
    };
    format!("Whiskers are {meaning}; {CUT_OFF_NOTE}.")
}

/// The reasons why a variant has no bar in a comparison.
const MISSING_BAR_REASONS: [&str; 3] = [REASON_NO_VALUE, REASON_ZERO, REASON_NO_COMMON_ROUND];
const REASON_NO_VALUE: &str = "it has no value in any round (a geometric mean needs a value above zero in every task)";
const REASON_ZERO: &str = "in every round either it or the best variant is zero, and zero has no ratio";
const REASON_NO_COMMON_ROUND: &str = "it shares no round with the best variant";

/// The reason why a variant has no bar in a comparison; `None` if it has one.
fn missing_bar_reason(comparison: &Comparison, variant: usize) -> Option<&'static str> {
    let result = &comparison.variants[variant];
    if comparison.best() == Some(variant) || result.ratio.is_some() {
        return None;
    }
    if result.rounds == 0 {
        return Some(REASON_NO_VALUE);
    }
    // `excluded_rounds` counts the rounds shared with the best variant that have no ratio because of a zero. This variant has no
    // ratio at all, so it is the number of shared rounds.
    Some(if result.excluded_rounds == 0 { REASON_NO_COMMON_ROUND } else { REASON_ZERO })
}

/// Sentences, each with a space before it, that name every task, variant and interval that is not drawn.
fn left_out_note(
    context: &ChartContext,
    analysis: &Analysis,
    groups: &[(String, &Comparison)],
    groups_without_bars: &[(String, &Comparison)],
) -> String {
    let names: Vec<String> = groups_without_bars.iter().map(|(name, _)| name.clone()).collect();
    let mut sentences = not_drawn_note(&names, "no two variants are above zero in one round, and zero has no ratio");
    sentences.push_str(&too_many_tasks_note(analysis.tasks_in_totals().count()));
    for (variant, name) in context.record().variant_names().into_iter().enumerate() {
        for reason in MISSING_BAR_REASONS {
            let missing =
                groups.iter().filter(|(_, comparison)| missing_bar_reason(comparison, variant) == Some(reason));
            let tasks: Vec<String> = missing.map(|(name, _)| name.clone()).collect();
            if tasks.is_empty() {
                continue;
            }
            // The tasks are named unless the reason holds for all of them.
            let within =
                if tasks.len() == groups.len() { String::new() } else { format!(" in {}", join_with_and(&tasks)) };
            sentences.push_str(&format!(" {name} is not drawn{within}: {reason}."));
        }
        sentences.push_str(&few_rounds_note(variant, name, groups));
    }
    sentences
}

/// Sentences, each with a space before it, about the groups in which a variant has no interval, or an interval from fewer
/// rounds because some values are zero.
fn few_rounds_note(variant: usize, name: &str, groups: &[(String, &Comparison)]) -> String {
    let mut sentences = String::new();
    for (group, comparison) in groups {
        let result = &comparison.variants[variant];
        let Some(ratio) = result.ratio.filter(|_| comparison.best() != Some(variant)) else { continue };
        let shared_rounds = ratio.rounds + result.excluded_rounds;
        match (ratio.rounds, result.excluded_rounds) {
            (1, 0) => sentences.push_str(&format!(" {name} has no interval in {group}: an interval needs two rounds.")),
            (1, _) => sentences.push_str(&format!(
                " {name} has no interval in {group}: in {} of {shared_rounds} rounds it or the best variant is zero, zero has no \
                 ratio, and an interval needs two rounds with a ratio.",
                result.excluded_rounds
            )),
            (_, 0) => {}
            (_, zero_rounds) => sentences.push_str(&format!(
                " {name} in {group}: {zero_rounds} of {shared_rounds} rounds are left out, because zero has no ratio."
            )),
        }
    }
    sentences
}

/// Heights in a panel of medians in CSS pixels: of the title with the axis, and of a row.
const MEDIAN_TITLE_AND_AXIS: u32 = 54;
const MEDIAN_ROW_HEIGHT: u32 = 17;

/// A chart for each metric: the medians in the unit of the metric, a panel for each task. A metric without a total has no such
/// chart if it has more than [`MAX_TASKS`] tasks.
pub fn median_charts(context: &ChartContext) -> Vec<Chart> {
    let analyses = context.report.analyses.iter().filter(|analysis| !matrix::is_matrix(analysis));
    analyses.filter_map(|analysis| median_chart(context, analysis)).collect()
}

fn median_chart(context: &ChartContext, analysis: &Analysis) -> Option<Chart> {
    let (metric, grid) = (&analysis.metric, &analysis.grid);
    let tasks = grid.comparable_tasks();
    let has_value =
        |variant: usize| tasks.iter().any(|task| grid.values[*task][variant].iter().any(|value| !value.is_nan()));
    let variants = context.variants_where(has_value);
    if tasks.is_empty() || variants.len() < 2 {
        return None;
    }
    let mut groups: Vec<MedianGroup> = vec![];
    if tasks.len() > 1
        && let Some(overall) = &analysis.overall
        && let Some(total) = &overall.total
    {
        let name = overall.name.to_uppercase();
        groups.push(MedianGroup { title: format!("{name} of {}", overall.scope()), name, values: &total.values });
    }
    if tasks.len() <= MAX_TASKS {
        for task in &tasks {
            let label = task_label(&grid.tasks[*task]);
            groups.push(MedianGroup { title: label.clone(), name: label, values: &grid.values[*task] });
        }
    }
    if groups.is_empty() {
        return None;
    }
    let panels =
        in_parallel(groups.len(), |index| median_panel(context, metric.unit, &variants, &groups[index as usize]));
    let left_out = median_left_out_note(context, &variants, &groups, tasks.len());
    let caption = format!(
        "Bars from zero of {}, one panel for each task, each with its own scale. A bar is the median over rounds. The \
         whisker is the 95% interval of the median (with fewer than 8 rounds, the smallest and the largest value). It \
         includes the drift of the machine; the comparisons within rounds do not; {CUT_OFF_NOTE}.{left_out}",
        metric.help
    );
    let chart = Chart::new(format!("raw-{}", metric.id), format!("{}, medians", metric.id), caption);
    Some(Chart { value_scale: ValueScale::Raw, legend: context.area_legend(&variants), ..chart.with_panels(panels) })
}

/// The values that a panel of medians shows: those of one task, or the totals over all tasks.
struct MedianGroup<'a> {
    /// The title of the panel.
    title: String,
    /// The name of the group in notes.
    name: String,
    values: &'a VariantValues,
}

/// A panel with a bar for the median of each variant.
fn median_panel(context: &ChartContext, unit: Unit, variants: &[usize], group: &MedianGroup) -> Panel {
    let mut bars = vec![];
    for variant in variants {
        let values = &group.values[*variant];
        let whisker = Ratio::typical_value(values).map(|typical| (typical.low, typical.high));
        bars.push(VariantBar { variant: *variant, value: median(values), whisker });
    }
    // The axis has no label, because the title of the chart has the metric.
    context.bar_panel((&group.title, ""), unit, &bars, (MEDIAN_TITLE_AND_AXIS, MEDIAN_ROW_HEIGHT))
}

/// Sentences, each with a space before it, that name each bar and whisker that is missing in the panels of `groups`, with the
/// reason. `task_count` is the number of tasks of the metric.
fn median_left_out_note(
    context: &ChartContext,
    variants: &[usize],
    groups: &[MedianGroup],
    task_count: usize,
) -> String {
    let (mut without_bar, mut without_interval) = (vec![], vec![]);
    for group in groups {
        for variant in variants {
            let name = || format!("{} in {}", context.variant_name(*variant), group.name);
            match group.values[*variant].iter().filter(|value| !value.is_nan()).count() {
                0 => without_bar.push(name()),
                1 => without_interval.push(name()),
                _ => {}
            }
        }
    }
    let mut sentences = context.undrawn_variants_note(variants, "no value");
    sentences.push_str(&too_many_tasks_note(task_count));
    sentences.push_str(&not_drawn_note(&without_bar, "no value"));
    if !without_interval.is_empty() {
        let names = join_with_and(&without_interval);
        sentences.push_str(&format!(" Without an interval, because an interval needs two rounds: {names}."));
    }
    sentences
}
