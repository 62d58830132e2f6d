//! Strip plots: the difference of every round, with the estimate and its interval.

use crate::drawing::{Axis, Chart, Key, Mark, Panel, Shape, Sign, colour::PURPLE, theme};
use crate::paired::{self, Paired};
use crate::seen::{Seen, ends, spread};
use crate::words::not_drawn;
use fsarena_stats::ratio::Ratio;

/// The most dots of one strip: of more, every n-th round is shown.
const DOTS: usize = 200;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let (series, short): (Vec<Paired>, Vec<Paired>) =
        paired::of(seen).into_iter().partition(|paired| paired.d.len() > 1);
    if series.is_empty() {
        return vec![];
    }
    let (low, high) = ends((0.0, 0.0), series.iter().flat_map(|paired| paired.d.iter().copied()));
    let x = Axis::changes("difference within a round", low, high);
    let no_difference = Mark::line([(0.0, -(series.len() as f64)), (0.0, 0.0)], theme::SOFT, 1.5);
    let strips = series.iter().enumerate().flat_map(|(at, paired)| strip(seen, at, paired));
    let marks = std::iter::once(no_difference).chain(strips).collect();
    let panel = Panel::rows("", x, series.iter().map(|paired| &paired.label), (60, 34), marks);
    let about = "Every dot is the difference of two variants in one round; the diamond is the Hodges–Lehmann estimate \
                 and the line its 95% interval (under 8 rounds the extremes seen). Where the line crosses \"same\", \
             there is no significant difference.";
    let thinned = series.iter().any(|paired| paired.d.len() > DOTS);
    let about = format!(
        "{about}{}{}",
        if thinned { " Of many rounds every n-th is a dot; the estimate is over all." } else { "" },
        not_drawn(
            &paired::labels(&short),
            "one round in which both have a value above zero, and an interval takes two"
        )
    );
    let legend = vec![
        Key::new("one round", theme::SHADE, Sign::Point(Shape::Disc)),
        Key::new("estimate and interval", theme::INK, Sign::Point(Shape::Diamond)),
    ];
    let chart = Chart::new("differences", "Differences, round by round", about);
    vec![Chart { panels: vec![panel], legend, ..chart }]
}

fn strip(seen: &Seen, at: usize, paired: &Paired) -> Vec<Mark> {
    let colour = paired.variant.map_or(PURPLE, |variant| seen.looks[variant].colour);
    let every = paired.d.len().div_ceil(DOTS);
    let dot = |(round, d): (usize, &f64)| {
        let at = (*d, Axis::slot(at) + 0.22 + 0.3 * spread(round, at));
        Mark::Dot { at, colour, shape: Shape::Disc }
    };
    let mut marks: Vec<Mark> = paired.d.iter().enumerate().step_by(every).map(dot).collect();
    if let Some(ratio) = Ratio::of(paired.d.clone()) {
        let y = Axis::slot(at) - 0.26;
        marks.push(Mark::Across { x: (ratio.low.ln(), ratio.high.ln()), y, beyond: None });
        marks.push(Mark::Dot { at: (ratio.value.ln(), y), colour: theme::INK, shape: Shape::Diamond });
    }
    marks
}
