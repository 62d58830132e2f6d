//! The data of a report that charts use, and marks that several charts share.

use crate::drawing::{Axis, Colour, Dash, KeySign, LegendKey, Mark, Panel, PointShape, SeriesPoint, SeriesStyle};
use crate::number::{plural, with_unit};
use crate::{phrases::not_drawn_note, report::Report};
use fsarena_core::{record::RunRecord, sample::Unit, schedule::mix};
use fsarena_stats::{ratio::Ratio, scaling::Series};

/// Charts show at most this many tasks one by one. If there are more, charts show only all tasks together.
pub const MAX_TASKS: usize = 40;
/// Bar charts cut whiskers at this multiple of the longest bar, with an arrow, so that bars do not become too short.
pub const CUT_OFF_MULTIPLE: f64 = 2.0;

/// A pseudo-random offset of a round's dot from the middle of its row, from −½ to ½. It is the same in every rendering.
pub fn jitter(round: usize, row: usize) -> f64 {
    (mix(round as u64, row as u64) % 1000) as f64 / 1000.0 - 0.5
}

/// The bar of one variant.
pub struct VariantBar {
    /// The index of the variant.
    pub variant: usize,
    /// The length of the bar; `None` leaves its row empty.
    pub value: Option<f64>,
    /// Both ends of the whisker.
    pub whisker: Option<(f64, f64)>,
}

/// A report, and the styles of its variants.
pub struct ChartContext<'a> {
    /// The report.
    pub report: &'a Report,
    /// The style of each variant, by its index.
    pub styles: Vec<SeriesStyle>,
}

impl<'a> ChartContext<'a> {
    /// Chooses the styles of the report's variants.
    pub fn new(report: &'a Report) -> ChartContext<'a> {
        ChartContext { report, styles: SeriesStyle::of_variants(&report.record.variants) }
    }

    /// The run.
    pub fn record(&self) -> &'a RunRecord {
        &self.report.record
    }

    /// The name of a variant.
    pub fn variant_name(&self, variant: usize) -> &'a str {
        self.record().variant_name(variant)
    }

    /// The style of one of several series of a variant, in a shade of its colour. `index` counts the series of the variant
    /// from 0; the first has the style of the variant.
    pub fn series_style(&self, variant: usize, index: usize) -> SeriesStyle {
        let style = self.styles[variant];
        let dash = if index == 0 { style.dash } else { Dash::of_shade(index) };
        SeriesStyle { colour: style.colour.shade(index), shape: PointShape::of_series(variant + index), dash }
    }

    /// The indexes of the variants that pass a filter.
    pub fn variants_where(&self, filter: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.record().variants.len()).filter(|variant| filter(*variant)).collect()
    }

    /// A sentence, with a space before it, that names the variants not in `drawn` and the reason; empty if all are drawn.
    pub fn undrawn_variants_note(&self, drawn: &[usize], reason: &str) -> String {
        let undrawn = self.variants_where(|variant| !drawn.contains(&variant)).into_iter();
        not_drawn_note(&undrawn.map(|variant| self.variant_name(variant).to_string()).collect::<Vec<_>>(), reason)
    }

    /// The legend of variants that are drawn as lines with points.
    pub fn line_legend(&self, variants: &[usize]) -> Vec<LegendKey> {
        variants.iter().map(|variant| self.styles[*variant].legend_key(self.variant_name(*variant))).collect()
    }

    /// The legend of variants that are drawn as areas, or as lines without points.
    pub fn area_legend(&self, variants: &[usize]) -> Vec<LegendKey> {
        let key = |variant: &usize| {
            LegendKey::new(self.variant_name(*variant), self.styles[*variant].colour, KeySign::Area(1.0))
        };
        variants.iter().map(key).collect()
    }

    /// A panel of horizontal bars from zero, one in each row, with their values and whiskers. It cuts whiskers at
    /// [`CUT_OFF_MULTIPLE`] times the longest bar. `label` labels the horizontal axis; [`Panel::with_rows`] explains `heights`.
    pub fn bar_panel(
        &self,
        (title, label): (&str, &str),
        unit: Unit,
        bars: &[VariantBar],
        heights: (u32, u32),
    ) -> Panel {
        let longest_bar = bars.iter().filter_map(|bar| bar.value).fold(0.0, f64::max);
        let furthest_end = bars.iter().filter_map(|bar| Some(bar.whisker?.1)).fold(longest_bar, f64::max);
        // Without any bar above zero, the intervals determine the axis.
        let limit = if longest_bar > 0.0 { furthest_end.min(longest_bar * CUT_OFF_MULTIPLE) } else { furthest_end };
        let mut marks = vec![];
        for (row, bar) in bars.iter().enumerate() {
            let Some(value) = bar.value else { continue };
            let (y, colour) = (Axis::row_centre(row), self.styles[bar.variant].colour);
            marks.push(Mark::Box { x: (0.0, value), y: (y - 0.38, y + 0.38), colour, opacity: 1.0 });
            let (whisker, end_text) = clipped_whisker(limit, bar.whisker, y, |high| with_unit(high, unit));
            marks.extend(whisker);
            marks.push(Mark::value_text(y, format!("{}{end_text}", with_unit(value, unit))));
        }
        let names = bars.iter().map(|bar| self.variant_name(bar.variant));
        Panel::with_rows(title, Axis::from_zero(label, limit * 1.3, unit), names, heights, marks)
    }
}

