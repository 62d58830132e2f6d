//! A dot plot of all tasks together: the ratio of each variant to the best, by total and by geometric mean, with intervals.

use crate::drawing::{Axis, Chart, Mark, PHONE_WIDTH, Panel, PointShape, theme};
use crate::number::{three_digits, with_unit};
use crate::{chart_context::ChartContext, phrases::overall_figure_name};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::{analyse::Analysis, comparison::Comparison};

/// The prefix of the chart's id, before the metric.
pub const ID_PREFIX: &str = "standing-";
/// The chart shows at most this many variants, the best.
const MAX_VARIANTS: usize = 12;
/// The chart cuts an interval at this multiple of the furthest dot, with an arrow.
const CUT_OFF_MULTIPLE: f64 = 1.5;
/// The height of the title and the horizontal axis of a panel, and of a row, in CSS pixels.
const PANEL_HEIGHTS: (u32, u32) = (50, 20);

/// The chart of the metric that ranks the variants. Empty if no metric ranks them, or if it cannot compare any two of them.
pub fn standing_charts(context: &ChartContext) -> Vec<Chart> {
    let ranked = context.report.ranked_analysis();
    ranked.and_then(|analysis| standing_chart(context, analysis)).into_iter().collect()
}

/// The chart, with a panel for the total and one for the geometric mean; `None` if neither has a ratio.
fn standing_chart(context: &ChartContext, analysis: &Analysis) -> Option<Chart> {
    let overall = analysis.overall.as_ref()?;
    let [total, geometric] = overall.comparisons();
    let mut panels: Vec<Panel> = vec![];
    for (title, comparison) in [(overall.name, total), ("geometric mean", geometric)] {
        if let Some(comparison) = comparison.filter(|comparison| comparison.has_ratio()) {
            panels.push(standing_panel(context, title, comparison));
        }
    }
    let metric = &analysis.metric;
    let better_side = if metric.direction == Direction::Higher { "right" } else { "left" };
    let caption = format!(
        "Each variant by {} over {}, in a typical round, in per cent of the best variant (100%), which beats most others. \
         Further {better_side} is better. Lines are {}. An interval that contains 100% means no significant difference.",
        overall_figure_name(analysis),
        overall.scope(),
        if analysis.is_provisional() { "the range of the rounds so far" } else { "95% confidence intervals" }
    );
    let chart = Chart::new(
        format!("{ID_PREFIX}{}", metric.id),
        format!("{}: every variant over all tasks", metric.id),
        caption,
    );
    (!panels.is_empty()).then_some(Chart { panels, width: PHONE_WIDTH, ..chart })
}

/// A panel with a row for each variant, the best first.
fn standing_panel(context: &ChartContext, title: &str, comparison: &Comparison) -> Panel {
    let variants: Vec<usize> = comparison.sorted_by_ratio().into_iter().take(MAX_VARIANTS).collect();
    let ratios = || variants.iter().filter_map(|variant| comparison.variants[*variant].ratio);
    let largest_ratio = ratios().map(|ratio| ratio.value).fold(1.0, f64::max);
    let smallest_end = ratios().map(|ratio| ratio.low.min(ratio.value)).fold(1.0, f64::min);
    let limit = ratios().map(|ratio| ratio.high).fold(largest_ratio, f64::max).min(largest_ratio * CUT_OFF_MULTIPLE);
    let margin = 0.05 * (limit - smallest_end);
    let (low, high) = (100.0 * (smallest_end - margin).max(0.0), 100.0 * (limit + margin));
    let x_axis = Axis::linear("", low, high, |percent| with_unit(percent, Unit::Percent));
    let marks = variants
        .iter()
        .enumerate()
        .flat_map(|(row, variant)| row_marks(context, comparison, row, *variant, limit))
        .collect();
    Panel::with_rows(title, x_axis, variants.iter().map(|variant| context.variant_name(*variant)), PANEL_HEIGHTS, marks)
}

/// The dot, the interval and the figure of a variant in this row, counted from 0. Intervals beyond `limit`, a ratio, end in an
/// arrow.
fn row_marks(context: &ChartContext, comparison: &Comparison, row: usize, variant: usize, limit: f64) -> Vec<Mark> {
    let (y, colour) = (Axis::row_centre(row), context.styles[variant].colour);
    let is_best = comparison.best() == Some(variant);
    let ratio = comparison.variants[variant].ratio.filter(|_| !is_best);
    let value = ratio.map_or(1.0, |ratio| ratio.value);
    let mut marks = vec![];
    let mut text = with_unit(100.0 * value, Unit::Percent);
    if let Some(ratio) = ratio.filter(|ratio| ratio.rounds > 1) {
        // No text after the arrow, because the figure beside the row has both ends.
        let clipped_end = (ratio.high > limit).then(String::new);
        marks.push(Mark::HorizontalInterval { x: (100.0 * ratio.low, 100.0 * ratio.high), y, clipped_end });
        text.push_str(&format!(" [{}, {}]", three_digits(100.0 * ratio.low), three_digits(100.0 * ratio.high)));
    }
    marks.push(Mark::Dot { point: (100.0 * value, y), colour, shape: PointShape::Disc });
    marks.push(Mark::ValueText { y, text, colour: theme::MUTED, bold: is_best });
    marks
}
