//! A dot plot of all tasks together: the ratio of each variant to the best, by total and by geometric mean, with intervals.

use crate::drawing::{Axis, Chart, Mark, NARROW, Panel, Shape, theme};
use crate::number::{three, with_unit};
use crate::{chart_context::ChartContext, words::overall_name};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::{analyse::Analysis, comparison::Comparison};

/// The prefix of the chart's id, before the metric.
pub const ID: &str = "standing-";
/// The chart shows at most this many variants: the best.
const MAX_VARIANTS: usize = 12;
/// The chart cuts an interval at this multiple of the furthest dot, with an arrow.
const MAX_REACH: f64 = 1.5;

/// The chart of the first metric; empty if it ranks no two variants.
pub fn charts(context: &ChartContext) -> Vec<Chart> {
    let ranked = context.report.ranked_analysis();
    ranked.and_then(|analysis| chart(context, analysis)).into_iter().collect()
}

fn chart(context: &ChartContext, analysis: &Analysis) -> Option<Chart> {
    let overall = analysis.overall.as_ref()?;
    let [total, geometric] = overall.wholes();
    let total = total.map(|total| (overall.name, total)).into_iter();
    let both = total.chain(geometric.map(|geometric| ("geometric mean", geometric)));
    let panels: Vec<Panel> =
        both.filter(|(_, one)| one.compares()).map(|(title, one)| panel(context, title, one)).collect();
    let metric = &analysis.metric;
    let better = if metric.direction == Direction::Higher { "right" } else { "left" };
    let about = format!(
        "Each variant by {} in a typical round, in per cent of the one that beats most others (100%), over {}: further \
         {better} is better. Lines are {}. An interval that contains 100% means no significant difference.",
        overall_name(analysis),
        overall.scope(),
        if analysis.provisional() { "the range of the rounds so far" } else { "95% confidence intervals" }
    );
    let chart = Chart::new(
        format!("{ID}{}", metric.id),
        format!("{}: every variant over all tasks", metric.id),
        about,
    );
    (!panels.is_empty()).then_some(Chart { panels, width: NARROW, ..chart })
}

fn panel(context: &ChartContext, title: &str, comparison: &Comparison) -> Panel {
    let shown: Vec<usize> = comparison.by_ratio().into_iter().take(MAX_VARIANTS).collect();
    let ratios = || shown.iter().filter_map(|variant| comparison.variants[*variant].ratio);
    let furthest = ratios().map(|ratio| ratio.value).fold(1.0, f64::max);
    let nearest = ratios().map(|ratio| ratio.low.min(ratio.value)).fold(1.0, f64::min);
    let limit = ratios().map(|ratio| ratio.high).fold(furthest, f64::max).min(furthest * MAX_REACH);
    let span = limit - nearest;
    let (from, to) = (100.0 * (nearest - 0.05 * span).max(0.0), 100.0 * (limit + 0.05 * span));
    let x = Axis::linear("", from, to, |at| with_unit(at, Unit::Percent));
    let marks =
        shown.iter().enumerate().flat_map(|(at, one)| row(context, comparison, at, *one, limit)).collect();
    Panel::rows(title, x, shown.iter().map(|variant| context.name(*variant)), (50, 20), marks)
}

/// The dot, the interval and the figure of a variant in row `at`.
fn row(context: &ChartContext, comparison: &Comparison, at: usize, variant: usize, limit: f64) -> Vec<Mark> {
    let (y, colour) = (Axis::slot(at), context.looks[variant].colour);
    let is_best = comparison.best() == Some(variant);
    let ratio = comparison.variants[variant].ratio.filter(|_| !is_best);
    let value = ratio.map_or(1.0, |ratio| ratio.value);
    let mut marks = vec![];
    let mut text = with_unit(100.0 * value, Unit::Percent);
    if let Some(ratio) = ratio.filter(|ratio| ratio.rounds > 1) {
        let beyond = (ratio.high > limit).then(String::new);
        marks.push(Mark::HorizontalInterval { x: (100.0 * ratio.low, 100.0 * ratio.high), y, beyond });
        text.push_str(&format!(" [{}, {}]", three(100.0 * ratio.low), three(100.0 * ratio.high)));
    }
    marks.push(Mark::Dot { at: (100.0 * value, y), colour, shape: Shape::Disc });
    marks.push(Mark::ValueText { y, text, colour: theme::SOFT, strong: is_best });
    marks
}
