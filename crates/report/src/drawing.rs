//! Charts: panels of marks between two axes, as plain data, drawn as SVG.
//!
//! A [`Chart`] describes the picture, and [`svg`] draws it. Nothing here depends on runs or reports, except
//! [`SeriesStyle::of_variants`], which colours variants. A new kind of chart needs no code here: its author
//! combines panels and marks.

pub mod axis;
pub mod colour;
mod pen;
pub mod svg;

pub use axis::Axis;
pub use colour::{Colour, theme};
use colour::{filesystem_colours, shade_number};
use fsarena_core::{cell::Variant, factor::FS};

/// A chart: panels with a title and a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The file name without extension: letters, digits and `-`.
    pub id: String,
    /// The title above the panels.
    pub title: String,
    /// The caption below the panels, which also describes the chart to readers who cannot see it.
    pub caption: String,
    /// The scale of the values, for charts that come in pairs with different scales.
    pub value_scale: ValueScale,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// Number of panels in a row.
    pub columns: usize,
    /// The keys of the colours and shapes.
    pub legend: Vec<LegendKey>,
    /// Width in CSS pixels.
    pub width: u32,
}

/// Width of most charts, in CSS pixels.
const DEFAULT_CHART_WIDTH: u32 = 920;
/// Width of charts that fit on the screen of a telephone, in CSS pixels.
pub const PHONE_WIDTH: u32 = 350;

/// The scale of the values of a chart. Some charts come in pairs that show the same values on different scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueScale {
    /// No other chart shows the same values.
    Single,
    /// Values in per cent of the best.
    Normalised,
    /// Values in the unit of the metric.
    Raw,
}

/// One panel: two axes and the marks between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The title above the plot; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x_axis: Axis,
    /// The vertical axis.
    pub y_axis: Axis,
    /// The marks, from back to front.
    pub marks: Vec<Mark>,
    /// Height of the panel with its axes, in CSS pixels.
    pub height: u32,
}

/// One shape or text in a panel, in the coordinates of the axes.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A filled rectangle.
    Box {
        /// Left and right edge.
        x: (f64, f64),
        /// Lower and upper edge.
        y: (f64, f64),
        /// The fill colour.
        colour: Colour,
        /// Opacity, from 0 to 1.
        opacity: f64,
    },
    /// The outline of a rectangle.
    Frame {
        /// Left and right edge.
        x: (f64, f64),
        /// Lower and upper edge.
        y: (f64, f64),
        /// The colour of the outline.
        colour: Colour,
    },
    /// A line through points.
    Line {
        /// The points, in order.
        points: Vec<(f64, f64)>,
        /// The colour.
        colour: Colour,
        /// The width in CSS pixels.
        width: f64,
        /// The dash pattern.
        dash: Dash,
    },
    /// The translucent area between two lines.
    Band {
        /// The points of both lines: (x, low, high).
        points: Vec<(f64, f64, f64)>,
        /// The colour, drawn translucent.
        colour: Colour,
    },
    /// A point.
    Dot {
        /// The coordinates (x, y).
        point: (f64, f64),
        /// The colour.
        colour: Colour,
        /// The shape.
        shape: PointShape,
    },
    /// An interval along the horizontal axis.
    HorizontalInterval {
        /// The lower and the upper end.
        x: (f64, f64),
        /// The vertical coordinate.
        y: f64,
        /// The upper end as text if it lies beyond the plot: the interval then ends in an arrow at the edge.
        clipped_end: Option<String>,
    },
    /// The value of a horizontal bar as text. These texts stand in a column right of the plot, where they overlap no bar or
    /// interval.
    ValueText {
        /// The vertical coordinate of the middle of the bar.
        y: f64,
        /// The value with its unit.
        text: String,
        /// The colour of the text.
        colour: Colour,
        /// Whether the text is bold.
        bold: bool,
    },
    /// An interval along the vertical axis.
    VerticalInterval {
        /// The horizontal coordinate.
        x: f64,
        /// The lower and the upper end.
        y: (f64, f64),
        /// The colour.
        colour: Colour,
    },
    /// A text inside the plot.
    Text {
        /// The coordinates (x, y) of the point beside the text.
        point: (f64, f64),
        /// An offset from the point in CSS pixels: right and down.
        offset: (i32, i32),
        /// The text.
        text: String,
        /// The colour of the text.
        colour: Colour,
        /// The side of the point where the text stands.
        anchor: Anchor,
        /// Whether the text is bold.
        bold: bool,
    },
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text starts at the point.
    Start,
    /// The middle of the text is at the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// The shape of a point. Shapes distinguish series for readers who cannot distinguish the colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointShape {
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
    InvertedTriangle,
    /// The outline of a square.
    HollowSquare,
    /// A diamond, for estimates.
    Diamond,
}

