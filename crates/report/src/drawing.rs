//! Charts: panels of marks between two axes, as plain data, drawn as SVG.
//!
//! A [`Chart`] says what is to be seen. [`svg`] draws every chart. Nothing here knows of runs or reports: a new kind of
//! chart is made where its data is, of panels and marks.

pub mod axis;
pub mod colour;
pub mod svg;

pub use axis::Axis;
pub use colour::{Colour, theme};
use colour::{filesystem_colours, shade_number};
use fsarena_core::{cell::Variant, factor::FS};

/// A chart: panels with a title and a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its name as a file: letters, digits and `-`.
    pub id: String,
    /// The title above it.
    pub title: String,
    /// A description: the caption, and the text for readers who cannot see it.
    pub about: String,
    /// Whether another chart shows the same in another form.
    pub form: Form,
    /// Its panels, row by row.
    pub panels: Vec<Panel>,
    /// How many of them stand side by side.
    pub columns: usize,
    /// The keys of its colours and shapes.
    pub legend: Vec<Key>,
    /// Its width, in CSS pixels.
    pub width: u32,
}

/// Width of most charts, and of those that a telephone shows whole, in CSS pixels.
pub const WIDE: u32 = 920;
/// See [`WIDE`].
pub const NARROW: u32 = 350;

/// Whether a chart has a sibling that shows the same by another measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// No other chart shows the same.
    Only,
    /// In per cent of the best.
    Normalised,
    /// In the unit of the metric.
    Raw,
}

/// One panel: two axes and what is between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The title above it; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The marks, from back to front.
    pub marks: Vec<Mark>,
    /// Height of all of it, in CSS pixels.
    pub height: u32,
}

/// One thing drawn, in the coordinates of the axes.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A filled rectangle.
    Box {
        /// From and to.
        x: (f64, f64),
        /// From and to.
        y: (f64, f64),
        /// Its colour.
        colour: Colour,
        /// How much of what is behind is covered: 1 for all.
        opacity: f64,
    },
    /// The outline of a rectangle.
    Frame {
        /// From and to.
        x: (f64, f64),
        /// From and to.
        y: (f64, f64),
        /// Its colour.
        colour: Colour,
    },
    /// A line through points.
    Line {
        /// The points.
        points: Vec<(f64, f64)>,
        /// Its colour.
        colour: Colour,
        /// Its width in CSS pixels.
        width: f64,
        /// Whether it is broken, and how.
        dash: Dash,
    },
    /// The area between two lines: (x, low, high).
    Band {
        /// The points.
        points: Vec<(f64, f64, f64)>,
        /// Its colour; it is drawn translucent.
        colour: Colour,
    },
    /// A point.
    Dot {
        /// Where.
        at: (f64, f64),
        /// Its colour.
        colour: Colour,
        /// Its shape.
        shape: Shape,
    },
    /// An interval along the horizontal axis.
    HorizontalInterval {
        /// From and to.
        x: (f64, f64),
        /// Where.
        y: f64,
        /// The end as text if it lies beyond the plot; the axis then ends in an arrow.
        beyond: Option<String>,
    },
    /// The figure of a horizontal bar. Figures stand in a column right of the plot, where no bar or interval meets them.
    Figure {
        /// The middle of the bar.
        y: f64,
        /// The figure.
        text: String,
        /// Its colour.
        colour: Colour,
        /// Whether it is heavy.
        strong: bool,
    },
    /// An interval along the vertical axis.
    VerticalInterval {
        /// Where.
        x: f64,
        /// From and to.
        y: (f64, f64),
        /// Its colour.
        colour: Colour,
    },
    /// Words.
    Words {
        /// Where.
        at: (f64, f64),
        /// An offset in CSS pixels: right and down.
        shift: (i32, i32),
        /// The words.
        text: String,
        /// Their colour.
        colour: Colour,
        /// Where they stand.
        anchor: Anchor,
        /// Whether they are heavy.
        strong: bool,
    },
}

/// Where words stand relative to their point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// To the right of it.
    Start,
    /// Around it.
    Middle,
    /// To the left of it.
    End,
}

/// The shape of a point. Shapes tell apart what colours may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A ring.
    Ring,
    /// A cross.
    Cross,
    /// A triangle on its tip.
    Tip,
    /// The outline of a square.
    Hollow,
    /// A diamond, for estimates.
    Diamond,
}

/// How a line is broken. Dashes tell apart what colours and shapes may not: the variants of one filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dash {
    /// An unbroken line.
    Solid,
    /// Dashes.
    Long,
    /// Dots.
    Dots,
    /// Dashes and dots.
    Mixed,
}

impl Dash {
    /// The line of the `at`-th of several variants of one filesystem.
    pub fn of_shade(at: usize) -> Dash {
        [Dash::Solid, Dash::Long, Dash::Dots, Dash::Mixed][at % 4]
    }
}

impl Shape {
    /// The shape of the `at`-th of several series.
    pub fn of_series(at: usize) -> Shape {
        use Shape::{Cross, Disc, Hollow, Ring, Square, Tip, Triangle};
        [Disc, Square, Triangle, Ring, Cross, Tip, Hollow][at % 7]
    }
}

