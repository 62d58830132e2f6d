//! The chart of the ratios of a comparison: a panel for each variant, a row for each task.

use super::answer::{ComparedRatio, RatioClass, RatioSummary};
use crate::drawing::colour::{BLUE, GREEN, VERMILLION, filesystem_colours, theme};
use crate::drawing::{Anchor, Axis, Chart, Colour, KeySign, LegendKey, Mark, Panel, PointShape, axis::format_trimmed};
use crate::{chart_context::widen_range, number::plural};
use fsarena_core::names::distinct;

/// A panel has at most this many rows, those with the largest differences.
const MAX_ROWS: usize = 40;
/// Height of a panel without its rows, in CSS pixels.
const PANEL_FRAME_PX: u32 = 66;
/// Height that a row has for each of its points, in CSS pixels.
const POINT_PX: usize = 12;
/// The smallest height of a row, in CSS pixels.
const MIN_ROW_PX: usize = 19;
/// The chart cuts intervals at this multiple of the largest distance of a ratio from 1, in logarithms.
const CUT_OFF_MULTIPLE: f64 = 1.6;
/// The axis extends at least this far to both sides of the ratio 1, in logarithms.
const MIN_AXIS_EXTENT: f64 = 0.02;

impl RatioSummary<'_> {
    /// The chart of the ratios; `None` if none can be drawn. `axis_label` is the label of the horizontal axis: `elapsed, B over
    /// A`.
    pub fn chart(&self, title: String, axis_label: String) -> Option<Chart> {
        let ratios: Vec<&ComparedRatio> =
            self.ratios.iter().filter(|compared| drawable_ratio(compared).is_some()).collect();
        if ratios.is_empty() {
            return None;
        }
        let titles = distinct(ratios.iter().map(|compared| self.panel_title(compared)));
        let range = axis_range(&ratios);
        let mut rows_left_out = 0;
        let mut panels = vec![];
        for panel_title in &titles {
            let in_panel: Vec<&ComparedRatio> =
                ratios.iter().copied().filter(|compared| self.panel_title(compared) == *panel_title).collect();
            let (rows, left_out) = choose_rows(&in_panel);
            rows_left_out += left_out;
            let title = if titles.len() > 1 { panel_title } else { "" };
            panels.push(self.panel(title, &in_panel, &rows, range, ratio_axis(&axis_label, range)));
        }
        Some(Chart {
            columns: if panels.len() > 1 { 2 } else { 1 },
            panels,
            legend: self.legend(&ratios),
            ..Chart::new("ratios", title, self.caption(rows_left_out, &ratios))
        })
    }

    /// The caption of the chart, in which `rows_left_out` rows are not drawn.
    fn caption(&self, rows_left_out: usize, ratios: &[&ComparedRatio]) -> String {
        let mut caption = String::from(
            "Every point is a ratio with its 95% interval (with fewer than 8 values, the smallest and the largest). The \
             upright line is 1, no difference: an interval that crosses it shows no significant difference.",
        );
        if ratios.iter().any(|compared| compared.published.is_some()) {
            caption.push_str(" Rings are the same ratios in the published figures, which have no interval. The other variants are compared with the best one of this run, so that one has no row.");
        }
        if rows_left_out > 0 {
            let rows = plural(rows_left_out, "row");
            caption.push_str(&format!(" {rows} that differ less are left out here and stand in the table."));
        }
        caption
    }

    /// The title of the panel that shows a ratio: its variant, or its comparison if it has no variant.
    fn panel_title<'f>(&'f self, compared: &'f ComparedRatio) -> &'f str {
        if compared.variant.is_empty() {
            self.comparisons.get(compared.comparison).map_or("", String::as_str)
        } else {
            &compared.variant
        }
    }

    /// Whether each row has one point for each comparison. Colours and shapes then distinguish the comparisons instead of the
    /// classes.
    fn has_series_per_comparison(&self, ratios: &[&ComparedRatio]) -> bool {
        self.comparisons.len() > 1 && ratios.iter().any(|compared| !compared.variant.is_empty())
    }

    /// A panel with these rows. The ratios must all belong to it.
    fn panel(&self, title: &str, ratios: &[&ComparedRatio], rows: &[&str], range: (f64, f64), x_axis: Axis) -> Panel {
        let points_per_row = if self.has_series_per_comparison(ratios) { self.comparisons.len() } else { 1 };
        let colours = comparison_colours(self.comparisons);
        let mut marks = vec![Mark::line([(0.0, -(rows.len() as f64)), (0.0, 0.0)], theme::INK, 1.5)];
        for compared in ratios {
            let Some(row) = rows.iter().position(|name| *name == compared.subject.as_str()) else { continue };
            let (offset, colour_and_shape) = if points_per_row > 1 {
                // The points of all comparisons share the middle 72% of the row's height.
                let spacing = 0.72 / points_per_row as f64;
                let offset = 0.36 - spacing * (compared.comparison as f64 + 0.5);
                (offset, (colours[compared.comparison], PointShape::of_series(compared.comparison)))
            } else {
                (0.0, class_colour_and_shape(compared.class()))
            };
            marks.extend(point_marks(compared, Axis::row_centre(row) + offset, colour_and_shape, range));
        }
        Panel {
            title: title.into(),
            x_axis,
            y_axis: Axis::of_rows(rows.iter().map(|row| row.to_string())),
            marks,
            height: PANEL_FRAME_PX + (rows.len() * (POINT_PX * points_per_row).max(MIN_ROW_PX)) as u32,
        }
    }

    /// The legend: the comparisons, or the classes of the ratios that occur.
    fn legend(&self, ratios: &[&ComparedRatio]) -> Vec<LegendKey> {
        let mut points: Vec<(&str, Colour, PointShape)> = vec![];
        if self.has_series_per_comparison(ratios) {
            for (index, colour) in comparison_colours(self.comparisons).into_iter().enumerate() {
                points.push((self.comparisons[index].as_str(), colour, PointShape::of_series(index)));
            }
        } else {
            let occurs = |class: &RatioClass| ratios.iter().any(|compared| compared.class() == *class);
            for class in RatioClass::ALL.into_iter().filter(occurs) {
                let (colour, shape) = class_colour_and_shape(class);
                points.push((class.describe(self.terms), colour, shape));
            }
        }
        if ratios.iter().any(|compared| compared.published.is_some()) {
            points.push(("then, as published", theme::INK, PointShape::Ring));
        }
        points.into_iter().map(|(label, colour, shape)| LegendKey::new(label, colour, KeySign::Point(shape))).collect()
    }
}