/// The dash pattern of a line. It distinguishes the variants of one filesystem, whose colours are similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dash {
    /// An unbroken line.
    Solid,
    /// Dashes.
    Dashed,
    /// Dots.
    Dotted,
    /// Dashes and dots.
    DashDot,
}

impl Dash {
    /// The dash pattern of the n-th variant of one filesystem, counted from 0; it repeats after four.
    pub fn of_shade(index: usize) -> Dash {
        [Dash::Solid, Dash::Dashed, Dash::Dotted, Dash::DashDot][index % 4]
    }
}

impl PointShape {
    /// The shape of the n-th series of a chart, counted from 0; it repeats after seven.
    pub fn of_series(index: usize) -> PointShape {
        use PointShape::{Cross, Disc, HollowSquare, InvertedTriangle, Ring, Square, Triangle};
        [Disc, Square, Triangle, Ring, Cross, InvertedTriangle, HollowSquare][index % 7]
    }
}

/// An entry of a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct LegendKey {
    /// The text of the entry.
    pub label: String,
    /// The colour of the sign.
    pub colour: Colour,
    /// The sign left of the label.
    pub sign: KeySign,
}

/// The sign of a legend entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeySign {
    /// An area with its opacity, from 0 to 1.
    Area(f64),
    /// A line.
    Line(Dash),
    /// A vertical line.
    VerticalLine(Dash),
    /// The outline of a rectangle.
    Frame,
    /// A point.
    Point(PointShape),
    /// A line with points.
    Series(PointShape, Dash),
}

/// The colour, shape and dash pattern of a series in charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesStyle {
    /// The colour of points and lines.
    pub colour: Colour,
    /// The shape of the points.
    pub shape: PointShape,
    /// The dash pattern of the lines.
    pub dash: Dash,
}

/// A point of a series, with the interval of its vertical coordinate, if it has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesPoint {
    /// The horizontal coordinate.
    pub x: f64,
    /// The vertical coordinate.
    pub y: f64,
    /// The lower and the upper end of the interval.
    pub interval: Option<(f64, f64)>,
}

impl SeriesPoint {
    /// The smallest and the largest vertical coordinate of points, intervals and `range`.
    pub fn vertical_range(points: &[SeriesPoint], range: (f64, f64)) -> (f64, f64) {
        points.iter().fold(range, |(low, high), point| {
            let (interval_low, interval_high) = point.interval.unwrap_or((point.y, point.y));
            (low.min(interval_low).min(point.y), high.max(interval_high).max(point.y))
        })
    }
}

impl SeriesStyle {
    /// The style of each variant: the colour of its filesystem, and another shade and dash pattern for each
    /// further variant of the same filesystem.
    pub fn of_variants(variants: &[Variant]) -> Vec<SeriesStyle> {
        let filesystems: Vec<&str> = variants.iter().map(|variant| variant.level(FS)).collect();
        let style = |(index, colour)| SeriesStyle {
            colour,
            shape: PointShape::of_series(index),
            dash: Dash::of_shade(shade_number(&filesystems, index)),
        };
        filesystem_colours(&filesystems).into_iter().enumerate().map(style).collect()
    }

    /// A line through points, `width` CSS pixels wide.
    pub fn line_mark(self, points: &[(f64, f64)], width: f64) -> Mark {
        Mark::Line { points: points.to_vec(), colour: self.colour, width, dash: self.dash }
    }

