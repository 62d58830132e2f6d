//! The picture of a history: one point a run, the levels between changes, and the changes.

use super::{HistoryQuery, Point, heading};
use crate::drawing::{Anchor, Axis, Chart, Dash, Key, Mark, Panel, Sign, colour::theme};
use crate::{charts::widen_range, words::begun};
use fsarena_stats::change_point::{Change, Standing};
use fsarena_stats::ratio::Ratio;

/// Height of a panel in CSS pixels.
const HEIGHT: u32 = 280;
/// The share of it that is kept free above all intervals, for what is written there.
const FREE: f64 = 0.12;

/// The chart of at least two runs.
pub fn chart(asked: &HistoryQuery, points: &[Point], changes: &[Change], paired: bool) -> Chart {
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
    Chart { panels, legend, ..Chart::new("history", heading(asked, paired), about) }
}

/// The variant over the reference, on the logarithm.
fn ratios(asked: &HistoryQuery, points: &[Point], changes: &[Change]) -> Panel {
    let reached = points.iter().filter_map(|point| point.ratio).flat_map(|ratio| [ratio.low, ratio.high]);
    let (low, high) = widen_range((0.0, 0.0), reached.map(f64::ln));
    let reference = asked.reference.as_deref().unwrap_or_default();
    let y = with_room(Axis::changes(format!("{} over {reference}", asked.variant), low, high));
    let marks = marks(&y, points, changes, |point| Some((point.ratio?.value, point.ratio)));
    Panel::new("", runs(points), y, HEIGHT, marks)
}

/// The variant's own values, and a line through them.
fn medians(asked: &HistoryQuery, points: &[Point], changes: &[Change]) -> Panel {
    let medians = || points.iter().map(|point| point.median);
    let reached =
        points.iter().filter_map(|point| point.typical).flat_map(|typical| [typical.low, typical.high]);
    // Zero has no place on the axis: an interval from there begins at its end.
    let (low, high) = widen_range((f64::INFINITY, 0.0), medians().chain(reached.filter(|end| *end > 0.0)));
    let label = format!("{} of {}", asked.metric, asked.variant);
    let y = with_room(Axis::log_in(label, low / 1.05, high * 1.05, points[0].info.unit));
    let line: Vec<_> = medians().enumerate().map(|(at, median)| (at as f64, median)).collect();
    let mut all = vec![Mark::line(line, theme::SHADE, 1.0)];
    all.extend(marks(&y, points, changes, |point| Some((point.median, point.typical))));
    Panel::new("Median over rounds", runs(points), y, HEIGHT - 60, all)
}

/// The value of each run with its interval, the changes, and the levels between them.
fn marks(
    y: &Axis,
    points: &[Point],
    changes: &[Change],
    of: impl Fn(&Point) -> Option<(f64, Option<Ratio>)>,
) -> Vec<Mark> {
    let look = points[points.len() - 1].look;
    // An axis that is not logarithmic itself has logarithms as its coordinates.
    let place = |value: f64| if y.log { value } else { value.ln() };
    let mut marks = uprights(y, changes);
    for (at, point) in (0..).map(f64::from).zip(points) {
        let Some((value, interval)) = of(point) else { continue };
        let interval = interval.filter(|interval| interval.rounds > 1);
        marks.extend(interval.map(|interval| look.up(at, (place(interval.low), place(interval.high)))));
        marks.extend(look.dots([(at, place(value))]));
    }
    marks.extend(levels(points.len(), changes, |log| place(log.exp())));
    marks
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
    let until = || changes.iter().map(|change| change.at).chain([runs]);
    let starts = std::iter::once(0).chain(until());
    let heights = std::iter::once(first.before).chain(changes.iter().map(|change| change.after));
    let level = |((from, to), log): ((usize, usize), f64)| {
        let y = place(log);
        Mark::line([(from as f64 - 0.5, y), (to as f64 - 0.5, y)], theme::INK, 1.5)
    };
    starts.zip(until()).zip(heights).map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{STEP, asked, points};
    use super::super::{HistoryQuery, history};
    use crate::drawing::colour::{VERMILLION, theme};
    use crate::drawing::{Chart, Mark, Shape, svg};
    use crate::{document::Page, document::Part};

    fn chart_of(page: Page) -> Chart {
        let chart = |part| match part {
            Part::Chart(chart) => Some(*chart),
            _ => None,
        };
        page.document.parts.into_iter().find_map(chart).expect("a chart")
    }

    #[test]
    fn it_is_drawn_with_its_changes_and_any_text() {
        let hostile = HistoryQuery { variant: "<script>".into(), ..asked(Some("ext4")) };
        let chart = chart_of(history(&hostile, points(&STEP)));
        assert_eq!(chart.panels.len(), 2);
        let svg = svg::inline(&chart);
        assert!(svg.contains("confirmed") && svg.contains("2026-11-01") && !svg.contains("<script"), "{svg}");
    }

    #[test]
    fn a_variant_keeps_its_look_and_every_point_its_interval() {
        let chart = chart_of(history(&asked(Some("ext4")), points(&STEP)));
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
        assert_eq!((ups, dots), (2 * STEP.len(), 2 * STEP.len()));
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
        assert_eq!(history.json["changes"][0]["run"], "run-08");
        let chart = chart_of(history);
        assert_eq!(chart.panels.len(), 1);
        assert!(svg::inline(&chart).contains("confirmed"));
    }
}