/// The value of a ratio if a logarithmic axis can show it: finite and above zero.
fn drawable_ratio(compared: &ComparedRatio) -> Option<f64> {
    compared.ratio.map(|ratio| ratio.value).filter(|value| value.is_finite() && *value > 0.0)
}

/// The published ratio if a logarithmic axis can show it: above zero.
fn drawable_published_ratio(compared: &ComparedRatio) -> Option<f64> {
    compared.published.filter(|value| *value > 0.0)
}

/// The names of the rows of a panel, and how many rows are left out because others differ more.
fn choose_rows<'f>(ratios: &[&'f ComparedRatio]) -> (Vec<&'f str>, usize) {
    let mut rows = distinct(ratios.iter().map(|compared| compared.subject.as_str()));
    let largest_difference = |row: &str| {
        let in_row = ratios.iter().filter(|compared| compared.subject == row);
        in_row.filter_map(|compared| drawable_ratio(compared)).map(|value| value.ln().abs()).fold(0.0, f64::max)
    };
    let mut chosen = rows.clone();
    chosen.sort_by(|a, b| largest_difference(b).total_cmp(&largest_difference(a)));
    chosen.truncate(MAX_ROWS);
    let left_out = rows.len() - chosen.len();
    rows.retain(|row| chosen.contains(row));
    (rows, left_out)
}

/// The range of the horizontal axis, in logarithms. It contains all values, and intervals up to [`CUT_OFF_MULTIPLE`].
fn axis_range(ratios: &[&ComparedRatio]) -> (f64, f64) {
    let drawable_values = |compared: &&ComparedRatio| [drawable_ratio(compared), drawable_published_ratio(compared)];
    let values: Vec<f64> = ratios.iter().flat_map(drawable_values).flatten().collect();
    let largest_difference = values.iter().map(|value| value.ln().abs()).fold(MIN_AXIS_EXTENT, f64::max);
    let limit = CUT_OFF_MULTIPLE * largest_difference;
    let interval_ends = ratios.iter().filter_map(|compared| compared.ratio).flat_map(|ratio| [ratio.low, ratio.high]);
    let logarithms = interval_ends.chain(values).map(|end| end.max(f64::MIN_POSITIVE).ln());
    let (low, high) = widen_range((-MIN_AXIS_EXTENT, MIN_AXIS_EXTENT), logarithms);
    (low.max(-limit), high.min(limit))
}

/// An axis from `low` to `high`, in logarithms, whose ticks show ratios: 1 means equal.
fn ratio_axis(label: &str, (low, high): (f64, f64)) -> Axis {
    let mut axis = Axis::of_log_ratios(label, low, high);
    for (coordinate, label) in &mut axis.ticks {
        *label = tick_label(coordinate.exp());
    }
    axis
}

/// The label of a ratio on the axis, near 1 with enough digits to differ from 1.
fn tick_label(ratio: f64) -> String {
    if (0.9..1.1).contains(&ratio) {
        return format!("{ratio:.4}").trim_end_matches('0').trim_end_matches('.').to_string();
    }
    format_trimmed(ratio)
}

