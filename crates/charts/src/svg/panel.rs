//! One panel: its axes, their grid and labels, and its marks.

use super::layout::LABEL;
use super::marks;
use super::pen::{Paint, Pen};
use crate::colour::theme;
use crate::{Anchor, Dash, Panel};
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
        self.panel.marks.iter().for_each(|mark| marks::draw(pen, self, mark));
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
