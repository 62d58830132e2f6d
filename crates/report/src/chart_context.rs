//! The data of a report that charts use, and marks that several charts share.

use crate::drawing::{Axis, Colour, Dash, KeySign, LegendKey, Mark, Panel, SeriesPoint, SeriesStyle, Shape};
use crate::number::{plural, with_unit};
use crate::{phrases::not_drawn_note, report::Report};
use fsarena_core::{record::RunRecord, sample::Unit, schedule::mix};
use fsarena_stats::ratio::Ratio;

/// Charts show the tasks one by one up to this number; of more tasks, they show only all tasks together.
pub const MAX_TASKS: usize = 40;
/// The chart cuts an interval at this multiple of the longest bar, with an arrow, so that bars do not become too short.
pub const CUT_OFF_MULTIPLE: f64 = 2.0;

/// A pseudo-random offset of a round's dot from the middle of its row, from −½ to ½. It is the same in every rendering.
pub fn jitter(round: usize, row: usize) -> f64 {
    (mix(round as u64, row as u64) % 1000) as f64 / 1000.0 - 0.5
}

/// A bar: the index of its variant, its value, and both ends of its whisker.
pub type BarRow = (usize, Option<f64>, Option<(f64, f64)>);

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
    pub fn name(&self, variant: usize) -> &'a str {
        self.record().name(variant)
    }

    /// The style of one of several series of a variant, in a shade of its colour. `before` is the number of
    /// the variant's earlier series; with 0 it is the style of the variant.
    pub fn shade(&self, variant: usize, before: usize) -> SeriesStyle {
        let style = self.styles[variant];
        let dash = if before == 0 { style.dash } else { Dash::of_shade(before) };
        SeriesStyle { colour: style.colour.shade(before), shape: Shape::of_series(variant + before), dash }
    }

    /// The indexes of the variants that pass a filter.
    pub fn variants(&self, filter: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.record().variants.len()).filter(|variant| filter(*variant)).collect()
    }

    /// A sentence, with a space before it, that names the variants not in `drawn` and the reason; empty if all are drawn.
    pub fn not_drawn_note(&self, drawn: &[usize], why: &str) -> String {
        let others = self.variants(|variant| !drawn.contains(&variant)).into_iter();
        not_drawn_note(&others.map(|variant| self.name(variant).to_string()).collect::<Vec<_>>(), why)
    }

    /// The legend of these variants. With `with_shapes` the keys are lines with points, else areas.
    pub fn legend(&self, variants: &[usize], with_shapes: bool) -> Vec<LegendKey> {
        let key = |variant: &usize| {
            let (name, style) = (self.name(*variant), self.styles[*variant]);
            if with_shapes { style.legend_key(name) } else { LegendKey::new(name, style.colour, KeySign::Area(1.0)) }
        };
        variants.iter().map(key).collect()
    }

    /// A panel of bars from zero, one for each row, with their values and whiskers. It cuts whiskers at
    /// [`CUT_OFF_MULTIPLE`] times the longest bar. `height` is that of the whole panel without rows, and of
    /// each row.
    pub fn bar_panel(&self, (title, label): (&str, &str), unit: Unit, rows: &[BarRow], height: (u32, u32)) -> Panel {
        let longest = rows.iter().filter_map(|(_, value, _)| *value).fold(0.0, f64::max);
        let furthest = rows.iter().filter_map(|(.., whisker)| Some(whisker.as_ref()?.1)).fold(longest, f64::max);
        // Without any bar above zero, the intervals determine the axis.
        let limit = if longest > 0.0 { furthest.min(longest * CUT_OFF_MULTIPLE) } else { furthest };
        let mut marks = vec![];
        for (row, (variant, value, whisker)) in rows.iter().enumerate() {
            let Some(value) = value else { continue };
            let (y, colour) = (Axis::row_centre(row), self.styles[*variant].colour);
            marks.push(Mark::Box { x: (0.0, *value), y: (y - 0.38, y + 0.38), colour, opacity: 1.0 });
            let (whisker, end) = clipped_whisker(limit, *whisker, y, |high| with_unit(high, unit));
            marks.extend(whisker);
            marks.push(Mark::value_text(y, format!("{}{end}", with_unit(*value, unit))));
        }
        let names = rows.iter().map(|(variant, ..)| self.name(*variant));
        Panel::with_rows(title, Axis::from_zero(label, limit * 1.3, unit), names, height, marks)
    }
}

/// The whisker of a bar, and the text behind the bar's figure. If the whisker ends beyond the limit, its mark ends in an
/// arrow and the text has its end, formatted by `format_end`; else the text is empty.
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

/// The marks of a stacked bar in row `row`, and its total length. The parts are lengths and colours.
pub fn stacked_bar(row: usize, parts: impl IntoIterator<Item = (f64, Colour)>) -> (Vec<Mark>, f64) {
    let y = (Axis::row_centre(row) - 0.35, Axis::row_centre(row) + 0.35);
    let (mut marks, mut from) = (vec![], 0.0);
    for (length, colour) in parts {
        marks.extend(Mark::edged_box((from, from + length), y, colour));
        from += length;
    }
    (marks, from)
}

/// A point of a series at a value with the interval of a ratio or of a typical value.
pub fn ratio_point(x: f64, y: f64, ratio: Option<Ratio>) -> SeriesPoint {
    SeriesPoint { x, y, interval: ratio.map(|ratio| (ratio.low, ratio.high)) }
}

/// Widens a range until it contains all values.
pub fn widen_range(range: (f64, f64), values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold(range, |(low, high), value| (low.min(value), high.max(value)))
}

/// A sentence, with a space before it, that tasks are not drawn one by one; empty up to [`MAX_TASKS`].
pub fn too_many_tasks_note(tasks: usize) -> String {
    if tasks <= MAX_TASKS {
        return String::new();
    }
    format!(" Of {}, all together are drawn and none alone.", plural(tasks, "task"))
}
