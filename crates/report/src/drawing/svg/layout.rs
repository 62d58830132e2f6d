//! Where the parts of a chart stand: its title, its legend, and its panels row by row.

use super::panel::{Plot, foot};
use super::{legend, pen::Pen};
use crate::drawing::text::{Font, LABEL, SMALL};
use crate::drawing::{Anchor, Axis, Chart, Mark, Panel, colour::theme};
use fsarena_core::safe;

/// The title of a chart.
const TITLE: Font = Font { size: 16.0, bold: true };
/// The title of a panel.
const PANEL: Font = Font { size: 12.0, bold: true };
/// Room between panels.
const GAP: f64 = 10.0;
/// Room to the right of a plot, at least.
const RIGHT: f64 = 22.0;
/// Height of a line of a panel's title.
const LINE: f64 = 15.0;

/// Draws a chart. Returns its height in CSS pixels.
pub fn draw(pen: &mut Pen, chart: &Chart) -> f64 {
    let whole = f64::from(chart.width);
    let title = TITLE.fit(&safe::line(&chart.title), whole);
    pen.text((0.0, 3.0 + TITLE.size / 2.0), &title, (TITLE, theme::INK), Anchor::Start);
    let mut top = TITLE.size + 12.0;
    for row in legend::rows(&chart.legend, whole) {
        row.into_iter().for_each(|(left, key)| legend::draw(pen, key, (left, top + legend::ROW / 2.0)));
        top += legend::ROW;
    }
    top += 6.0;
    // Panels above each other share their left and right edges.
    let columns = chart.columns.max(1);
    let width = (whole - GAP * (columns - 1) as f64) / columns as f64;
    let most = |of: &dyn Fn(&Panel) -> f64| chart.panels.iter().map(of).fold(0.0, f64::max);
    let labels = most(&|panel| label_room(&panel.y)).min(width * 0.45);
    let columns_of = Columns { width, labels, right: most(&right_room) };
    for panels in chart.panels.chunks(columns) {
        top += columns_of.draw(pen, panels, top) + GAP;
    }
    top
}

/// The columns of a chart: width of a panel, and what of it is left and right of its plot.
struct Columns {
    width: f64,
    labels: f64,
    right: f64,
}

impl Columns {
    /// Draws a row of panels. Returns its height.
    fn draw(&self, pen: &mut Pen, panels: &[Panel], top: f64) -> f64 {
        let title = |panel: &Panel| PANEL.lines(&safe::line(&panel.title), self.width - self.labels);
        let titles: Vec<Vec<String>> = panels.iter().map(title).collect();
        let lines = titles.iter().map(Vec::len).max().unwrap_or(0) as f64;
        // The plots of a row stand in line. A second line of a title takes nothing from them.
        let head = if lines == 0.0 { 4.0 } else { LINE * lines + 6.0 };
        let more = (head - LINE - 6.0).max(0.0);
        for (column, (panel, title)) in panels.iter().zip(titles).enumerate() {
            let left = column as f64 * (self.width + GAP);
            for (line, words) in title.iter().enumerate() {
                let at = (left + self.labels, top + PANEL.size / 2.0 + LINE * line as f64);
                pen.text(at, words, (PANEL, theme::INK), Anchor::Start);
            }
            let x = (left + self.labels, left + self.width - self.right);
            let y = (top + more + f64::from(panel.height) - foot(panel), top + head);
            Plot { panel, x, y, labels: self.labels }.draw(pen);
        }
        more + panels.iter().map(|panel| f64::from(panel.height)).fold(0.0, f64::max)
    }
}

/// Room for the labels of a vertical axis.
fn label_room(axis: &Axis) -> f64 {
    let longest = axis.ticks.iter().map(|(_, label)| LABEL.width(&safe::line(label))).fold(0.0, f64::max);
    longest + 10.0 + if axis.label.is_empty() { 0.0 } else { LABEL.size + 8.0 }
}

/// Room to the right of a plot: for half of the last label, for figures, and for the ends of intervals that lie beyond the
/// picture.
fn right_room(panel: &Panel) -> f64 {
    let beyond = |mark: &Mark| match mark {
        Mark::Across { beyond: Some(end), .. } => SMALL.width(end) + 8.0,
        Mark::Figure { text, strong, .. } => Font { bold: *strong, ..SMALL }.width(text) + 10.0,
        _ => 0.0,
    };
    let label = panel.x.ticks.last().map_or(0.0, |(_, label)| LABEL.width(label) / 2.0);
    panel.marks.iter().map(beyond).fold(label.max(RIGHT), f64::max)
}
