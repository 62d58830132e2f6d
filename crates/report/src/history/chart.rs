//! The picture of a history: one point a run, the levels between changes, and the changes.

use super::{Asked, Point, words};
use crate::number::with_unit;
use crate::plot::colour::{BLUE, Colour, VERMILLION, theme};
use crate::plot::{Anchor, Axis, Chart, Key, Mark, Panel, Shape, Sign};
use fsarena_stats::change::{Change, Standing};

/// Height of a panel in CSS pixels.
const HEIGHT: u32 = 260;

/// The chart of at least two runs.
pub fn chart(asked: &Asked, points: &[Point], changes: &[Change], paired: bool) -> Chart {
    let about = "One point a run, oldest first, with its 95% interval (under 8 blocks the extremes seen); the lines are the \
                 levels between changes. A solid upright is a change that later runs confirmed, a pale one a change that is \
                 suspected.";
    let mut panels = vec![];
    if paired {
        panels.push(ratios(asked, points, changes));
    }
    panels.push(medians(asked, points, if paired { &[] } else { changes }));
    let key = |label: &str, colour, sign| Key { label: label.into(), colour, sign };
    let legend = vec![
        key("a run", BLUE, Sign::Point(Shape::Disc)),
        key("level", theme::INK, Sign::Line),
        key("confirmed change", VERMILLION, Sign::Line),
        key("suspected change", theme::SHADE, Sign::Line),
    ];
    Chart { panels, legend, ..Chart::new("history", words::title(asked, paired), about) }
}

fn ratios(asked: &Asked, points: &[Point], changes: &[Change]) -> Panel {
    let intervals = || points.iter().filter_map(|point| point.ratio).map(|r| (r.low.ln(), r.high.ln()));
    let (low, high) = intervals().fold((0f64, 0f64), |(low, high), (a, b)| (low.min(a), high.max(b)));
    let reference = asked.reference.as_deref().unwrap_or_default();
    let y = Axis::changes(format!("{} over {reference}", asked.arm), low, high);
    let mut marks = uprights(&y, changes);
    for (at, ratio) in points.iter().enumerate().filter_map(|(at, point)| Some((at, point.ratio?))) {
        marks.push(Mark::Up { x: at as f64, y: (ratio.low.ln(), ratio.high.ln()), colour: BLUE });
        marks.push(Mark::Dot { at: (at as f64, ratio.value.ln()), colour: BLUE, shape: Shape::Disc });
    }
    marks.extend(levels(points.len(), changes, |log| log));
    Panel { title: String::new(), x: runs(points), y, marks, height: HEIGHT }
}

fn medians(asked: &Asked, points: &[Point], changes: &[Change]) -> Panel {
    let medians = || points.iter().map(|point| point.median);
    let (low, high) = medians().fold((f64::INFINITY, 0f64), |(low, high), m| (low.min(m), high.max(m)));
    let unit = points[0].info.unit;
    let label = format!("{} of {}", asked.metric, asked.arm);
    let y = Axis::log(label, low / 1.1, high * 1.1, |value| with_unit(value, unit));
    let mut marks = uprights(&y, changes);
    let line: Vec<(f64, f64)> = medians().enumerate().map(|(at, median)| (at as f64, median)).collect();
    marks.push(Mark::Line { points: line.clone(), colour: theme::SHADE, width: 1.0 });
    marks.extend(line.into_iter().map(|at| Mark::Dot { at, colour: BLUE, shape: Shape::Disc }));
    marks.extend(levels(points.len(), changes, f64::exp));
    Panel { title: "Median over blocks".into(), x: runs(points), y, marks, height: HEIGHT - 60 }
}

/// The runs by their dates; where some are of one day, `11-22 10:14`.
fn runs(points: &[Point]) -> Axis {
    let day = |point: &Point| point.started.chars().take(10).collect::<String>();
    let days_repeat = points.windows(2).any(|two| day(&two[0]) == day(&two[1]));
    let date = |at: f64| match points.get(at as usize).filter(|_| at >= 0.0 && at.fract() == 0.0) {
        Some(point) if days_repeat => words::date(&point.started).chars().skip(5).collect(),
        Some(point) => day(point),
        None => String::new(),
    };
    Axis { grid: false, ..Axis::linear("runs, oldest first", -0.5, points.len() as f64 - 0.5, date) }
}

fn uprights(y: &Axis, changes: &[Change]) -> Vec<Mark> {
    let mut marks = vec![];
    for change in changes {
        let (colour, word): (Colour, &str) = match change.standing {
            Standing::Confirmed { .. } => (VERMILLION, "confirmed"),
            Standing::Suspected { .. } => (theme::SHADE, "suspected"),
        };
        let x = change.at as f64 - 0.5;
        marks.push(Mark::Line { points: vec![(x, y.range.0), (x, y.range.1)], colour, width: 2.0 });
        marks.push(Mark::Words {
            at: (x, y.range.1),
            shift: (4, 10),
            text: word.into(),
            colour: theme::INK,
            anchor: Anchor::Start,
            strong: false,
        });
    }
    marks
}

/// The level before, between and after changes. Without a change there is none to show.
fn levels(runs: usize, changes: &[Change], place: impl Fn(f64) -> f64) -> Vec<Mark> {
    let Some(first) = changes.first() else { return vec![] };
    let ends = || changes.iter().map(|change| change.at).chain([runs]);
    let starts = std::iter::once(0).chain(ends());
    let heights = std::iter::once(first.before).chain(changes.iter().map(|change| change.after));
    let level = |((from, to), log): ((usize, usize), f64)| {
        let y = place(log);
        let points = vec![(from as f64 - 0.5, y), (to as f64 - 0.5, y)];
        Mark::Line { points, colour: theme::INK, width: 1.5 }
    };
    starts.zip(ends()).zip(heights).map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{STEP, asked, points};
    use super::super::{Asked, history};
    use crate::plot::svg;

    #[test]
    fn it_is_drawn_with_its_changes_and_any_text() {
        let hostile = Asked { arm: "<script>".into(), ..asked(Some("ext4")) };
        let chart = history(&hostile, points(&STEP)).chart.unwrap();
        assert_eq!(chart.panels.len(), 2);
        let svg = svg::inline(&chart).unwrap();
        assert!(svg.contains("confirmed") && svg.contains("2026-11-01") && !svg.contains("<script"), "{svg}");
    }

    #[test]
    fn without_a_reference_the_values_are_followed() {
        let values: Vec<_> = points(&STEP)
            .into_iter()
            .map(|mut point| {
                point.median = point.ratio.take().unwrap().value;
                point
            })
            .collect();
        let history = history(&asked(None), values);
        assert_eq!(history.page.json["changes"][0]["run"], "run-08");
        let chart = history.chart.unwrap();
        assert_eq!(chart.panels.len(), 1);
        assert!(svg::inline(&chart).unwrap().contains("confirmed"));
    }
}
