//! Writes the elements of an SVG document: rectangles, paths, circles and text, in CSS pixels.

use crate::drawing::{Anchor, Colour, Dash, Shape, text::Font};
use fsarena_core::safe;
use quick_xml::escape::escape;
use std::fmt::{self, Display, Formatter, Write};

/// A place in the picture: to the right, and down.
pub type Point = (f64, f64);

/// The elements drawn so far.
#[derive(Default)]
pub struct Pen {
    text: String,
}

/// How a shape is painted.
#[derive(Clone, Copy)]
pub enum Paint {
    /// Filled with a colour that covers this share of what is behind it.
    Fill(Colour, f64),
    /// Its outline, in this width.
    Line(Colour, f64, Dash),
}

impl Pen {
    /// All elements, as text.
    pub fn into_text(self) -> String {
        self.text
    }

    /// A rectangle between two corners. Its edges are sharp, so that no seam shows between neighbours.
    pub fn rectangle(&mut self, a: Point, b: Point, paint: Paint) {
        let [x, y] = [a.0.min(b.0), a.1.min(b.1)].map(n);
        let [width, height] = [a.0 - b.0, a.1 - b.1].map(|length| n(length.abs()));
        self.write(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" shape-rendering=\"crispEdges\"{paint}/>"
        ));
    }

    /// A path, as SVG writes it.
    pub fn path(&mut self, d: impl Display, paint: Paint) {
        self.write(format_args!("<path d=\"{d}\"{paint}/>"));
    }

    /// A line through points.
    pub fn line(&mut self, points: impl IntoIterator<Item = Point>, paint: Paint) {
        self.path(through(points), paint);
    }

    /// A point of a series.
    pub fn point(&mut self, (x, y): Point, colour: Colour, shape: Shape) {
        let (full, outline) = (Paint::Fill(colour, 1.0), Paint::Line(colour, 1.5, Dash::Solid));
        let mut polygon = |points: &[Point], paint| {
            self.path(through(points.iter().map(|(dx, dy)| (x + dx, y + dy))) + "z", paint);
        };
        const SQUARE: [Point; 4] = [(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)];
        match shape {
            Shape::Disc => self.circle((x, y), full),
            Shape::Ring => self.circle((x, y), outline),
            Shape::Square => polygon(&SQUARE, full),
            Shape::Hollow => polygon(&SQUARE, outline),
            Shape::Triangle => polygon(&[(0.0, -4.0), (3.5, 3.0), (-3.5, 3.0)], full),
            Shape::Tip => polygon(&[(0.0, 4.0), (3.5, -3.0), (-3.5, -3.0)], full),
            Shape::Diamond => polygon(&[(0.0, -5.5), (4.5, 0.0), (0.0, 5.5), (-4.5, 0.0)], full),
            Shape::Cross => {
                let (left, top) = (n(x - 3.0), n(y - 3.0));
                self.path(format_args!("M{left},{top}l6,6m-6,0l6,-6"), Paint::Line(colour, 2.0, Dash::Solid));
            }
        }
    }

    fn circle(&mut self, (x, y): Point, paint: Paint) {
        self.write(format_args!("<circle cx=\"{}\" cy=\"{}\" r=\"3.5\"{paint}/>", n(x), n(y)));
    }

    /// A line of text; `at` is the middle of its height.
    pub fn text(&mut self, at: Point, text: &str, (font, colour): (Font, Colour), anchor: Anchor) {
        self.write_text(at, text, (font, colour), anchor, "");
    }

    /// A line of text that reads upwards, its middle at `at`.
    pub fn upright_text(&mut self, at: Point, text: &str, look: (Font, Colour)) {
        let turn = format!(" transform=\"rotate(-90 {} {})\"", n(at.0), n(at.1));
        self.write_text(at, text, look, Anchor::Middle, &turn);
    }

    fn write_text(&mut self, at: Point, text: &str, look: (Font, Colour), anchor: Anchor, turn: &str) {
        let (x, y, (font, colour)) = (n(at.0), n(at.1), look);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if font.bold { " font-weight=\"bold\"" } else { "" };
        self.write(format_args!(
            "<text x=\"{x}\" y=\"{y}\" dy=\".35em\" font-size=\"{}\" fill=\"{}\"{weight}{anchor}{turn}>{}</text>",
            font.size,
            colour.hex(),
            escape(safe::line(text))
        ));
    }

    fn write(&mut self, element: fmt::Arguments) {
        self.text.write_fmt(element).expect("writing to memory");
    }
}

/// A coordinate in hundredths of a CSS pixel.
pub fn n(pixels: f64) -> f64 {
    (100.0 * pixels).round() / 100.0
}

/// A line through points, as paths have it.
fn through(points: impl IntoIterator<Item = Point>) -> String {
    let mut d = String::new();
    for (x, y) in points {
        let command = if d.is_empty() { 'M' } else { ' ' };
        write!(d, "{command}{},{}", n(x), n(y)).expect("writing to memory");
    }
    d
}

impl Display for Paint {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Paint::Fill(colour, opacity) => {
                write!(f, " fill=\"{}\"", colour.hex())?;
                if *opacity < 1.0 { write!(f, " fill-opacity=\"{opacity}\"") } else { Ok(()) }
            }
            Paint::Line(colour, width, dash) => {
                write!(f, " fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"", colour.hex())?;
                match dash {
                    Dash::Solid => Ok(()),
                    Dash::Long => f.write_str(" stroke-dasharray=\"7 4\""),
                    Dash::Dots => f.write_str(" stroke-dasharray=\"2 3\""),
                    Dash::Mixed => f.write_str(" stroke-dasharray=\"9 3 2 3\""),
                }
            }
        }
    }
}
