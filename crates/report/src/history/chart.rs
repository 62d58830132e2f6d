//! The picture of a history: one point a run, the levels between changes, and the changes.

use super::point::{Asked, Point};
use super::words;
use crate::words::begun;
use fsarena_charts::{Anchor, Axis, Chart, Dash, Key, Mark, Panel, Sign, colour::theme};
use fsarena_stats::change::{Change, Standing};

/// Height of a panel in CSS pixels.
const HEIGHT: u32 = 280;
/// The share of it that is kept free above all intervals, for what is written there.
const FREE: f64 = 0.12;

/// The chart of at least two runs.
pub fn chart(asked: &Asked, points: &[Point], changes: &[Change], paired: bool) -> Chart {
    let about = "One point a run, oldest first, with its 95% interval (under 8 rounds the extremes seen, of one round \
                 none); that of a median is of the typical value. The level lines are between changes. A solid upright \
                 is a change that later runs confirmed, a broken one a change that is suspected.";
    let mut panels = vec![];
    if paired {
        panels.push(ratios(asked, points, changes));
    }
    panels.push(medians(asked, points, if paired { &[] } else { changes }));
    // Variants have their colour and shape from the last run: the next may have others beside them.
    let look = points[points.len() - 1].look;
    let legend = vec![
        Key::new("a run", look.colour, Sign::Point(look.shape)),
        Key::new("level", theme::INK, Sign::Line(Dash::Solid)),
        Key::new("confirmed change", theme::INK, Sign::Upright(Dash::Solid)),
        Key::new("suspected change", theme::INK, Sign::Upright(Dash::Long)),
    ];
    Chart { panels, legend, ..Chart::new("history", words::title(asked, paired), about) }
}

fn ratios(asked: &Asked, points: &[Point], changes: &[Change]) -> Panel {
    let intervals = || points.iter().filter_map(|point| point.ratio).map(|r| (r.low.ln(), r.high.ln()));
    let (low, high) = intervals().fold((0f64, 0f64), |(low, high), (a, b)| (low.min(a), high.max(b)));
    let reference = asked.reference.as_deref().unwrap_or_default();
    let y = with_room(Axis::changes(format!("{} over {reference}", asked.variant), low, high));
    let look = points[points.len() - 1].look;
    let mut marks = uprights(&y, changes);
    for (at, ratio) in points.iter().enumerate().filter_map(|(at, point)| Some((at, point.ratio?))) {
        if ratio.rounds > 1 {
            marks.push(look.up(at as f64, (ratio.low.ln(), ratio.high.ln())));
        }
        marks.extend(look.dots([(at as f64, ratio.value.ln())]));
    }
    marks.extend(levels(points.len(), changes, |log| log));
    Panel { title: String::new(), x: runs(points), y, marks, height: HEIGHT }
}

fn medians(asked: &Asked, points: &[Point], changes: &[Change]) -> Panel {
    let medians = || points.iter().map(|point| point.median);
    let typical = |(at, point): (usize, &Point)| point.typical.map(|typical| (at as f64, typical));
    let intervals: Vec<_> = points.iter().enumerate().filter_map(typical).collect();
    // Zero has no place on the axis: an interval from there begins at its end.
    let ends = intervals.iter().flat_map(|(_, typical)| [typical.low, typical.high]).filter(|end| *end > 0.0);
    let (low, high) =
        medians().chain(ends).fold((f64::INFINITY, 0f64), |(low, high), m| (low.min(m), high.max(m)));
    let look = points[points.len() - 1].look;
    let unit = points[0].info.unit;
    let label = format!("{} of {}", asked.metric, asked.variant);
    let y = with_room(Axis::log_in(label, low / 1.05, high * 1.05, unit));
    let mut marks = uprights(&y, changes);
    let line: Vec<(f64, f64)> = medians().enumerate().map(|(at, median)| (at as f64, median)).collect();
    marks.push(Mark::line(line.clone(), theme::SHADE, 1.0));
    marks.extend(intervals.into_iter().map(|(x, typical)| look.up(x, (typical.low, typical.high))));
    marks.extend(look.dots(line));
    marks.extend(levels(points.len(), changes, f64::exp));
    Panel { title: "Median over rounds".into(), x: runs(points), y, marks, height: HEIGHT - 60 }
}

