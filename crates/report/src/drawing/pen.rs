//! Writes the elements of an SVG document (rectangles, paths, circles and text, in CSS pixels), and measures the width of
//! text in DejaVu Sans.

use crate::drawing::{Anchor, Colour, Dash, PointShape};
use fsarena_core::escape;
use quick_xml::escape::escape as escape_xml;
use std::fmt::{self, Display, Formatter, Write};
use ttf_parser::Face;

/// A point of the picture in CSS pixels: right and down from the top left corner.
pub type PixelPoint = (f64, f64);

/// Collects SVG elements as text, in the order of drawing.
#[derive(Default)]
pub struct Pen {
    svg: String,
}

/// How a shape is painted.
#[derive(Clone, Copy)]
pub enum Paint {
    /// Filled with a colour and an opacity, from 0 to 1.
    Fill(Colour, f64),
    /// Only the outline: colour, width in CSS pixels, dash pattern.
    Stroke(Colour, f64, Dash),
}

impl Pen {
    /// Returns the drawn elements as SVG text.
    pub fn into_svg(self) -> String {
        self.svg
    }

    /// Draws a rectangle between two corners, without antialiasing, so that no gap shows between neighbours.
    pub fn draw_rectangle(&mut self, a: PixelPoint, b: PixelPoint, paint: Paint) {
        let [x, y] = [a.0.min(b.0), a.1.min(b.1)].map(round_coordinate);
        let [width, height] = [a.0 - b.0, a.1 - b.1].map(|length| round_coordinate(length.abs()));
        self.write_element(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" shape-rendering=\"crispEdges\"{paint}/>"
        ));
    }

    /// Draws a path. `commands` are the path commands of SVG.
    pub fn draw_path(&mut self, commands: impl Display, paint: Paint) {
        self.write_element(format_args!("<path d=\"{commands}\"{paint}/>"));
    }

    /// Draws a line through points, or fills the area that it encloses.
    pub fn draw_polyline(&mut self, points: impl IntoIterator<Item = PixelPoint>, paint: Paint) {
        self.draw_path(path_commands(points), paint);
    }

    /// Draws a point of a series.
    pub fn draw_point(&mut self, (x, y): PixelPoint, colour: Colour, shape: PointShape) {
        let (fill, outline) = (Paint::Fill(colour, 1.0), Paint::Stroke(colour, 1.5, Dash::Solid));
        let mut polygon = |points: &[PixelPoint], paint| {
            self.draw_path(path_commands(points.iter().map(|(dx, dy)| (x + dx, y + dy))) + "z", paint);
        };
        const SQUARE: [PixelPoint; 4] = [(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)];
        match shape {
            PointShape::Disc => self.draw_circle((x, y), fill),
            PointShape::Ring => self.draw_circle((x, y), outline),
            PointShape::Square => polygon(&SQUARE, fill),
            PointShape::HollowSquare => polygon(&SQUARE, outline),
            PointShape::Triangle => polygon(&[(0.0, -4.0), (3.5, 3.0), (-3.5, 3.0)], fill),
            PointShape::InvertedTriangle => polygon(&[(0.0, 4.0), (3.5, -3.0), (-3.5, -3.0)], fill),
            PointShape::Diamond => polygon(&[(0.0, -5.5), (4.5, 0.0), (0.0, 5.5), (-4.5, 0.0)], fill),
            PointShape::Cross => {
                let (left, top) = (round_coordinate(x - 3.0), round_coordinate(y - 3.0));
                self.draw_path(format_args!("M{left},{top}l6,6m-6,0l6,-6"), Paint::Stroke(colour, 2.0, Dash::Solid));
            }
        }
    }

    fn draw_circle(&mut self, (x, y): PixelPoint, paint: Paint) {
        self.write_element(format_args!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"3.5\"{paint}/>",
            round_coordinate(x),
            round_coordinate(y)
        ));
    }

    /// Draws a line of text. `point` is halfway up the line, and at its start, middle or end as `anchor` states. The SVG document
    /// defines the font family.
    pub fn draw_text(&mut self, point: PixelPoint, text: &str, (font, colour): (Font, Colour), anchor: Anchor) {
        self.write_text(point, text, (font, colour), anchor, "");
    }

    /// Draws a line of text that is turned by 90° and reads upwards, with its middle at `point`.
    pub fn draw_vertical_text(&mut self, point: PixelPoint, text: &str, font_and_colour: (Font, Colour)) {
        let transform =
            format!(" transform=\"rotate(-90 {} {})\"", round_coordinate(point.0), round_coordinate(point.1));
        self.write_text(point, text, font_and_colour, Anchor::Middle, &transform);
    }

    fn write_text(
        &mut self,
        point: PixelPoint,
        text: &str,
        font_and_colour: (Font, Colour),
        anchor: Anchor,
        transform: &str,
    ) {
        let (x, y, (font, colour)) = (round_coordinate(point.0), round_coordinate(point.1), font_and_colour);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if font.bold { " font-weight=\"bold\"" } else { "" };
        self.write_element(format_args!(
            "<text x=\"{x}\" y=\"{y}\" dy=\".35em\" font-size=\"{}\" fill=\"{}\"{weight}{anchor}{transform}>{}</text>",
            font.size,
            colour.hex(),
            escape_xml(escape::line(text))
        ));
    }

    fn write_element(&mut self, element: fmt::Arguments) {
        self.svg.write_fmt(element).expect("writing to memory");
    }
}