/// The whisker of a bar at the height `y`, and the text behind the bar's figure. If the whisker ends beyond the limit, its mark
/// ends in an arrow, and the text states where the whisker ends, formatted by `format_end`; else the text is empty.
pub fn clipped_whisker(
    limit: f64,
    interval: Option<(f64, f64)>,
    y: f64,
    format_end: impl Fn(f64) -> String,
) -> (Option<Mark>, String) {
    let Some((low, high)) = interval else { return (None, String::new()) };
    let (clipped_end, text) =
        if high > limit { (Some(String::new()), format!(" →{}", format_end(high))) } else { (None, String::new()) };
    (Some(Mark::HorizontalInterval { x: (low, high), y, clipped_end }), text)
}

/// The marks of a stacked bar in this row, counted from 0, and its total length. The parts are lengths and colours.
pub fn stacked_bar(row: usize, parts: impl IntoIterator<Item = (f64, Colour)>) -> (Vec<Mark>, f64) {
    let y = (Axis::row_centre(row) - 0.35, Axis::row_centre(row) + 0.35);
    let (mut marks, mut total_length) = (vec![], 0.0);
    for (length, colour) in parts {
        marks.extend(Mark::edged_box((total_length, total_length + length), y, colour));
        total_length += length;
    }
    (marks, total_length)
}

/// A point of a series with the interval of an estimate, which is a ratio or a typical value.
pub fn point_with_interval(x: f64, y: f64, estimate: Option<Ratio>) -> SeriesPoint {
    SeriesPoint { x, y, interval: estimate.map(|estimate| (estimate.low, estimate.high)) }
}

/// The points of a curve: the geometric mean of the values at each abscissa, with the interval of their typical value.
pub fn points_of_curve(series: &Series) -> Vec<SeriesPoint> {
    let means = series.log_means().into_iter().map(f64::exp);
    let points = series.n.iter().zip(means).zip(&series.x);
    points.map(|((x, mean), values)| point_with_interval(*x, mean, Ratio::typical_value(values))).collect()
}

/// Widens a range until it contains all values.
pub fn widen_range(range: (f64, f64), values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold(range, |(low, high), value| (low.min(value), high.max(value)))
}

/// A sentence, with a space before it, that states that tasks are not drawn one by one; empty for at most [`MAX_TASKS`] tasks.
pub fn too_many_tasks_note(tasks: usize) -> String {
    if tasks <= MAX_TASKS {
        return String::new();
    }
    format!(" Of {}, all together are drawn and none alone.", plural(tasks, "task"))
}
