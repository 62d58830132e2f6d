//! The ratios of a comparison as a picture: a panel for each variant, a row for each task.

use super::answer::{ComparedRatio, RatioClass, RatioSummary};
use crate::drawing::colour::{BLUE, GREEN, VERMILLION, filesystem_colours, theme};
use crate::drawing::{Anchor, Axis, Chart, Colour, Key, Mark, Panel, Shape, Sign, axis::trimmed};
use crate::{chart_context::widen_range, number::plural};
use fsarena_core::names::distinct;

/// The most rows of one panel; of more, those that differ most.
const MOST: usize = 40;
/// The picture cuts intervals at this multiple of the largest ratio, on the logarithm.
const REACH: f64 = 1.6;
/// Half a factor that an axis shows at least.
const LEAST: f64 = 0.02;

impl RatioSummary<'_> {
    /// The chart of the ratios, where there are some; `axis` is what its axis measures: `elapsed, B over A`.
    pub fn chart(&self, title: String, axis: String) -> Option<Chart> {
        let figures: Vec<&ComparedRatio> =
            self.figures.iter().filter(|figure| drawn(figure).is_some()).collect();
        if figures.is_empty() {
            return None;
        }
        let groups = distinct(figures.iter().map(|figure| self.group(figure)));
        let range = range(&figures);
        let mut left_out = 0;
        let panels: Vec<Panel> = groups
            .iter()
            .map(|group| {
                let in_group = |figure: &&&ComparedRatio| self.group(figure) == *group;
                let of: Vec<&ComparedRatio> = figures.iter().filter(in_group).copied().collect();
                let (rows, more) = rows(&of);
                left_out += more;
                let title = if groups.len() > 1 { group } else { "" };
                self.panel(title, &of, &rows, range, ratios(&axis, range))
            })
            .collect();
        Some(Chart {
            columns: if panels.len() > 1 { 2 } else { 1 },
            panels,
            legend: self.legend(&figures),
            ..Chart::new("ratios", title, self.about(left_out, &figures))
        })
    }

    fn about(&self, left_out: usize, figures: &[&ComparedRatio]) -> String {
        let mut about = String::from(
            "Every point is a ratio with its 95% interval (under 8 values the extremes seen). The upright \
             line is 1, no difference: an interval that crosses it tells nothing apart.",
        );
        if figures.iter().any(|figure| figure.then.is_some()) {
            about.push_str(" Rings are the same ratios in the published figures, which have no interval. What is best here has no row.");
        }
        if left_out > 0 {
            let rows = plural(left_out, "row");
            about.push_str(&format!(" {rows} that differ less are left out here and stand in the table."));
        }
        about
    }

    /// The panel of a figure: that of its variant, or that of its side if it has no variant.
    fn group<'f>(&'f self, figure: &'f ComparedRatio) -> &'f str {
        if figure.variant.is_empty() {
            self.sides.get(figure.side).map_or("", String::as_str)
        } else {
            &figure.variant
        }
    }

    /// Whether sides stand beside each other within a row.
    fn beside(&self, figures: &[&ComparedRatio]) -> bool {
        self.sides.len() > 1 && figures.iter().any(|figure| !figure.variant.is_empty())
    }

    fn panel(
        &self,
        title: &str,
        figures: &[&ComparedRatio],
        rows: &[&str],
        range: (f64, f64),
        x: Axis,
    ) -> Panel {
        let series = if self.beside(figures) { self.sides.len() } else { 1 };
        let colours = side_colours(self.sides);
        let mut marks = vec![Mark::line([(0.0, -(rows.len() as f64)), (0.0, 0.0)], theme::INK, 1.5)];
        for figure in figures {
            let Some(at) = rows.iter().position(|row| *row == figure.what.as_str()) else { continue };
            let (offset, sign) = if series > 1 {
                let apart = 0.72 / series as f64;
                let offset = 0.36 - apart * (figure.side as f64 + 0.5);
                (offset, (colours[figure.side], Shape::of_series(figure.side)))
            } else {
                (0.0, sign(figure.class()))
            };
            marks.extend(point(figure, Axis::slot(at) + offset, sign, range));
        }
        Panel {
            title: title.into(),
            x,
            y: Axis::names(rows.iter().map(|row| row.to_string())),
            marks,
            height: 66 + (rows.len() * (12 * series).max(19)) as u32,
        }
    }

    fn legend(&self, figures: &[&ComparedRatio]) -> Vec<Key> {
        let mut legend: Vec<Key> = if self.beside(figures) {
            let colours = side_colours(self.sides);
            let key =
                |(at, side): (usize, &String)| Key::new(side, colours[at], Sign::Point(Shape::of_series(at)));
            self.sides.iter().enumerate().map(key).collect()
        } else {
            let [better, worse] = self.terms;
            let classes = [
                (RatioClass::Better, better),
                (RatioClass::Worse, worse),
                (RatioClass::Other, "different"),
                (RatioClass::Negligible, "different, but by less than matters"),
                (RatioClass::Equivalent, "equivalent"),
                (RatioClass::Inconclusive, "inconclusive"),
                (RatioClass::Few, "too few values"),
            ];
            let there = |class: RatioClass| figures.iter().any(|figure| figure.class() == class);
            let key = |(class, words): (RatioClass, &str)| {
                let (colour, shape) = sign(class);
                Key::new(words, colour, Sign::Point(shape))
            };
            classes.into_iter().filter(|(class, _)| there(*class)).map(key).collect()
        };
        if figures.iter().any(|figure| figure.then.is_some()) {
            legend.push(Key::new("then, as published", theme::INK, Sign::Point(Shape::Ring)));
        }
        legend
    }
}