/// Rounds a coordinate to hundredths of a CSS pixel.
pub fn round_coordinate(pixels: f64) -> f64 {
    (100.0 * pixels).round() / 100.0
}

/// The path commands of a line through points.
fn path_commands(points: impl IntoIterator<Item = PixelPoint>) -> String {
    let mut commands = String::new();
    for (x, y) in points {
        let command = if commands.is_empty() { 'M' } else { ' ' };
        write!(commands, "{command}{},{}", round_coordinate(x), round_coordinate(y)).expect("writing to memory");
    }
    commands
}

impl Display for Paint {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Paint::Fill(colour, opacity) => {
                write!(f, " fill=\"{}\"", colour.hex())?;
                if *opacity < 1.0 { write!(f, " fill-opacity=\"{opacity}\"") } else { Ok(()) }
            }
            Paint::Stroke(colour, width, dash) => {
                write!(f, " fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"", colour.hex())?;
                match dash {
                    Dash::Solid => Ok(()),
                    Dash::Dashed => f.write_str(" stroke-dasharray=\"7 4\""),
                    Dash::Dotted => f.write_str(" stroke-dasharray=\"2 3\""),
                    Dash::DashDot => f.write_str(" stroke-dasharray=\"9 3 2 3\""),
                }
            }
        }
    }
}

/// DejaVu Sans with Latin, Greek and mathematical characters. A viewer may draw with another font; most are narrower.
const REGULAR_TTF: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans-subset.ttf");
/// DejaVu Sans Bold with the same characters.
const BOLD_TTF: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans-Bold-subset.ttf");

/// The font of the labels of axes and of the legend.
pub const LABEL_FONT: Font = Font { size: 11.0, bold: false };
/// The font of text and figures in a plot.
pub const PLOT_FONT: Font = Font { size: 10.0, bold: false };

/// Size and weight of text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Font {
    /// Height of the font in CSS pixels.
    pub size: f64,
    /// Whether it is bold.
    pub bold: bool,
}

impl Font {
    /// Returns the width of `text` in CSS pixels. A character that the font lacks counts as wide as the font is high.
    pub fn text_width(self, text: &str) -> f64 {
        let bytes = if self.bold { BOLD_TTF } else { REGULAR_TTF };
        let face = Face::parse(bytes, 0).expect("the embedded font is valid");
        let px_per_unit = self.size / f64::from(face.units_per_em());
        let char_width = |c| {
            let advance = face.glyph_index(c).and_then(|glyph| face.glyph_hor_advance(glyph));
            advance.map_or(self.size, |advance| f64::from(advance) * px_per_unit)
        };
        text.chars().map(char_width).sum()
    }

    /// Shortens `text` to at most `max_width` CSS pixels: replaces its middle by `…`. Returns only `…` if nothing else fits.
    pub fn shorten(self, text: &str, max_width: f64) -> String {
        if self.text_width(text) <= max_width {
            return text.to_string();
        }
        let chars: Vec<char> = text.chars().collect();
        // No character of the font is narrower than a quarter of its height.
        let max_kept_chars = chars.len().min((4.0 * max_width / self.size) as usize);
        let keep_chars = |count: usize| {
            let (start, end) = (count.div_ceil(2), chars.len() - count / 2);
            chars[..start].iter().chain(&['…']).chain(&chars[end..]).collect::<String>()
        };
        (0..max_kept_chars)
            .rev()
            .map(keep_chars)
            .find(|text| self.text_width(text) <= max_width)
            .unwrap_or_else(|| "…".into())
    }

    /// Breaks `text` into one or two lines of at most `max_width` CSS pixels, and shortens lines that are too
    /// long. Returns no line for empty text.
    pub fn break_lines(self, text: &str, max_width: f64) -> Vec<String> {
        let mut lines: Vec<String> = vec![];
        for word in text.split_whitespace() {
            let is_last_line = lines.len() == 2;
            match lines.last_mut() {
                Some(line) if is_last_line || self.text_width(&format!("{line} {word}")) <= max_width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.into()),
            }
        }
        lines.into_iter().map(|line| self.shorten(&line, max_width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_depends_on_the_characters_and_the_weight() {
        assert!(PLOT_FONT.text_width("iii") < PLOT_FONT.text_width("WWW"));
        assert!(Font { bold: true, ..PLOT_FONT }.text_width("word") > PLOT_FONT.text_width("word"));
        assert_eq!(PLOT_FONT.text_width("漢字"), 20.0, "characters that the font lacks are squares");
    }

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(PLOT_FONT.shorten("short", 100.0), "short");
        let shortened = PLOT_FONT.shorten("xfs over ext4: serve", 60.0);
        assert!(shortened.starts_with("xfs") && shortened.ends_with("rve") && shortened.contains('…'), "{shortened}");
        assert!(PLOT_FONT.text_width(&shortened) <= 60.0, "{shortened}");
        assert_eq!(PLOT_FONT.shorten("anything", 0.0), "…");
    }

    #[test]
    fn titles_have_two_lines_at_most() {
        let lines = PLOT_FONT.break_lines("cold cache of a file server in another room", 70.0);
        assert_eq!((lines.len(), lines[0].as_str()), (2, "cold cache of"));
        assert!(lines.iter().all(|line| PLOT_FONT.text_width(line) <= 70.0), "{lines:?}");
        assert_eq!(PLOT_FONT.break_lines("", 70.0), Vec::<String>::new());
    }
}
