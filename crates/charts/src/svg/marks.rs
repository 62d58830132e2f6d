//! The marks of a panel.

use super::layout::SMALL;
use super::panel::Plot;
use super::pen::{Paint, Pen, n};
use crate::colour::theme;
use crate::text::Font;
use crate::{Anchor, Dash, Mark};

/// Draws one mark.
pub fn draw(pen: &mut Pen, plot: &Plot, mark: &Mark) {
    let at = |point: (f64, f64)| plot.at(point);
    let font = |strong: bool| Font { bold: strong, ..SMALL };
    match mark {
        Mark::Box { x, y, colour, opacity } => {
            pen.rectangle(at((x.0, y.0)), at((x.1, y.1)), Paint::Fill(*colour, *opacity));
        }
        Mark::Frame { x, y, colour } => {
            pen.rectangle(at((x.0, y.0)), at((x.1, y.1)), Paint::Line(*colour, 2.0, Dash::Solid));
        }
        Mark::Line { points, colour, width, dash } => {
            pen.line(points.iter().copied().map(at), Paint::Line(*colour, *width, *dash));
        }
        Mark::Band { points, colour } => {
            let low = points.iter().map(|(x, low, _)| at((*x, *low)));
            let high = points.iter().rev().map(|(x, _, high)| at((*x, *high)));
            pen.line(low.chain(high), Paint::Fill(*colour, 0.2));
        }
        Mark::Dot { at: point, colour, shape } => pen.point(at(*point), *colour, *shape),
        Mark::Across { x, y, beyond } => across(pen, plot, *x, *y, beyond.as_deref()),
        Mark::Up { x, y, colour } => {
            let ((x, low), (_, high)) = (at((*x, y.0)), at((*x, y.1)));
            let (left, low, high) = (n(x - 3.0), n(low), n(high));
            let path = format_args!("M{left},{low}h6m-3,0V{high}m-3,0h6").to_string();
            pen.path(path, Paint::Line(*colour, 1.0, Dash::Solid));
        }
        Mark::Words { at: point, shift, text, colour, anchor, strong } => {
            let (x, y) = at(*point);
            let point = (x + f64::from(shift.0), y + f64::from(shift.1));
            pen.text(point, text, (font(*strong), *colour), *anchor);
        }
        Mark::Figure { y, text, colour, strong } => {
            let (right, y) = at((plot.panel.x.range.1, *y));
            pen.text((right + 6.0, y), text, (font(*strong), *colour), Anchor::Start);
        }
    }
}

/// An interval with an upright line at each end. One that ends beyond the picture has an arrow at the end of the axis,
/// and its end in words behind it. It lies over bars of any colour, so it has a rim of the colour of the page.
fn across(pen: &mut Pen, plot: &Plot, (low, high): (f64, f64), y: f64, beyond: Option<&str>) {
    let high = if beyond.is_some() { plot.panel.x.range.1 } else { high };
    let ((low, y), (high, _)) = (plot.at((low, y)), plot.at((high, y)));
    let (left, top, right) = (n(low), n(y - 3.0), n(high));
    let end = if beyond.is_some() { "m-4,-3l4,3l-4,3" } else { "m0,-3v6" };
    let path = format!("M{left},{top}v6m0,-3H{right}{end}");
    pen.path(&path, Paint::Line(theme::PAPER, 2.75, Dash::Solid));
    pen.path(&path, Paint::Line(theme::INK, 1.25, Dash::Solid));
    if let Some(words) = beyond {
        pen.text((high + 4.0, y), words, (SMALL, theme::INK), Anchor::Start);
    }
}
