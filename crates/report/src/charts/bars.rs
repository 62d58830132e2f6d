//! Bars for each task: in per cent of the best variant, and in the unit of the metric.

use crate::chart_context::{ChartContext, MAX_REACH, MAX_TASKS, clipped_whisker, too_many_tasks_note};
use crate::drawing::{Axis, Chart, Colour, Form, Mark, Panel, theme};
use crate::words::{label, listed, not_drawn};
use crate::{matrix, number::with_unit};
use fsarena_core::cell::TaskInfo;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::comparison::{Comparison, median};
use fsarena_stats::{analyse::Analysis, ratio::Ratio, simulate::parallel, table::FIRST_LOOK};

/// Why a variant is better than the best, which beats most others.
const CIRCLE: &str = " Where three variants beat each other in a circle, one is better than 100%: that is no significant \
                      difference.";

/// Every task, the total and the geometric mean in per cent of the best variant, a chart for each metric.
pub fn ratio_charts(context: &ChartContext) -> Vec<Chart> {
    let analyses = context.report.analyses.iter().filter(|analysis| !matrix::is_matrix(analysis));
    analyses.filter_map(|analysis| ratio_chart(context, analysis)).collect()
}

fn ratio_chart(context: &ChartContext, analysis: &Analysis) -> Option<Chart> {
    let (groups, without): (Vec<_>, Vec<_>) =
        groups(analysis).into_iter().partition(|(_, comparison)| comparison.compares());
    if groups.is_empty() {
        return None;
    }
    let compared = || groups.iter().map(|(_, comparison)| *comparison);
    let variants = context.variants(|variant| compared().any(|c| c.order.contains(&variant)));
    let limit = limit(compared());
    let marks =
        compared().enumerate().flat_map(|(at, c)| bar_group(context, &variants, at, c, limit)).collect();
    let x = Axis::from_zero(axis_label(analysis), limit * 1.1, Unit::Percent);
    let each = (variants.len() * 13 + 10) as u32;
    let panel = Panel::rows("", x, groups.iter().map(|(name, _)| name), (60, each), marks);
    let metric = &analysis.metric;
    let about = format!(
        "Bars of {} for each task, in per cent of the best variant of that task, which is 100% and has no interval: the \
         others are measured by it. Whiskers are {}; one that goes on beyond the picture has an arrow and its end \
         behind it. Variants that share a letter are not significantly different.{}{}",
        metric.help,
        whiskers_note(compared(), analysis.grid.rounds.len()),
        if compared().any(Comparison::has_circle) { CIRCLE } else { "" },
        bars_left_out(context, analysis, &groups, &without)
    );
    let chart = Chart::new(format!("ratios-{}", metric.id), format!("{}, best = 100%", metric.id), about);
    let legend = context.legend(&variants, false);
    Some(Chart { form: Form::Normalised, panels: vec![panel], legend, ..chart })
}

/// The comparisons: of each task, and of all tasks together.
fn groups(analysis: &Analysis) -> Vec<(String, &Comparison)> {
    let tasks = analysis.tasks().count();
    let overall = analysis.overall.as_ref().filter(|_| tasks > 1);
    let total = overall.and_then(|overall| Some((overall.name.to_uppercase(), overall.total.as_ref()?)));
    let mean = overall.map(|overall| ("GEOMETRIC MEAN".to_string(), &overall.geometric));
    let all = total.into_iter().chain(mean).map(|(name, all)| (name, &all.comparison));
    let each = analysis.tasks().filter(|_| tasks <= MAX_TASKS);
    all.chain(each.map(|task| (label(&task.task), &task.comparison))).collect()
}

fn axis_label(analysis: &Analysis) -> String {
    let better = match analysis.metric.direction {
        Direction::Lower => "; shorter is better",
        Direction::Higher => "; longer is better",
        Direction::Neutral => "",
    };
    format!("{} in per cent of the best{better}", analysis.metric.id)
}

fn bar_group(
    context: &ChartContext,
    variants: &[usize],
    at: usize,
    comparison: &Comparison,
    limit: f64,
) -> Vec<Mark> {
    let height = 0.84 / variants.len() as f64;
    let row = |(row, variant): (usize, &usize)| {
        let top = -(at as f64) - 0.08 - row as f64 * height;
        bar(comparison, *variant, context.looks[*variant].colour, (top - height * 0.9, top), limit)
    };
    variants.iter().enumerate().flat_map(row).collect()
}

