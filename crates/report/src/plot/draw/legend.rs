//! The keys of a chart: what its colours and shapes stand for.

use super::{Area, LEGEND_ROW, WIDTH, WORDS, font, px, rgb, said, style, width_of};
use crate::error::Error;
use crate::plot::colour::theme;
use crate::plot::{Key, Shape, Sign};
use crate::safe;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Draws a row of keys.
pub fn draw(root: &Area, keys: &[(u32, &Key)], top: u32) -> Result<(), Error> {
    for (left, key) in keys {
        let at = (px(*left), px(top + LEGEND_ROW / 2));
        sign(root, key, at)?;
        let words = font(WORDS, theme::INK, false).pos(Pos::new(HPos::Left, VPos::Center));
        said(root.draw_text(&safe::line(&key.label), &words, (at.0 + px(15), at.1)))?;
    }
    Ok(())
}

/// What a key looks like, ten CSS pixels wide.
fn sign(root: &Area, key: &Key, (x, y): (i32, i32)) -> Result<(), Error> {
    let full = rgb(key.colour).filled();
    let swatch = [(x, y - px(5)), (x + px(10), y + px(5))];
    let edge = |colour, width| Rectangle::new(swatch, style(colour, width));
    match key.sign {
        Sign::Area(opacity) => {
            said(root.draw(&Rectangle::new(swatch, rgb(key.colour).mix(opacity).filled())))?;
            // An area may be as light as the page.
            said(root.draw(&edge(theme::SOFT, 0.75)))
        }
        Sign::Frame => said(root.draw(&edge(key.colour, 2.0))),
        Sign::Line => {
            said(root.draw(&PathElement::new(vec![(x, y), (x + px(10), y)], style(key.colour, 2.0))))
        }
        Sign::Point(Shape::Disc) => said(root.draw(&Circle::new((x + px(5), y), px(4), full))),
        Sign::Point(Shape::Ring) => {
            said(root.draw(&Circle::new((x + px(5), y), px(4), style(key.colour, 1.5))))
        }
        Sign::Point(Shape::Square) => said(root.draw(&Rectangle::new(swatch, full))),
        Sign::Point(Shape::Triangle) => {
            let corners = vec![(x + px(5), y - px(5)), (x + px(10), y + px(4)), (x, y + px(4))];
            said(root.draw(&Polygon::new(corners, full)))
        }
        Sign::Point(Shape::Diamond) => {
            let corners = vec![(x + px(5), y - px(6)), (x + px(10), y), (x + px(5), y + px(6)), (x, y)];
            said(root.draw(&Polygon::new(corners, full)))
        }
    }
}

/// The keys by rows, each with its distance from the left.
pub fn rows(keys: &[Key]) -> Vec<Vec<(u32, &Key)>> {
    let mut rows: Vec<Vec<(u32, &Key)>> = vec![];
    let mut left = WIDTH;
    for key in keys {
        let width = 15 + width_of(&key.label, WORDS) + 18;
        if left + width > WIDTH {
            rows.push(vec![]);
            left = 0;
        }
        rows.last_mut().expect("a row was just made").push((left, key));
        left += width;
    }
    rows
}
