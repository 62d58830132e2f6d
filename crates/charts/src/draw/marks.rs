//! The marks of a panel.

use super::{FINE, Plot, SMALL, broken, font, one, px, rgb, style, width_of};
use crate::Error;
use crate::colour::{Colour, theme};
use crate::{Anchor, Mark, Panel, Shape};
use fsarena_core::safe;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Draws one.
pub fn draw(plot: &mut Plot, panel: &Panel, mark: &Mark) -> Result<(), Error> {
    let place = |(x, y): (f64, f64)| (panel.x.place(x), panel.y.place(y));
    match mark {
        Mark::Box { x, y, colour, opacity } => {
            let corners = [place((x.0, y.0)), place((x.1, y.1))];
            one(plot, Rectangle::new(corners, rgb(*colour).mix(*opacity).filled()))
        }
        Mark::Frame { x, y, colour } => {
            let corners = [(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1), (x.0, y.0)];
            one(plot, PathElement::new(corners.map(place).to_vec(), style(*colour, 2.0)))
        }
        Mark::Line { points, colour, width, dash } => {
            let points: Vec<_> = points.iter().copied().map(place).collect();
            one(plot, PathElement::new(points, broken(*colour, *width, *dash)))
        }
        Mark::Band { points, colour } => {
            let low = points.iter().map(|(x, low, _)| place((*x, *low)));
            let high = points.iter().rev().map(|(x, _, high)| place((*x, *high)));
            one(plot, Polygon::new(low.chain(high).collect::<Vec<_>>(), rgb(*colour).mix(0.2).filled()))
        }
        Mark::Dot { at, colour, shape } => dot(plot, place(*at), *colour, *shape),
        Mark::Across { x, y, beyond } => across(plot, panel, *x, *y, beyond.as_deref()),
        Mark::Up { x, y, colour } => {
            let line = [place((*x, y.0)), place((*x, y.1))];
            one(plot, PathElement::new(line.to_vec(), style(*colour, 1.0)))?;
            line.into_iter().try_for_each(|end| {
                let cap = PathElement::new(vec![(px(0) - px(3), 0), (px(3), 0)], style(*colour, 1.0));
                one(plot, EmptyElement::at(end) + cap)
            })
        }
        Mark::Words { at, shift, text, colour, anchor, strong } => {
            let hpos = match anchor {
                Anchor::Start => HPos::Left,
                Anchor::Middle => HPos::Center,
                Anchor::End => HPos::Right,
            };
            let style = font(SMALL, *colour, *strong).pos(Pos::new(hpos, VPos::Center));
            let words = Text::new(safe::line(text), (shift.0 * FINE as i32, shift.1 * FINE as i32), style);
            one(plot, EmptyElement::at(place(*at)) + words)
        }
        Mark::Figure { at, whisker, text, colour, strong } => {
            let ends = (place(*at), whisker.map(|end| place((end, at.1))));
            figure(plot, ends, text, font(SMALL, *colour, *strong))
        }
    }
}

/// The least that is to be seen of an interval behind the figure that lies on it, in CSS pixels.
const REST: u32 = 12;

/// A figure near the end of its bar. It lies on a long interval, which goes on behind it, as the height lies on the line
/// of a map; behind a short one it stands.
fn figure(
    plot: &mut Plot,
    (bar, whisker): ((f64, f64), Option<(f64, f64)>),
    text: &str,
    style: TextStyle<'static>,
) -> Result<(), Error> {
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    let words = |shift: u32| Text::new(safe::line(text), (px(shift), 0), style.clone());
    let width = width_of(text, SMALL) + 8;
    let pixel = |at: (f64, f64)| plot.backend_coord(&at).0;
    match whisker.filter(|end| pixel(*end) > pixel(bar)) {
        Some(end) if pixel(end) - pixel(bar) >= px(8 + width + REST) => {
            let paper = Rectangle::new([(px(8), -px(5)), (px(8 + width), px(5))], rgb(theme::PAPER).filled());
            one(plot, EmptyElement::at(bar) + paper)?;
            one(plot, EmptyElement::at(bar) + words(10))
        }
        Some(end) => one(plot, EmptyElement::at(end) + words(6)),
        None => one(plot, EmptyElement::at(bar) + words(6)),
    }
}

/// An interval with an upright line at each end. One that ends beyond the picture has an arrow at the end of the axis,
/// and its end in words behind it. It lies over bars of any colour, so it has a rim of the colour of the page.
fn across(
    plot: &mut Plot,
    panel: &Panel,
    (low, high): (f64, f64),
    y: f64,
    beyond: Option<&str>,
) -> Result<(), Error> {
    let high = if beyond.is_some() { panel.x.range.1 } else { high };
    let at = |x: f64| (panel.x.place(x), panel.y.place(y));
    let cap = vec![(0, -px(3)), (0, px(3))];
    let arrow = vec![(-px(4), -px(3)), (0, 0), (-px(4), px(3))];
    let end = if beyond.is_some() { arrow } else { cap.clone() };
    for ink in [style(theme::PAPER, 2.75), style(theme::INK, 1.25)] {
        one(plot, PathElement::new(vec![at(low), at(high)], ink))?;
        one(plot, EmptyElement::at(at(low)) + PathElement::new(cap.clone(), ink))?;
        one(plot, EmptyElement::at(at(high)) + PathElement::new(end.clone(), ink))?;
    }
    let Some(words) = beyond else { return Ok(()) };
    let style = font(SMALL, theme::INK, false).pos(Pos::new(HPos::Left, VPos::Center));
    one(plot, EmptyElement::at(at(high)) + Text::new(safe::line(words), (px(4), 0), style))
}

fn dot(plot: &mut Plot, at: (f64, f64), colour: Colour, shape: Shape) -> Result<(), Error> {
    let (full, line) = (rgb(colour).filled(), style(colour, 1.5));
    let half = |points: &[(i32, i32)]| -> Vec<(i32, i32)> {
        points.iter().map(|(x, y)| (px(1) * x / 2, px(1) * y / 2)).collect()
    };
    match shape {
        Shape::Disc => one(plot, Circle::new(at, px(7) / 2, full)),
        Shape::Ring => one(plot, Circle::new(at, px(7) / 2, line)),
        Shape::Cross => {
            let stroke = |points: [(i32, i32); 2]| PathElement::new(half(&points), style(colour, 2.0));
            one(plot, EmptyElement::at(at) + stroke([(-6, -6), (6, 6)]) + stroke([(-6, 6), (6, -6)]))
        }
        Shape::Hollow => one(plot, EmptyElement::at(at) + PathElement::new(half(&outline(shape)), line)),
        _ => one(plot, EmptyElement::at(at) + Polygon::new(half(&outline(shape)), full)),
    }
}

/// The corners of a shape around its middle, in half CSS pixels; none of what is round.
pub fn outline(shape: Shape) -> Vec<(i32, i32)> {
    match shape {
        Shape::Square => vec![(-6, -6), (6, -6), (6, 6), (-6, 6)],
        Shape::Hollow => vec![(-6, -6), (6, -6), (6, 6), (-6, 6), (-6, -6)],
        Shape::Triangle => vec![(0, -8), (7, 6), (-7, 6)],
        Shape::Tip => vec![(0, 8), (7, -6), (-7, -6)],
        Shape::Diamond => vec![(0, -11), (9, 0), (0, 11), (-9, 0)],
        Shape::Disc | Shape::Ring | Shape::Cross => vec![],
    }
}
