//! The keys of a chart: what its colours and shapes stand for.

use super::{Area, LEGEND_ROW, WIDTH, WORDS, broken, font, marks, px, rgb, said, style, width_of};
use crate::Error;
use crate::colour::{Colour, theme};
use crate::{Key, Shape, Sign};
use fsarena_core::safe;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Draws a row of keys.
pub fn draw(root: &Area, keys: &[(u32, &Key)], top: u32) -> Result<(), Error> {
    for (left, key) in keys {
        let at = (px(*left), px(top + LEGEND_ROW / 2));
        sign(root, key, at)?;
        let words = font(WORDS, theme::INK, false).pos(Pos::new(HPos::Left, VPos::Center));
        said(root.draw_text(&safe::line(&key.label), &words, (at.0 + px(sign_width(key.sign)), at.1)))?;
    }
    Ok(())
}

/// What a key looks like.
fn sign(root: &Area, key: &Key, (x, y): (i32, i32)) -> Result<(), Error> {
    let swatch = [(x, y - px(5)), (x + px(10), y + px(5))];
    let edge = |colour, width| Rectangle::new(swatch, style(colour, width));
    let line = |points: [(i32, i32); 2], dash| {
        said(root.draw(&PathElement::new(points.to_vec(), broken(key.colour, 2.0, dash))))
    };
    match key.sign {
        Sign::Area(opacity) => {
            said(root.draw(&Rectangle::new(swatch, rgb(key.colour).mix(opacity).filled())))?;
            // An area may be as light as the page.
            said(root.draw(&edge(theme::SOFT, 0.75)))
        }
        Sign::Frame => {
            // As in the picture: within a cell, on which it is seen. The library draws no thick rectangles.
            said(root.draw(&Rectangle::new(swatch, rgb(Colour::heat(0.0)).filled())))?;
            let (left, right, top, bottom) = (x + px(2), x + px(8), y - px(3), y + px(3));
            let frame = vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top - px(1))];
            said(root.draw(&PathElement::new(frame, style(key.colour, 2.0))))
        }
        Sign::Line(dash) => line([(x, y), (x + px(LONG), y)], dash),
        Sign::Upright(dash) => line([(x + px(5), y - px(8)), (x + px(5), y + px(8))], dash),
        Sign::Point(shape) => point(root, key, shape, (x + px(5), y)),
        Sign::Series(shape, dash) => {
            line([(x, y), (x + px(LONG), y)], dash)?;
            point(root, key, shape, (x + px(LONG) / 2, y))
        }
    }
}

fn point(root: &Area, key: &Key, shape: Shape, (x, y): (i32, i32)) -> Result<(), Error> {
    let (full, line) = (rgb(key.colour).filled(), style(key.colour, 1.5));
    let half = px(1) * 5 / 8;
    let corners: Vec<(i32, i32)> =
        marks::outline(shape).into_iter().map(|(dx, dy)| (x + half * dx, y + half * dy)).collect();
    match shape {
        Shape::Disc => said(root.draw(&Circle::new((x, y), px(4), full))),
        Shape::Ring => said(root.draw(&Circle::new((x, y), px(4), line))),
        Shape::Cross => [(-1, 1), (1, -1)].into_iter().try_for_each(|(from, to)| {
            let stroke = vec![(x - px(4), y + px(4) * from), (x + px(4), y + px(4) * to)];
            said(root.draw(&PathElement::new(stroke, style(key.colour, 2.0))))
        }),
        Shape::Hollow => said(root.draw(&PathElement::new(corners, line))),
        _ => said(root.draw(&Polygon::new(corners, full))),
    }
}

/// The length of lines in keys, in CSS pixels.
const LONG: u32 = 26;

/// The width of what a key looks like, with some room behind it.
fn sign_width(sign: Sign) -> u32 {
    match sign {
        Sign::Line(_) | Sign::Series(..) => LONG + 5,
        _ => 15,
    }
}

/// The keys by rows, each with its distance from the left.
pub fn rows(keys: &[Key]) -> Vec<Vec<(u32, &Key)>> {
    let mut rows: Vec<Vec<(u32, &Key)>> = vec![];
    let mut left = WIDTH;
    for key in keys {
        let width = sign_width(key.sign) + width_of(&key.label, WORDS) + 18;
        if left + width > WIDTH {
            rows.push(vec![]);
            left = 0;
        }
        rows.last_mut().expect("a row was just made").push((left, key));
        left += width;
    }
    rows
}