    /// The marks of a series: a line through its points, `width` CSS pixels wide, and the points with their intervals.
    pub fn series_marks(self, points: &[SeriesPoint], width: f64) -> Vec<Mark> {
        let centres: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.y)).collect();
        [self.line_mark(&centres, width)].into_iter().chain(self.point_marks(points)).collect()
    }

    /// The marks of points with their intervals.
    pub fn point_marks(self, points: &[SeriesPoint]) -> Vec<Mark> {
        let intervals = points.iter().filter_map(|point| Some(self.interval_mark(point.x, point.interval?)));
        intervals.chain(self.dot_marks(points.iter().map(|point| (point.x, point.y)))).collect()
    }

    /// A mark for each point.
    pub fn dot_marks(self, points: impl IntoIterator<Item = (f64, f64)>) -> impl Iterator<Item = Mark> {
        points.into_iter().map(move |point| Mark::Dot { point, colour: self.colour, shape: self.shape })
    }

    /// An interval along the vertical axis.
    pub fn interval_mark(self, x: f64, y: (f64, f64)) -> Mark {
        Mark::VerticalInterval { x, y, colour: self.colour }
    }

    /// The legend key of the series: a line with points.
    pub fn legend_key(self, label: impl Into<String>) -> LegendKey {
        LegendKey::new(label, self.colour, KeySign::Series(self.shape, self.dash))
    }
}

impl LegendKey {
    /// A legend key.
    pub fn new(label: impl Into<String>, colour: Colour, sign: KeySign) -> LegendKey {
        LegendKey { label: label.into(), colour, sign }
    }
}

impl Mark {
    /// An unbroken line.
    pub fn line(points: impl Into<Vec<(f64, f64)>>, colour: Colour, width: f64) -> Mark {
        Mark::Line { points: points.into(), colour, width, dash: Dash::Solid }
    }

    /// A text that is not bold. See [`Mark::Text`] for the arguments.
    pub fn text(
        point: (f64, f64),
        offset: (i32, i32),
        text: impl Into<String>,
        colour: Colour,
        anchor: Anchor,
    ) -> Mark {
        Mark::Text { point, offset, text: text.into(), colour, anchor, bold: false }
    }

    /// The value of a bar as text, not highlighted.
    pub fn value_text(y: f64, text: String) -> Mark {
        Mark::ValueText { y, text, colour: colour::theme::MUTED, bold: false }
    }

    /// A rectangle with an edge, which is visible even if the rectangle has the colour of the page.
    pub fn edged_box(x: (f64, f64), y: (f64, f64), colour: Colour) -> [Mark; 2] {
        let points = vec![(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1), (x.0, y.0)];
        [Mark::Box { x, y, colour, opacity: 1.0 }, Mark::line(points, colour::theme::MUTED, 0.75)]
    }
}

impl Panel {
    /// A panel with these marks, `height` CSS pixels high.
    pub fn new(title: impl Into<String>, x_axis: Axis, y_axis: Axis, height: u32, marks: Vec<Mark>) -> Panel {
        Panel { title: title.into(), x_axis, y_axis, marks, height }
    }

    /// A panel with a row for each name. A row is `row_height` CSS pixels high; the title and the horizontal axis take
    /// `frame_height`.
    pub fn with_rows(
        title: impl Into<String>,
        x_axis: Axis,
        names: impl IntoIterator<Item = impl Into<String>>,
        (frame_height, row_height): (u32, u32),
        marks: Vec<Mark>,
    ) -> Panel {
        let y_axis = Axis::of_rows(names);
        let height = frame_height + row_height * y_axis.ticks.len() as u32;
        Panel::new(title, x_axis, y_axis, height, marks)
    }
}

impl Chart {
    /// A chart of one column, still without panels and legend. `id` becomes a file name: other characters become `-`.
    pub fn new(id: impl Into<String>, title: impl Into<String>, caption: impl Into<String>) -> Chart {
        Chart {
            id: to_file_name(&id.into()),
            title: title.into(),
            caption: caption.into(),
            value_scale: ValueScale::Single,
            panels: vec![],
            columns: 1,
            legend: vec![],
            width: DEFAULT_CHART_WIDTH,
        }
    }

    /// Returns the chart with these panels, two in a row.
    pub fn with_panels(self, panels: Vec<Panel>) -> Chart {
        Chart { columns: panels.len().clamp(1, 2), panels, ..self }
    }
}

/// Turns an id into a file name of at most 80 lower-case letters, digits and single `-`.
pub(crate) fn to_file_name(id: &str) -> String {
    let to_safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mut name: String = id.chars().map(to_safe).collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    name.trim_matches('-').chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_safe_file_names() {
        assert_eq!(Chart::new("../Ratios/<b> of X", "", "").id, "ratios-b-of-x");
    }
}