/// Where bars and whiskers of these comparisons end, in per cent of the best.
pub fn limit<'c>(comparisons: impl Iterator<Item = &'c Comparison>) -> f64 {
    let ratios = comparisons.flat_map(|comparison| &comparison.variants).filter_map(|variant| variant.ratio);
    let most =
        |(longest, furthest): (f64, f64), ratio: Ratio| (longest.max(ratio.value), furthest.max(ratio.high));
    let (longest, furthest) = ratios.fold((1.0, 1.0), most);
    100.0 * furthest.max(longest).min(longest * MAX_REACH)
}

/// One variant in per cent of the best: a bar from zero, its interval, its figure and letters.
pub fn bar(comparison: &Comparison, variant: usize, colour: Colour, y: (f64, f64), limit: f64) -> Vec<Mark> {
    let (result, is_best) = (&comparison.variants[variant], comparison.best() == Some(variant));
    let value = if is_best { Some(100.0) } else { result.ratio.map(|ratio| 100.0 * ratio.value) };
    let Some(value) = value else { return vec![] };
    let middle = (y.0 + y.1) / 2.0;
    let mut marks = vec![Mark::Box { x: (0.0, value), y, colour, opacity: 1.0 }];
    let ratio = result.ratio.filter(|ratio| !is_best && ratio.rounds > 1);
    let interval = ratio.map(|ratio| (100.0 * ratio.low, 100.0 * ratio.high));
    let (whisker, end) = clipped_whisker(limit, interval, middle, |high| with_unit(high, Unit::Percent));
    marks.extend(whisker);
    let few = !is_best && result.ratio.is_some_and(|ratio| ratio.provisional);
    let letters = if few || comparison.provisional() { "?" } else { &result.letters };
    marks.push(Mark::Figure {
        y: middle,
        text: format!("{} {letters}{end}", with_unit(value, Unit::Percent)),
        colour: if is_best { theme::INK } else { theme::SOFT },
        strong: is_best,
    });
    marks
}

/// What the whiskers of these comparisons are.
pub fn whiskers_note<'c>(comparisons: impl Iterator<Item = &'c Comparison>, rounds: usize) -> &'static str {
    let ratios = comparisons.flat_map(|c| &c.variants).filter_map(|variant| variant.ratio);
    let ratios: Vec<_> = ratios.filter(|ratio| ratio.rounds > 1).collect();
    let provisional = ratios.iter().filter(|ratio| ratio.provisional).count();
    match (provisional, rounds < FIRST_LOOK) {
        _ if ratios.is_empty() => "not there: each would rest on one round",
        (0, _) => "95% intervals, within rounds",
        (_, true) => "the extremes seen: under 8 rounds nothing is exact",
        (some, _) if some == ratios.len() => "the extremes seen: under 8 rounds have a ratio",
        _ => {
            "95% intervals, within rounds, or, at figures with a ?, the extremes seen: under 8 rounds have a ratio"
        }
    }
}

/// Why a variant has no bar in a comparison.
const NO_VALUE: &str =
    "no round has a value of it, and a geometric mean takes values above zero of all tasks";
const ZERO: &str = "in every round either it or the best variant is zero, and zero has no ratio";
const APART: &str = "it shares no round with the best variant";

fn not_there(comparison: &Comparison, variant: usize) -> Option<&'static str> {
    let result = &comparison.variants[variant];
    let missing = comparison.best() != Some(variant) && result.ratio.is_none();
    missing.then_some(match (result.rounds, result.excluded) {
        (0, _) => NO_VALUE,
        (_, 0) => APART,
        _ => ZERO,
    })
}

/// Sentences, each with a space before it, on every variant, task and interval that is not drawn.
pub fn bars_left_out(
    context: &ChartContext,
    analysis: &Analysis,
    groups: &[(String, &Comparison)],
    without: &[(String, &Comparison)],
) -> String {
    let names: Vec<String> = without.iter().map(|(name, _)| name.clone()).collect();
    let mut words = not_drawn(&names, "no two variants are above zero in one round, and zero has no ratio");
    words.push_str(&too_many_tasks_note(analysis.tasks().count()));
    for (variant, name) in context.record().names().into_iter().enumerate() {
        for why in [NO_VALUE, ZERO, APART] {
            let of = groups.iter().filter(|(_, c)| not_there(c, variant) == Some(why));
            let tasks: Vec<String> = of.map(|(name, _)| name.clone()).collect();
            // Nothing where it is so in all there are.
            let within =
                if tasks.len() == groups.len() { String::new() } else { format!(" in {}", listed(&tasks)) };
            if !tasks.is_empty() {
                words.push_str(&format!(" {name} is not drawn{within}: {why}."));
            }
        }
        words.push_str(&few_rounds_note(variant, name, groups));
    }
    words
}

