//! The chart of the ratios of a comparison: a panel for each variant, a row for each task.

use super::answer::{ComparedRatio, RatioClass, RatioSummary};
use crate::drawing::colour::{BLUE, GREEN, VERMILLION, filesystem_colours, theme};
use crate::drawing::{Anchor, Axis, Chart, Colour, Key, Mark, Panel, Shape, Sign, axis::trimmed};
use crate::{chart_context::widen_range, number::plural};
use fsarena_core::names::distinct;

/// A panel has at most this many rows: those with the largest differences.
const MAX_ROWS: usize = 40;
/// The chart cuts intervals at this multiple of the largest difference, in logarithms.
const MAX_REACH: f64 = 1.6;
/// The axis reaches at least this far from no difference on both sides, in logarithms.
const MIN_REACH: f64 = 0.02;

impl RatioSummary<'_> {
    /// The chart of the ratios; `None` without any. `axis` is the label of the horizontal axis: `elapsed, B over A`.
    pub fn chart(&self, title: String, axis: String) -> Option<Chart> {
        let figures: Vec<&ComparedRatio> =
            self.figures.iter().filter(|figure| drawable_ratio(figure).is_some()).collect();
        if figures.is_empty() {
            return None;
        }
        let groups = distinct(figures.iter().map(|figure| self.group(figure)));
        let range = range(&figures);
        let mut left_out = 0;
        let mut panels = vec![];
        for group in &groups {
            let in_group: Vec<&ComparedRatio> =
                figures.iter().copied().filter(|figure| self.group(figure) == *group).collect();
            let (rows, more) = rows(&in_group);
            left_out += more;
            let title = if groups.len() > 1 { group } else { "" };
            panels.push(self.panel(title, &in_group, &rows, range, ratio_axis(&axis, range)));
        }
        Some(Chart {
            columns: if panels.len() > 1 { 2 } else { 1 },
            panels,
            legend: self.legend(&figures),
            ..Chart::new("ratios", title, self.about(left_out, &figures))
        })
    }

    /// The caption. `left_out` is the number of rows that are not drawn.
    fn about(&self, left_out: usize, figures: &[&ComparedRatio]) -> String {
        let mut about = String::from(
            "Every point is a ratio with its 95% interval (with fewer than 8 values, the smallest and the largest). The \
             upright line is 1, no difference: an interval that crosses it shows no significant difference.",
        );
        if figures.iter().any(|figure| figure.published.is_some()) {
            about.push_str(" Rings are the same ratios in the published figures, which have no interval. The best variant of this run has no row.");
        }
        if left_out > 0 {
            let rows = plural(left_out, "row");
            about.push_str(&format!(" {rows} that differ less are left out here and stand in the table."));
        }
        about
    }

    /// The title of the panel that shows a figure: its variant, or its side if it has no variant.
    fn group<'f>(&'f self, figure: &'f ComparedRatio) -> &'f str {
        if figure.variant.is_empty() {
            self.sides.get(figure.side).map_or("", String::as_str)
        } else {
            &figure.variant
        }
    }

    /// Whether each row has one point for each side, and colours and shapes distinguish the sides.
    fn has_series_per_side(&self, figures: &[&ComparedRatio]) -> bool {
        self.sides.len() > 1 && figures.iter().any(|figure| !figure.variant.is_empty())
    }

    /// A panel with these rows. Its figures must all belong to it.
    fn panel(
        &self,
        title: &str,
        figures: &[&ComparedRatio],
        rows: &[&str],
        range: (f64, f64),
        x: Axis,
    ) -> Panel {
        let series = if self.has_series_per_side(figures) { self.sides.len() } else { 1 };
        let colours = side_colours(self.sides);
        let mut marks = vec![Mark::line([(0.0, -(rows.len() as f64)), (0.0, 0.0)], theme::INK, 1.5)];
        for figure in figures {
            let Some(at) = rows.iter().position(|row| *row == figure.subject.as_str()) else { continue };
            let (offset, sign) = if series > 1 {
                // The points of all sides share the middle 72% of the row's height.
                let spacing = 0.72 / series as f64;
                let offset = 0.36 - spacing * (figure.side as f64 + 0.5);
                (offset, (colours[figure.side], Shape::of_series(figure.side)))
            } else {
                (0.0, class_sign(figure.class()))
            };
            marks.extend(point_marks(figure, Axis::slot(at) + offset, sign, range));
        }
        Panel {
            title: title.into(),
            x,
            y: Axis::names(rows.iter().map(|row| row.to_string())),
            marks,
            height: 66 + (rows.len() * (12 * series).max(19)) as u32,
        }
    }

    /// The legend: the sides, or the classes of the ratios that occur.
    fn legend(&self, figures: &[&ComparedRatio]) -> Vec<Key> {
        let mut legend =
            if self.has_series_per_side(figures) { self.side_keys() } else { self.class_keys(figures) };
        if figures.iter().any(|figure| figure.published.is_some()) {
            legend.push(Key::new("then, as published", theme::INK, Sign::Point(Shape::Ring)));
        }
        legend
    }

    fn side_keys(&self) -> Vec<Key> {
        let sides = self.sides.iter().zip(side_colours(self.sides)).enumerate();
        sides.map(|(at, (side, colour))| Key::new(side, colour, Sign::Point(Shape::of_series(at)))).collect()
    }

    fn class_keys(&self, figures: &[&ComparedRatio]) -> Vec<Key> {
        let mut keys = vec![];
        for class in RatioClass::ALL {
            if figures.iter().any(|figure| figure.class() == class) {
                let (colour, shape) = class_sign(class);
                keys.push(Key::new(class.words(self.terms), colour, Sign::Point(shape)));
            }
        }
        keys
    }
}

