//! One panel: its axes, their grid and labels, and its marks.

use super::pen::{Paint, Pen, n};
use crate::drawing::text::{Font, LABEL, SMALL};
use crate::drawing::{Anchor, Dash, Mark, Panel, colour::theme};
use fsarena_core::safe;

/// Length of a tick.
const TICK: f64 = 3.0;
/// Room between two labels of a horizontal axis, at least.
const BETWEEN: f64 = 6.0;

/// A panel, and where its axes end in the picture.
pub struct Plot<'a> {
    /// The panel.
    pub panel: &'a Panel,
    /// Left and right.
    pub x: (f64, f64),
    /// Bottom and top.
    pub y: (f64, f64),
    /// Room for the labels of the vertical axis.
    pub labels: f64,
}

/// Height of what is below a plot: ticks, their labels, and the label of the axis.
pub fn foot(panel: &Panel) -> f64 {
    if panel.x.label.is_empty() { LABEL.size + 12.0 } else { 2.0 * LABEL.size + 14.0 }
}

impl Plot<'_> {
    /// Where a point of the panel lies in the picture.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let along = |(from, to): (f64, f64), share: f64| from + share * (to - from);
        (along(self.x, self.panel.x.share(x)), along(self.y, self.panel.y.share(y)))
    }

    /// Draws all of it.
    pub fn draw(&self, pen: &mut Pen) {
        self.horizontal_axis(pen);
        self.vertical_axis(pen);
        let ((left, right), (bottom, top)) = (self.x, self.y);
        pen.line([(left, top), (left, bottom), (right, bottom)], Paint::Line(theme::SHADE, 1.0, Dash::Solid));
        self.panel.marks.iter().for_each(|mark| draw(pen, self, mark));
    }

    /// Ticks, grid and labels below the plot. A label that would touch the one before it is left out.
    fn horizontal_axis(&self, pen: &mut Pen) {
        let (axis, (bottom, top)) = (&self.panel.x, self.y);
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &axis.ticks {
            let x = self.at((*value, self.panel.y.range.0)).0;
            if axis.grid {
                pen.line([(x, bottom), (x, top)], Paint::Line(theme::GRID, 1.0, Dash::Solid));
            }
            pen.line([(x, bottom), (x, bottom + TICK)], Paint::Line(theme::SHADE, 1.0, Dash::Solid));
            let half = LABEL.width(label) / 2.0;
            if x - half >= free {
                pen.text((x, bottom + TICK + 9.0), label, (LABEL, theme::SOFT), Anchor::Middle);
                free = x + half + BETWEEN;
            }
        }
        if !axis.label.is_empty() {
            let middle = (self.x.0 + self.x.1) / 2.0;
            let label = LABEL.fit(&axis.label, self.x.1 - self.x.0 + 2.0 * self.labels);
            pen.text((middle, bottom + TICK + 28.0), &label, (LABEL, theme::SOFT), Anchor::Middle);
        }
    }

    /// Ticks, grid and labels left of the plot.
    fn vertical_axis(&self, pen: &mut Pen) {
        let (axis, (left, right)) = (&self.panel.y, self.x);
        let named = if axis.label.is_empty() { 0.0 } else { LABEL.size + 8.0 };
        for (value, label) in &axis.ticks {
            let y = self.at((self.panel.x.range.0, *value)).1;
            if axis.grid {
                pen.line([(left, y), (right, y)], Paint::Line(theme::GRID, 1.0, Dash::Solid));
            }
            pen.line([(left - TICK, y), (left, y)], Paint::Line(theme::SHADE, 1.0, Dash::Solid));
            let label = LABEL.fit(&safe::line(label), self.labels - named - TICK - 3.0);
            pen.text((left - TICK - 3.0, y), &label, (LABEL, theme::SOFT), Anchor::End);
        }
        if named > 0.0 {
            let at = (left - self.labels + LABEL.size / 2.0 + 1.0, (self.y.0 + self.y.1) / 2.0);
            let label = LABEL.fit(&axis.label, self.y.0 - self.y.1 + 30.0);
            pen.upright_text(at, &label, (LABEL, theme::SOFT));
        }
    }
}

/// Draws one mark.
fn draw(pen: &mut Pen, plot: &Plot, mark: &Mark) {
    let font = |strong: bool| Font { bold: strong, ..SMALL };
    match mark {
        Mark::Box { x, y, colour, opacity } => {
            pen.rectangle(plot.at((x.0, y.0)), plot.at((x.1, y.1)), Paint::Fill(*colour, *opacity));
        }
        Mark::Frame { x, y, colour } => {
            pen.rectangle(plot.at((x.0, y.0)), plot.at((x.1, y.1)), Paint::Line(*colour, 2.0, Dash::Solid));
        }
        Mark::Line { points, colour, width, dash } => {
            pen.line(points.iter().copied().map(|point| plot.at(point)), Paint::Line(*colour, *width, *dash));
        }
        Mark::Band { points, colour } => {
            let low = points.iter().map(|(x, low, _)| plot.at((*x, *low)));
            let high = points.iter().rev().map(|(x, _, high)| plot.at((*x, *high)));
            pen.line(low.chain(high), Paint::Fill(*colour, 0.2));
        }
        Mark::Dot { at: point, colour, shape } => pen.point(plot.at(*point), *colour, *shape),
        Mark::Across { x, y, beyond } => across(pen, plot, *x, *y, beyond.as_deref()),
        Mark::Up { x, y, colour } => {
            let ((x, low), (_, high)) = (plot.at((*x, y.0)), plot.at((*x, y.1)));
            let (left, low, high) = (n(x - 3.0), n(low), n(high));
            let path = format_args!("M{left},{low}h6m-3,0V{high}m-3,0h6").to_string();
            pen.path(path, Paint::Line(*colour, 1.0, Dash::Solid));
        }
        Mark::Words { at: point, shift, text, colour, anchor, strong } => {
            let (x, y) = plot.at(*point);
            let point = (x + f64::from(shift.0), y + f64::from(shift.1));
            pen.text(point, text, (font(*strong), *colour), *anchor);
        }
        Mark::Figure { y, text, colour, strong } => {
            let (right, y) = plot.at((plot.panel.x.range.1, *y));
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