/// Where an interval rests on fewer rounds than were run, or is none.
fn few_rounds_note(variant: usize, name: &str, groups: &[(String, &Comparison)]) -> String {
    let mut words = String::new();
    for (task, comparison) in groups {
        let result = &comparison.variants[variant];
        let Some(ratio) = result.ratio.filter(|_| comparison.best() != Some(variant)) else { continue };
        let shared = ratio.rounds + result.excluded;
        match (ratio.rounds, result.excluded) {
            (1, 0) => words.push_str(&format!(" {name} has no interval in {task}: it takes two rounds.")),
            (1, _) => words.push_str(&format!(
                " {name} has no interval in {task}: in {} of {shared} rounds it or the best variant is zero, zero has no \
                 ratio, and an interval takes two.",
                result.excluded
            )),
            (_, 0) => {}
            (_, zeros) => words.push_str(&format!(
                " {name} in {task}: {zeros} of {shared} rounds are left out, for zero has no ratio."
            )),
        }
    }
    words
}

/// Medians in the unit of the metric, a panel for each task, a chart for each metric.
pub fn raw_charts(context: &ChartContext) -> Vec<Chart> {
    let analyses = context.report.analyses.iter().filter(|analysis| !matrix::is_matrix(analysis));
    analyses.filter_map(|analysis| raw_chart(context, analysis)).collect()
}

fn raw_chart(context: &ChartContext, analysis: &Analysis) -> Option<Chart> {
    let (info, grid) = (&analysis.metric, &analysis.grid);
    let tasks = grid.comparable_tasks().into_iter();
    let tasks: Vec<TaskValues> = tasks.map(|at| (&grid.tasks[at], &grid.values[at])).collect();
    let has = |variant: usize| tasks.iter().any(|(_, values)| values[variant].iter().any(|v| !v.is_nan()));
    let variants = context.variants(has);
    if tasks.is_empty() || variants.len() < 2 {
        return None;
    }
    let rest = raw_left_out(context, &variants, &tasks);
    let panel = |title: &str, values: &[Vec<f64>]| {
        let row = |variant: &usize| {
            let whisker = Ratio::typical(&values[*variant]).map(|typical| (typical.low, typical.high));
            (*variant, median(&values[*variant]), whisker)
        };
        let rows: Vec<_> = variants.iter().map(row).collect();
        context.bars((title, ""), info.unit, &rows, (54, 17))
    };
    let mut panels = vec![];
    if tasks.len() > 1
        && let Some(overall) = &analysis.overall
        && let Some(total) = &overall.total
    {
        let title = format!("{} of {}", overall.name.to_uppercase(), overall.scope());
        panels.push(panel(&title, &total.values));
    }
    if tasks.len() <= MAX_TASKS {
        panels.extend(parallel(tasks.len(), |at| {
            let (task, values) = tasks[at as usize];
            panel(&label(task), values)
        }));
    }
    let about = format!(
        "Bars from zero of {}, one panel a task, each with a scale of its own. A bar is the median over rounds; its \
         whisker the 95% interval of the typical value (under 8 rounds the extremes seen), which includes the drift \
         of the machine that comparisons within rounds are free of. One that goes on beyond the picture has an arrow \
         and its end behind it.{rest}",
        info.help
    );
    let chart = Chart::new(format!("raw-{}", info.id), format!("{}, medians", info.id), about);
    Some(Chart { form: Form::Raw, legend: context.legend(&variants, false), ..chart.in_pairs(panels) })
}

/// A task, and its values by variant and round.
type TaskValues<'a> = (&'a TaskInfo, &'a Vec<Vec<f64>>);

/// Names each missing bar and whisker, and the reason.
fn raw_left_out(context: &ChartContext, variants: &[usize], tasks: &[TaskValues]) -> String {
    let of = |count: usize| -> Vec<String> {
        let places = tasks.iter().flat_map(|task| variants.iter().map(move |variant| (task, *variant)));
        let known = |((_, values), variant): &(&TaskValues, usize)| {
            values[*variant].iter().filter(|value| !value.is_nan()).count()
        };
        let found = places.filter(|place| known(place) == count);
        found.map(|((task, _), variant)| format!("{} in {}", context.name(variant), label(task))).collect()
    };
    let one = match listed(&of(1)) {
        one if one.is_empty() => one,
        one => format!(" Without an interval, which takes two rounds: {one}."),
    };
    let none = context.not_drawn(variants, "no value") + &too_many_tasks_note(tasks.len());
    none + &not_drawn(&of(0), "no value") + &one
}