/// The ratio of a figure if a logarithmic axis can show it: finite and above zero.
fn drawable_ratio(figure: &ComparedRatio) -> Option<f64> {
    figure.ratio.map(|ratio| ratio.value).filter(|value| value.is_finite() && *value > 0.0)
}

/// The names of the rows of a panel, and how many rows are left out because others differ more.
fn rows<'f>(figures: &[&'f ComparedRatio]) -> (Vec<&'f str>, usize) {
    let mut rows = distinct(figures.iter().map(|figure| figure.subject.as_str()));
    let largest_difference = |row: &str| {
        let in_row = figures.iter().filter(|figure| figure.subject == row);
        in_row.filter_map(|figure| drawable_ratio(figure)).map(|value| value.ln().abs()).fold(0.0, f64::max)
    };
    let mut by_distance = rows.clone();
    by_distance.sort_by(|a, b| largest_difference(b).total_cmp(&largest_difference(a)));
    by_distance.truncate(MAX_ROWS);
    let all = rows.len();
    rows.retain(|row| by_distance.contains(row));
    (rows, all - by_distance.len())
}

/// The range of the horizontal axis, in logarithms: it contains all values, and intervals up to [`MAX_REACH`].
fn range(figures: &[&ComparedRatio]) -> (f64, f64) {
    let values = figures
        .iter()
        .flat_map(|figure| [drawable_ratio(figure), figure.published.filter(|then| *then > 0.0)]);
    let furthest = values.flatten().map(|value| value.ln().abs()).fold(MIN_REACH, f64::max);
    let limit = MAX_REACH * furthest;
    let limits = figures.iter().filter_map(|figure| figure.ratio).flat_map(|ratio| [ratio.low, ratio.high]);
    let values = figures.iter().flat_map(|figure| [drawable_ratio(figure), figure.published]).flatten();
    let all = limits.chain(values).map(|end| end.max(f64::MIN_POSITIVE).ln());
    let (low, high) = widen_range((-MIN_REACH, MIN_REACH), all);
    (low.max(-limit), high.min(limit))
}

/// An axis from `low` to `high`, in logarithms, whose ticks show ratios: 1 means equal.
fn ratio_axis(label: &str, (low, high): (f64, f64)) -> Axis {
    let mut axis = Axis::changes(label, low, high);
    for (at, label) in &mut axis.ticks {
        *label = tick_label(at.exp());
    }
    axis
}

/// The label of a ratio on the axis, near 1 with enough digits to differ from 1.
fn tick_label(ratio: f64) -> String {
    if (0.9..1.1).contains(&ratio) {
        return format!("{ratio:.4}").trim_end_matches('0').trim_end_matches('.').to_string();
    }
    trimmed(ratio)
}

