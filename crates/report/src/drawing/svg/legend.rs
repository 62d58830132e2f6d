//! The keys of a chart: what its colours and shapes stand for.

use super::pen::{Paint, Pen, Point};
use crate::drawing::{Anchor, Colour, Dash, Key, Sign, colour::theme, text::LABEL};

/// Height of a row of keys.
pub const ROW: f64 = 20.0;
/// Length of a line in a key.
const LINE: f64 = 26.0;

/// The keys in rows, each with its distance from the left.
pub fn rows(keys: &[Key], room: f64) -> Vec<Vec<(f64, &Key)>> {
    let mut rows: Vec<Vec<(f64, &Key)>> = vec![];
    let mut left = 0.0;
    for key in keys {
        let width = sign_width(key.sign) + LABEL.width(&key.label) + 20.0;
        match rows.last_mut() {
            Some(row) if left + width <= room => row.push((left, key)),
            _ => {
                left = 0.0;
                rows.push(vec![(left, key)]);
            }
        }
        left += width;
    }
    rows
}

/// Draws a key at the left end of its sign, half way down its row.
pub fn draw(pen: &mut Pen, key: &Key, (x, y): Point) {
    let line = |dash| Paint::Line(key.colour, 2.0, dash);
    let box_of = |pen: &mut Pen, paint| pen.rectangle((x, y - 5.0), (x + 10.0, y + 5.0), paint);
    match key.sign {
        Sign::Area(opacity) => {
            box_of(pen, Paint::Fill(key.colour, opacity));
            // An area may be as light as the page.
            box_of(pen, Paint::Line(theme::SOFT, 0.75, Dash::Solid));
        }
        Sign::Frame => {
            // As in the picture: within a cell.
            box_of(pen, Paint::Fill(Colour::heat(0.0), 1.0));
            pen.rectangle((x + 2.0, y - 3.0), (x + 8.0, y + 3.0), Paint::Line(key.colour, 2.0, Dash::Solid));
        }
        Sign::Line(dash) => pen.line([(x, y), (x + LINE, y)], line(dash)),
        Sign::Upright(dash) => pen.line([(x + 5.0, y - 8.0), (x + 5.0, y + 8.0)], line(dash)),
        Sign::Point(shape) => pen.point((x + 5.0, y), key.colour, shape),
        Sign::Series(shape, dash) => {
            pen.line([(x, y), (x + LINE, y)], line(dash));
            pen.point((x + LINE / 2.0, y), key.colour, shape);
        }
    }
    pen.text((x + sign_width(key.sign), y), &key.label, (LABEL, theme::INK), Anchor::Start);
}

/// Width of what a key looks like, with the room behind it.
fn sign_width(sign: Sign) -> f64 {
    match sign {
        Sign::Line(_) | Sign::Series(..) => LINE + 5.0,
        _ => 15.0,
    }
}