/// The ratio of a figure, where it can be drawn on a logarithmic axis.
fn drawn(figure: &ComparedRatio) -> Option<f64> {
    figure.ratio.map(|ratio| ratio.value).filter(|value| value.is_finite() && *value > 0.0)
}

/// The rows of a panel, and how many are left out.
fn rows<'f>(figures: &[&'f ComparedRatio]) -> (Vec<&'f str>, usize) {
    let mut rows = distinct(figures.iter().map(|figure| figure.what.as_str()));
    let far = |row: &str| {
        let of = figures.iter().filter(|figure| figure.what == row).filter_map(|figure| drawn(figure));
        of.map(|value| value.ln().abs()).fold(0.0, f64::max)
    };
    let mut by_distance = rows.clone();
    by_distance.sort_by(|a, b| far(b).total_cmp(&far(a)));
    by_distance.truncate(MOST);
    let all = rows.len();
    rows.retain(|row| by_distance.contains(row));
    (rows, all - by_distance.len())
}

/// From and to, by logarithm.
fn range(figures: &[&ComparedRatio]) -> (f64, f64) {
    let values = figures.iter().flat_map(|figure| [drawn(figure), figure.then.filter(|then| *then > 0.0)]);
    let furthest = values.flatten().map(|value| value.ln().abs()).fold(LEAST, f64::max);
    let limit = REACH * furthest;
    let limits = figures.iter().filter_map(|figure| figure.ratio).flat_map(|ratio| [ratio.low, ratio.high]);
    let values = figures.iter().flat_map(|figure| [drawn(figure), figure.then]).flatten();
    let all = limits.chain(values).map(|end| end.max(f64::MIN_POSITIVE).ln());
    let (low, high) = widen_range((-LEAST, LEAST), all);
    (low.max(-limit), high.min(limit))
}

/// Changes as ratios: 1 means equal.
fn ratios(label: &str, (low, high): (f64, f64)) -> Axis {
    let mut axis = Axis::changes(label, low, high);
    for (at, words) in &mut axis.ticks {
        *words = ratio_words(at.exp());
    }
    axis
}

/// A ratio on an axis; near 1 with the digits that tell it from 1.
fn ratio_words(ratio: f64) -> String {
    if (0.9..1.1).contains(&ratio) {
        return format!("{ratio:.4}").trim_end_matches('0').trim_end_matches('.').to_string();
    }
    trimmed(ratio)
}