/// The colours of the sides of a comparison.
fn side_colours(sides: &[String]) -> Vec<Colour> {
    filesystem_colours(&sides.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The colour and the shape of the points of a class.
fn class_sign(class: RatioClass) -> (Colour, Shape) {
    match class {
        RatioClass::Better => (GREEN, Shape::Triangle),
        RatioClass::Worse => (VERMILLION, Shape::Diamond),
        RatioClass::Other => (BLUE, Shape::Diamond),
        RatioClass::Negligible | RatioClass::Equivalent => (BLUE, Shape::Square),
        RatioClass::Inconclusive | RatioClass::Few => (theme::SOFT, Shape::Disc),
    }
}

/// The marks of a ratio at a height of the panel: its point, its interval, cut at the range of the axis, and a ring for the
/// published ratio.
fn point_marks(
    figure: &ComparedRatio,
    y: f64,
    (colour, shape): (Colour, Shape),
    (low, high): (f64, f64),
) -> Vec<Mark> {
    let mut marks = vec![];
    let Some(ratio) = figure.ratio else { return marks };
    let (from, to) = (ratio.low.max(f64::MIN_POSITIVE).ln(), ratio.high.ln());
    if from.is_finite() && !to.is_nan() {
        let beyond = (to > high).then(|| tick_label(ratio.high));
        marks.push(Mark::HorizontalInterval { x: (from.max(low), to.min(high)), y, beyond });
        if from < low {
            marks.push(Mark::words((low, y), (3, 0), "◂", theme::INK, Anchor::End));
        }
    }
    if let Some(published) = figure.published.filter(|then| *then > 0.0) {
        marks.push(Mark::Dot { at: (published.ln(), y), colour: theme::INK, shape: Shape::Ring });
    }
    marks.push(Mark::Dot { at: (ratio.value.ln(), y), colour, shape });
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio_verdict::RatioVerdict;
    use fsarena_core::sample::Direction;
    use fsarena_stats::cost::Estimate;

    fn figure(what: String, variant: &str, side: usize, value: f64) -> ComparedRatio {
        let ratio = Some(Estimate { value, low: value * 0.9, high: value * 1000.0 });
        let (verdict, direction) = (RatioVerdict::Inconclusive, Direction::Lower);
        ComparedRatio {
            variant: variant.into(),
            side,
            ..ComparedRatio::new(&what, ratio, verdict, direction)
        }
    }

    fn chart(figures: &[ComparedRatio], sides: &[&str]) -> Option<Chart> {
        let sides: Vec<String> = sides.iter().map(|side| side.to_string()).collect();
        let answer = RatioSummary { figures, sides: &sides, margin: None, terms: ["better", "worse"] };
        answer.chart("t".into(), "B over A".into())
    }

    #[test]
    fn each_variant_has_a_panel_with_a_tick_at_1() {
        let figures: Vec<ComparedRatio> =
            ["ext4", "xfs"].iter().map(|variant| figure("cp".into(), variant, 0, 1.5)).collect();
        let chart = chart(&figures, &["B"]).unwrap();
        assert_eq!((chart.panels.len(), chart.columns), (2, 2));
        for panel in &chart.panels {
            assert!(panel.x.ticks.contains(&(0.0, "1".into())), "{:?}", panel.x.ticks);
            let cut = panel.marks.iter().any(
                |mark| matches!(mark, Mark::HorizontalInterval { beyond: Some(end), .. } if end == "1500"),
            );
            assert!(cut && panel.x.range.1 < 2.0, "an interval of 1,000 does not hide the rest");
        }
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
        let figures: Vec<ComparedRatio> =
            (0..100).map(|at| figure(at.to_string(), "xfs", 0, 1.0 + f64::from(at))).collect();
        let chart = chart(&figures, &["B"]).unwrap();
        assert_eq!(chart.panels[0].y.ticks.len(), MAX_ROWS);
        assert!(chart.panels[0].y.ticks.iter().any(|(_, name)| name == "99"));
        assert!(chart.about.contains("60 rows that differ less"), "{}", chart.about);
    }

    #[test]
    fn the_legend_lists_several_runs_that_share_a_row() {
        let figures: Vec<ComparedRatio> = (0..2).map(|side| figure("cp".into(), "xfs", side, 1.5)).collect();
        let chart = chart(&figures, &["B", "C"]).unwrap();
        assert_eq!(chart.legend.iter().map(|key| key.label.as_str()).collect::<Vec<_>>(), ["B", "C"]);
        assert!(self::chart(&[], &["B"]).is_none());
    }
}