/// The colours of comparisons, by their names.
fn comparison_colours(names: &[String]) -> Vec<Colour> {
    filesystem_colours(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The colour and the shape of the points of a class.
fn class_colour_and_shape(class: RatioClass) -> (Colour, PointShape) {
    match class {
        RatioClass::Better => (GREEN, PointShape::Triangle),
        RatioClass::Worse => (VERMILLION, PointShape::Diamond),
        RatioClass::NeutralDifference => (BLUE, PointShape::Diamond),
        RatioClass::Negligible | RatioClass::Equivalent => (BLUE, PointShape::Square),
        RatioClass::Inconclusive | RatioClass::TooFewValues => (theme::MUTED, PointShape::Disc),
    }
}

/// The marks of a ratio at the height `y` of the panel: its point, a ring for the published ratio, and its interval, cut at the
/// range of the axis from `low` to `high`.
fn point_marks(
    compared: &ComparedRatio,
    y: f64,
    (colour, shape): (Colour, PointShape),
    (low, high): (f64, f64),
) -> Vec<Mark> {
    let mut marks = vec![];
    let Some(ratio) = compared.ratio else { return marks };
    let (log_low, log_high) = (ratio.low.max(f64::MIN_POSITIVE).ln(), ratio.high.ln());
    if log_low.is_finite() && !log_high.is_nan() {
        let clipped_end = (log_high > high).then(|| tick_label(ratio.high));
        marks.push(Mark::HorizontalInterval { x: (log_low.max(low), log_high.min(high)), y, clipped_end });
        if log_low < low {
            marks.push(Mark::text((low, y), (3, 0), "◂", theme::INK, Anchor::End));
        }
    }
    if let Some(published) = drawable_published_ratio(compared) {
        marks.push(Mark::Dot { point: (published.ln(), y), colour: theme::INK, shape: PointShape::Ring });
    }
    marks.push(Mark::Dot { point: (ratio.value.ln(), y), colour, shape });
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio_verdict::RatioVerdict;
    use fsarena_core::sample::Direction;
    use fsarena_stats::cost::Estimate;

    fn compared(subject: String, variant: &str, comparison: usize, value: f64) -> ComparedRatio {
        let ratio = Some(Estimate { value, low: value * 0.9, high: value * 1000.0 });
        let (verdict, direction) = (RatioVerdict::Inconclusive, Direction::Lower);
        ComparedRatio { variant: variant.into(), comparison, ..ComparedRatio::new(&subject, ratio, verdict, direction) }
    }

    fn chart(ratios: &[ComparedRatio], names: &[&str]) -> Option<Chart> {
        let comparisons: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let summary = RatioSummary { ratios, comparisons: &comparisons, margin: None, terms: ["better", "worse"] };
        summary.chart("t".into(), "B over A".into())
    }

    #[test]
    fn each_variant_has_a_panel_with_a_tick_at_1() {
        let ratios: Vec<ComparedRatio> =
            ["ext4", "xfs"].iter().map(|variant| compared("cp".into(), variant, 0, 1.5)).collect();
        let chart = chart(&ratios, &["B"]).unwrap();
        assert_eq!((chart.panels.len(), chart.columns), (2, 2));
        for panel in &chart.panels {
            assert!(panel.x_axis.ticks.contains(&(0.0, "1".into())), "{:?}", panel.x_axis.ticks);
            let is_cut = panel
                .marks
                .iter()
                .any(|mark| matches!(mark, Mark::HorizontalInterval { clipped_end: Some(end), .. } if end == "1500"));
            assert!(is_cut && panel.x_axis.range.1 < 2.0, "an interval of 1,000 does not hide the rest");
        }
    }

    #[test]
    fn a_published_ratio_of_zero_does_not_widen_the_axis() {
        let ratio = Some(Estimate { value: 1.5, low: 1.4, high: 1.6 });
        let compared = ComparedRatio::new("cp", ratio, RatioVerdict::Inconclusive, Direction::Lower);
        let with_zero = ComparedRatio { published: Some(0.0), ..compared.clone() };
        assert_eq!(axis_range(&[&with_zero]), axis_range(&[&compared]));
    }

    #[test]
    fn labels_of_ticks_near_1_differ_from_1() {
        assert_eq!(
            [0.2, 0.995, 1.0, 1.005, 1.25, 100.0].map(tick_label),
            ["0.2", "0.995", "1", "1.005", "1.25", "100"]
        );
    }

    #[test]
    fn only_the_rows_with_the_largest_differences_are_drawn() {
        let ratios: Vec<ComparedRatio> =
            (0..100).map(|row| compared(row.to_string(), "xfs", 0, 1.0 + f64::from(row))).collect();
        let chart = chart(&ratios, &["B"]).unwrap();
        assert_eq!(chart.panels[0].y_axis.ticks.len(), MAX_ROWS);
        assert!(chart.panels[0].y_axis.ticks.iter().any(|(_, name)| name == "99"));
        assert!(chart.caption.contains("60 rows that differ less"), "{}", chart.caption);
    }

    #[test]
    fn the_legend_lists_several_comparisons_that_share_a_row() {
        let ratios: Vec<ComparedRatio> = (0..2).map(|index| compared("cp".into(), "xfs", index, 1.5)).collect();
        let chart = chart(&ratios, &["B", "C"]).unwrap();
        assert_eq!(chart.legend.iter().map(|key| key.label.as_str()).collect::<Vec<_>>(), ["B", "C"]);
        assert!(self::chart(&[], &["B"]).is_none());
    }
}