fn side_colours(sides: &[String]) -> Vec<Colour> {
    filesystem_colours(&sides.iter().map(String::as_str).collect::<Vec<_>>())
}

fn sign(class: RatioClass) -> (Colour, Shape) {
    match class {
        RatioClass::Better => (GREEN, Shape::Triangle),
        RatioClass::Worse => (VERMILLION, Shape::Diamond),
        RatioClass::Other => (BLUE, Shape::Diamond),
        RatioClass::Negligible | RatioClass::Equivalent => (BLUE, Shape::Square),
        RatioClass::Inconclusive | RatioClass::Few => (theme::SOFT, Shape::Disc),
    }
}

fn point(
    figure: &ComparedRatio,
    y: f64,
    (colour, shape): (Colour, Shape),
    (low, high): (f64, f64),
) -> Vec<Mark> {
    let mut marks = vec![];
    let Some(ratio) = figure.ratio else { return marks };
    let ends = (ratio.low.max(f64::MIN_POSITIVE).ln(), ratio.high.ln());
    if ends.0.is_finite() && !ends.1.is_nan() {
        let x = (ends.0.max(low), ends.1.min(high));
        let beyond = (ends.1 > high).then(|| ratio_words(ratio.high));
        marks.push(Mark::HorizontalInterval { x, y, beyond });
        if ends.0 < low {
            let (at, text) = ((low, y), "◂".to_string());
            let (colour, anchor) = (theme::INK, Anchor::End);
            marks.push(Mark::words(at, (3, 0), text, colour, anchor));
        }
    }
    if let Some(then) = figure.then.filter(|then| *then > 0.0) {
        marks.push(Mark::Dot { at: (then.ln(), y), colour: theme::INK, shape: Shape::Ring });
    }
    marks.push(Mark::Dot { at: (ratio.value.ln(), y), colour, shape });
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::Finding;
    use fsarena_core::sample::Direction;
    use fsarena_stats::cost::Estimate;

    fn figure(what: String, variant: &str, side: usize, value: f64) -> ComparedRatio {
        let ratio = Some(Estimate { value, low: value * 0.9, high: value * 1000.0 });
        let (finding, direction) = (Finding::Inconclusive, Direction::Lower);
        ComparedRatio {
            variant: variant.into(),
            side,
            ..ComparedRatio::new(&what, ratio, finding, direction)
        }
    }

    fn chart(figures: &[ComparedRatio], sides: &[&str]) -> Option<Chart> {
        let sides: Vec<String> = sides.iter().map(|side| side.to_string()).collect();
        let answer = RatioSummary { figures, sides: &sides, margin: None, terms: ["better", "worse"] };
        answer.chart("t".into(), "B over A".into())
    }

    #[test]
    fn a_panel_for_each_variant_and_1_is_on_every_axis() {
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
    fn ticks_near_1_are_told_from_it() {
        assert_eq!(
            [0.2, 0.995, 1.0, 1.005, 1.25, 100.0].map(ratio_words),
            ["0.2", "0.995", "1", "1.005", "1.25", "100"]
        );
    }

    #[test]
    fn of_many_rows_those_that_differ_most_are_drawn() {
        let figures: Vec<ComparedRatio> =
            (0..100).map(|at| figure(at.to_string(), "xfs", 0, 1.0 + f64::from(at))).collect();
        let chart = chart(&figures, &["B"]).unwrap();
        assert_eq!(chart.panels[0].y.ticks.len(), MOST);
        assert!(chart.panels[0].y.ticks.iter().any(|(_, name)| name == "99"));
        assert!(chart.about.contains("60 rows that differ less"), "{}", chart.about);
    }

    #[test]
    fn several_runs_stand_beside_each_other_in_a_row() {
        let figures: Vec<ComparedRatio> = (0..2).map(|side| figure("cp".into(), "xfs", side, 1.5)).collect();
        let chart = chart(&figures, &["B", "C"]).unwrap();
        assert_eq!(chart.legend.iter().map(|key| key.label.as_str()).collect::<Vec<_>>(), ["B", "C"]);
        assert!(self::chart(&[], &["B"]).is_none());
    }
}