/// An entry of a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// In words.
    pub label: String,
    /// The colour.
    pub colour: Colour,
    /// The sign beside the label.
    pub sign: Sign,
}

/// The sign of a legend entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sign {
    /// An area, and how much of what is behind it covers: 1 for all.
    Area(f64),
    /// A line.
    Line(Dash),
    /// An upright line.
    Upright(Dash),
    /// The outline of a rectangle.
    Frame,
    /// A point.
    Point(Shape),
    /// A line with points.
    Series(Shape, Dash),
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Its colour.
    pub colour: Colour,
    /// The shape of its points.
    pub shape: Shape,
    /// Its line.
    pub dash: Dash,
}

impl Look {
    /// How each variant is drawn: in the colour of its filesystem, in shades and with other lines where several variants
    /// share it.
    pub fn of_variants(variants: &[Variant]) -> Vec<Look> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.level(FS)).collect();
        let dash = |at: usize| Dash::of_shade(shade_number(&names, at));
        let look = |(at, colour)| Look { colour, shape: Shape::of_series(at), dash: dash(at) };
        filesystem_colours(&names).into_iter().enumerate().map(look).collect()
    }

    /// A line of this width.
    pub fn line(self, points: &[(f64, f64)], width: f64) -> Mark {
        Mark::Line { points: points.to_vec(), colour: self.colour, width, dash: self.dash }
    }

    /// Points.
    pub fn dots(self, points: impl IntoIterator<Item = (f64, f64)>) -> impl Iterator<Item = Mark> {
        points.into_iter().map(move |at| Mark::Dot { at, colour: self.colour, shape: self.shape })
    }

    /// An interval along the vertical axis.
    pub fn interval(self, x: f64, y: (f64, f64)) -> Mark {
        Mark::VerticalInterval { x, y, colour: self.colour }
    }

    /// Its key: a line with points.
    pub fn key(self, label: impl Into<String>) -> Key {
        Key::new(label, self.colour, Sign::Series(self.shape, self.dash))
    }
}

impl Key {
    /// A key of these words.
    pub fn new(label: impl Into<String>, colour: Colour, sign: Sign) -> Key {
        Key { label: label.into(), colour, sign }
    }
}

impl Mark {
    /// An unbroken line.
    pub fn line(points: impl Into<Vec<(f64, f64)>>, colour: Colour, width: f64) -> Mark {
        Mark::Line { points: points.into(), colour, width, dash: Dash::Solid }
    }

    /// Words that are not heavy.
    pub fn words(
        at: (f64, f64),
        shift: (i32, i32),
        text: impl Into<String>,
        colour: Colour,
        anchor: Anchor,
    ) -> Mark {
        Mark::Words { at, shift, text: text.into(), colour, anchor, strong: false }
    }

    /// The figure of a bar that does not stand out.
    pub fn figure(y: f64, text: String) -> Mark {
        Mark::Figure { y, text, colour: colour::theme::SOFT, strong: false }
    }

    /// A rectangle with an edge that is seen even where its colour is that of the page.
    pub fn edged(x: (f64, f64), y: (f64, f64), colour: Colour) -> [Mark; 2] {
        let points = vec![(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1), (x.0, y.0)];
        [Mark::Box { x, y, colour, opacity: 1.0 }, Mark::line(points, colour::theme::SOFT, 0.75)]
    }
}

impl Panel {
    /// A panel of these marks.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, height: u32, marks: Vec<Mark>) -> Panel {
        Panel { title: title.into(), x, y, marks, height }
    }

    /// A panel with a row for each name: `each` CSS pixels for a row, and `rest` for all of them.
    pub fn rows(
        title: impl Into<String>,
        x: Axis,
        names: impl IntoIterator<Item = impl Into<String>>,
        (rest, each): (u32, u32),
        marks: Vec<Mark>,
    ) -> Panel {
        let y = Axis::names(names);
        let height = rest + each * y.ticks.len() as u32;
        Panel::new(title, x, y, height, marks)
    }
}

impl Chart {
    /// A chart of one column without panels and legend yet.
    pub fn new(id: impl Into<String>, title: impl Into<String>, about: impl Into<String>) -> Chart {
        Chart {
            id: file_name(&id.into()),
            title: title.into(),
            about: about.into(),
            form: Form::Only,
            panels: vec![],
            columns: 1,
            legend: vec![],
            width: WIDE,
        }
    }

    /// Returns the chart with these panels, side by side in pairs.
    pub fn in_pairs(self, panels: Vec<Panel>) -> Chart {
        Chart { columns: panels.len().clamp(1, 2), panels, ..self }
    }
}

/// Letters, digits and single `-` only: ids become names of files.
fn file_name(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mut name: String = id.chars().map(plain).collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    name.trim_matches('-').chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_of_files() {
        assert_eq!(Chart::new("../Ratios/<b> of X", "", "").id, "ratios-b-of-x");
    }
}