/// An axis that goes on above all there is, for words.
fn with_room(mut y: Axis) -> Axis {
    let (low, high) = y.range;
    y.range.1 = if y.log { high * (high / low).powf(FREE) } else { high + FREE * (high - low) };
    y
}

/// The runs by their dates; where some are of one day, `11-22 10:14`.
fn runs(points: &[Point]) -> Axis {
    let day = |point: &Point| point.started.chars().take(10).collect::<String>();
    let days_repeat = points.windows(2).any(|two| day(&two[0]) == day(&two[1]));
    let date = |at: f64| match points.get(at as usize).filter(|_| at >= 0.0 && at.fract() == 0.0) {
        Some(point) if days_repeat => begun(&point.started).chars().skip(5).collect(),
        Some(point) => day(point),
        None => String::new(),
    };
    Axis { grid: false, ..Axis::linear("runs, oldest first", -0.5, points.len() as f64 - 0.5, date) }
}

fn uprights(y: &Axis, changes: &[Change]) -> Vec<Mark> {
    let mut marks = vec![];
    for change in changes {
        let (dash, word) = match change.standing {
            Standing::Confirmed { .. } => (Dash::Solid, "confirmed"),
            Standing::Suspected { .. } => (Dash::Long, "suspected"),
        };
        let x = change.at as f64 - 0.5;
        let points = vec![(x, y.range.0), (x, y.range.1)];
        marks.push(Mark::Line { points, colour: theme::INK, width: 2.0, dash });
        marks.push(Mark::words((x, y.range.1), (4, 10), word, theme::INK, Anchor::Start));
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
        Mark::line([(from as f64 - 0.5, y), (to as f64 - 0.5, y)], theme::INK, 1.5)
    };
    starts.zip(ends()).zip(heights).map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TASK, asked, points};
    use super::super::{Asked, history};
    use crate::{document::Part, page::Page};
    use fsarena_charts::colour::{VERMILLION, theme};
    use fsarena_charts::{Chart, Mark, Shape, svg};

    fn chart_of(page: Page) -> Chart {
        let chart = |part| match part {
            Part::Chart(chart) => Some(*chart),
            _ => None,
        };
        page.document.parts.into_iter().find_map(chart).expect("a chart")
    }

    #[test]
    fn it_is_drawn_with_its_changes_and_any_text() {
        let hostile = Asked { variant: "<script>".into(), ..asked(Some("ext4")) };
        let chart = chart_of(history(&hostile, points(&TASK)));
        assert_eq!(chart.panels.len(), 2);
        let svg = svg::inline(&chart);
        assert!(svg.contains("confirmed") && svg.contains("2026-11-01") && !svg.contains("<script"), "{svg}");
    }

    #[test]
    fn a_variant_keeps_its_look_and_every_point_its_interval() {
        let chart = chart_of(history(&asked(Some("ext4")), points(&TASK)));
        let (mut ups, mut dots) = (0, 0);
        for panel in &chart.panels {
            let top = |mark: &Mark| match mark {
                Mark::Up { y, .. } => y.1,
                _ => f64::NEG_INFINITY,
            };
            let highest = panel.marks.iter().map(top).fold(f64::NEG_INFINITY, f64::max);
            assert!(
                panel.y.share(panel.y.range.1) > panel.y.share(highest),
                "words stand above all intervals"
            );
            for mark in &panel.marks {
                match mark {
                    Mark::Up { colour, .. } => {
                        assert_eq!(*colour, VERMILLION);
                        ups += 1;
                    }
                    Mark::Dot { colour, shape, .. } => {
                        assert_eq!((*colour, *shape), (VERMILLION, Shape::Square));
                        dots += 1;
                    }
                    Mark::Line { colour, .. } => assert!([theme::INK, theme::SHADE].contains(colour)),
                    _ => {}
                }
            }
        }
        assert_eq!((ups, dots), (2 * TASK.len(), 2 * TASK.len()));
    }

    #[test]
    fn without_a_reference_the_values_are_followed() {
        let values: Vec<_> = points(&TASK)
            .into_iter()
            .map(|mut point| {
                point.median = point.ratio.take().unwrap().value;
                point
            })
            .collect();
        let history = history(&asked(None), values);
        assert_eq!(history.json["changes"][0]["run"], "run-08");
        let chart = chart_of(history);
        assert_eq!(chart.panels.len(), 1);
        assert!(svg::inline(&chart).contains("confirmed"));
    }
}
