//! The one renderer of all charts: panels, axes and marks through plotters, on its SVG backend.

mod legend;
mod marks;

use super::colour::{Colour, theme};
use super::{Axis, Chart, Dash, Mark, Panel};
use crate::Error;
use fsarena_core::safe;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::*;
use std::fmt::Display;

/// Width of every chart in CSS pixels.
pub const WIDTH: u32 = 920;
/// The backend counts whole units, so it gets several for each CSS pixel.
pub const FINE: u32 = 4;

const TITLE: u32 = 16;
const WORDS: u32 = 11;
const SMALL: u32 = 10;
/// Height of a row of the legend.
const LEGEND_ROW: u32 = 20;
/// Room between panels.
const GAP: u32 = 10;
/// Room to the right of a plot, at least.
const RIGHT: u32 = 22;
/// Height of a line of a panel's title.
const TITLE_LINE: u32 = WORDS + 4;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Coord = Cartesian2d<Placed, Placed>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Coord>;

/// What is inside the `svg` element of a chart, and its size in CSS pixels.
///
/// # Errors
/// Where the renderer refuses; that is a fault of ours.
pub fn draw(chart: &Chart) -> Result<(String, (u32, u32)), Error> {
    let legend = legend::rows(&chart.legend);
    let top = TITLE + 18 + LEGEND_ROW * legend.len() as u32;
    let columns = chart.columns.max(1);
    // Panels above each other share their left edge.
    let labels = chart.panels.iter().map(|panel| label_width(&panel.y)).max().unwrap_or(0);
    let right = chart.panels.iter().map(right_margin).max().unwrap_or(RIGHT);
    let rows: Vec<Row> =
        chart.panels.chunks(columns).map(|row| Row::of(row, columns as u32, (labels, right))).collect();
    let size = (WIDTH, top + rows.iter().map(Row::height).sum::<u32>());
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (size.0 * FINE, size.1 * FINE)).into_drawing_area();
        said(root.draw_text(&safe::line(&chart.title), &font(TITLE, theme::INK, true), (0, px(3))))?;
        for (row, keys) in legend.iter().enumerate() {
            legend::draw(&root, keys, TITLE + 12 + row as u32 * LEGEND_ROW)?;
        }
        let mut at = top;
        for row in &rows {
            row.draw(&root, at)?;
            at += row.height();
        }
        said(root.present())?;
    }
    Ok((with_dashes(inside(&text)), size))
}

/// What is between the tags of the root element.
fn inside(svg: &str) -> &str {
    let from = svg.find('>').map_or(0, |at| at + 1);
    svg[from..].trim_end().trim_end_matches("</svg>").trim()
}

/// Panels beside each other.
struct Row<'a> {
    panels: &'a [Panel],
    /// The lines of their titles.
    titles: Vec<Vec<String>>,
    /// Width of one of them.
    width: u32,
    /// Room for the labels of their vertical axes.
    labels: u32,
    /// Room to the right of their plots.
    right: u32,
}

impl Row<'_> {
    fn of(panels: &[Panel], columns: u32, (labels, right): (u32, u32)) -> Row<'_> {
        let width = (WIDTH - GAP * (columns - 1)) / columns;
        let labels = labels.min(width / 2);
        let titles = panels.iter().map(|panel| title_lines(&panel.title, width - labels)).collect();
        Row { panels, titles, width, labels, right }
    }

    /// Room above the plots, the same for all so that they stand in line.
    fn head(&self) -> u32 {
        let lines = self.titles.iter().map(Vec::len).max().unwrap_or(0) as u32;
        if lines == 0 { 4 } else { lines * TITLE_LINE + 6 }
    }

    fn height(&self) -> u32 {
        let highest = self.panels.iter().map(|panel| panel.height).max().unwrap_or(0);
        // A second line takes nothing from the plot.
        highest + self.head().saturating_sub(TITLE_LINE + 6) + GAP
    }

    fn draw(&self, root: &Area, top: u32) -> Result<(), Error> {
        let size = (self.width * FINE, (self.height() - GAP) * FINE);
        for (at, (panel, title)) in self.panels.iter().zip(&self.titles).enumerate() {
            let left = at as u32 * (self.width + GAP);
            let area = root.clone().shrink((px(left), px(top)), size);
            for (line, words) in title.iter().enumerate() {
                let at = (px(self.labels), px(line as u32 * TITLE_LINE));
                said(area.draw_text(words, &font(WORDS + 1, theme::INK, true), at))?;
            }
            draw_panel(&area, panel, (self.labels, self.right), self.head())?;
        }
        Ok(())
    }
}

/// Room for the labels of a vertical axis.
fn label_width(axis: &Axis) -> u32 {
    let longest = axis.ticks.iter().map(|(_, words)| width_of(words, WORDS)).max().unwrap_or(0);
    longest + 10 + if axis.label.is_empty() { 0 } else { WORDS + 8 }
}

/// Room to the right of a plot: for half a label, and for the ends of intervals that lie beyond the picture.
fn right_margin(panel: &Panel) -> u32 {
    let beyond = |mark: &Mark| match mark {
        Mark::Across { beyond: Some(end), .. } => width_of(end, SMALL) + 10,
        _ => 0,
    };
    panel.marks.iter().map(beyond).max().unwrap_or(0).max(RIGHT)
}

/// The beginning and the end of words that are too long.
fn without_middle(words: &str, most: usize) -> String {
    let chars: Vec<char> = words.chars().collect();
    if chars.len() <= most {
        return words.to_string();
    }
    let end = most.saturating_sub(1) / 2;
    let start = most.saturating_sub(1) - end;
    chars[..start].iter().chain(&['…']).chain(&chars[chars.len() - end..]).collect()
}

/// The mean width of letters, in sizes of the font.
const LETTER: f64 = 0.58;
/// The mean width of heavy letters, likewise.
const HEAVY: f64 = 0.64;

/// An estimate of the width of words in CSS pixels: nobody knows the reader's font.
fn width_of(words: &str, size: u32) -> u32 {
    (words.chars().count() as f64 * f64::from(size) * LETTER).ceil() as u32
}

/// A title as lines that fit into so many CSS pixels; what two lines do not hold is cut.
fn title_lines(title: &str, room: u32) -> Vec<String> {
    let most = ((f64::from(room) / (f64::from(WORDS + 1) * HEAVY)) as usize).max(1);
    let mut lines: Vec<String> =
        textwrap::wrap(&safe::line(title), most).into_iter().map(|line| line.into_owned()).collect();
    lines.retain(|line| !line.is_empty());
    if lines.len() > 2 {
        lines.truncate(2);
        let kept: String = lines[1].chars().take(most - 1).collect();
        lines[1] = format!("{kept}…");
    }
    lines
}

fn draw_panel(area: &Area, panel: &Panel, (labels, right): (u32, u32), head: u32) -> Result<(), Error> {
    let foot = WORDS + 12 + if panel.x.label.is_empty() { 0 } else { WORDS + 2 };
    let mut plot = said(
        ChartBuilder::on(area)
            .margin_top(px(head))
            .margin_right(px(right))
            .x_label_area_size(px(foot))
            .y_label_area_size(px(labels))
            .build_cartesian_2d(coordinate(&panel.x), coordinate(&panel.y)),
    )?;
    let (x_words, y_words) = (speaker(&panel.x, u32::MAX), speaker(&panel.y, labels));
    let mut mesh = plot.configure_mesh();
    mesh.axis_style(style(theme::SHADE, 1.0))
        .bold_line_style(style(theme::GRID, 1.0))
        .label_style(font(WORDS, theme::SOFT, false))
        .axis_desc_style(font(WORDS, theme::SOFT, false))
        .x_label_formatter(&x_words)
        .y_label_formatter(&y_words)
        .max_light_lines(0)
        .set_all_tick_mark_size(px(3));
    if !panel.x.grid {
        mesh.disable_x_mesh();
    }
    if !panel.y.grid {
        mesh.disable_y_mesh();
    }
    if !panel.x.label.is_empty() {
        mesh.x_desc(safe::line(&panel.x.label));
    }
    if !panel.y.label.is_empty() {
        mesh.y_desc(safe::line(&panel.y.label));
    }
    said(mesh.draw())?;
    panel.marks.iter().try_for_each(|mark| marks::draw(&mut plot, panel, mark))
}

/// An axis in the words of the library: coordinates as they are drawn, ticks where the axis has them.
struct Placed {
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Ranged for Placed {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.from) / (self.to - self.from);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { vec![] } else { self.ticks.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

fn coordinate(axis: &Axis) -> Placed {
    let ticks = axis.ticks.iter().map(|(at, _)| axis.place(*at)).collect();
    Placed { from: axis.place(axis.range.0), to: axis.place(axis.range.1), ticks }
}

/// Finds what the tick at a place says, in so many CSS pixels.
fn speaker(axis: &Axis, room: u32) -> impl Fn(&f64) -> String {
    let most = (f64::from(room) / (f64::from(WORDS) * LETTER)) as usize;
    let words = |words: &str| without_middle(&safe::line(words), most);
    let ticks: Vec<(f64, String)> =
        axis.ticks.iter().map(|(at, said)| (axis.place(*at), words(said))).collect();
    move |place| {
        let nearest = ticks.iter().min_by(|a, b| (a.0 - place).abs().total_cmp(&(b.0 - place).abs()));
        nearest.map_or(String::new(), |(_, words)| words.clone())
    }
}

/// Draws one element.
fn one<'b, E>(plot: &mut Plot<'_, 'b>, element: E) -> Result<(), Error>
where
    for<'e> &'e E: PointCollection<'e, (f64, f64)>,
    E: Drawable<SVGBackend<'b>>,
{
    said(plot.draw_series(std::iter::once(element)).map(|_| ()))
}

fn font(size: u32, colour: Colour, strong: bool) -> TextStyle<'static> {
    let weight = if strong { FontStyle::Bold } else { FontStyle::Normal };
    // The library takes a size of its own measure and writes it divided by this.
    let size = f64::from(size * FINE) * 1.24;
    let font = ("sans-serif", size, weight).into_font();
    TextStyle { color: rgb(colour).to_backend_color(), ..TextStyle::from(font) }
}

fn style(colour: Colour, width: f64) -> ShapeStyle {
    rgb(colour).stroke_width((width * f64::from(FINE)).round() as u32)
}

/// What the library knows no way to say is said by widths that no line has, and put right in [`with_dashes`].
const BROKEN: u32 = 1000;
/// Lengths of dashes and gaps in CSS pixels.
const DASHES: [(Dash, &[u32]); 3] =
    [(Dash::Long, &[7, 4]), (Dash::Dots, &[2, 3]), (Dash::Mixed, &[9, 3, 2, 3])];

fn broken(colour: Colour, width: f64, dash: Dash) -> ShapeStyle {
    let kind = DASHES.iter().position(|(kind, _)| *kind == dash).map_or(0, |at| at as u32 + 1);
    let plain = style(colour, width);
    plain.stroke_width(plain.stroke_width + kind * BROKEN)
}

/// Breaks lines that are to be broken. Text cannot look like this: its quotes are escaped.
fn with_dashes(svg: &str) -> String {
    const WIDTH: &str = " stroke-width=\"";
    let mut parts = svg.split(WIDTH);
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (number, rest) = part.split_once('"').unwrap_or((part, ""));
        let width: u32 = number.parse().unwrap_or(1);
        text.push_str(&format!("{WIDTH}{}\"", width % BROKEN));
        if let Some((_, lengths)) = (width / BROKEN).checked_sub(1).and_then(|at| DASHES.get(at as usize)) {
            let lengths: Vec<String> = lengths.iter().map(|length| (length * FINE).to_string()).collect();
            text.push_str(&format!(" stroke-dasharray=\"{}\"", lengths.join(" ")));
        }
        text.push_str(rest);
    }
    text
}

fn rgb(Colour(r, g, b): Colour) -> RGBColor {
    RGBColor(r, g, b)
}

/// CSS pixels in units of the backend.
fn px(pixels: u32) -> i32 {
    (pixels * FINE) as i32
}

fn said<T, E: Display>(result: Result<T, E>) -> Result<T, Error> {
    result.map_err(|error| Error::Chart(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_are_said_as_svg_says_them() {
        let line = |width| format!("<polyline stroke-width=\"{width}\" points=\"1,2\"/>");
        assert_eq!(with_dashes(&line(7)), line(7));
        let width = broken(theme::INK, 1.75, Dash::Long).stroke_width;
        let dashed = "<polyline stroke-width=\"7\" stroke-dasharray=\"28 16\" points=\"1,2\"/>";
        assert_eq!(with_dashes(&line(width)), dashed);
        assert_eq!(with_dashes("<text>a</text>"), "<text>a</text>");
    }

    #[test]
    fn long_titles_are_broken_and_long_labels_lose_their_middle() {
        // Ten letters of twelve pixels, heavy.
        assert_eq!(title_lines("cold cache of a file server", 77), ["cold cache", "of a file…"]);
        assert_eq!(title_lines("", 77), Vec::<String>::new());
        assert_eq!(without_middle("xfs over ext4: serve", 11), "xfs o…serve");
        assert_eq!(without_middle("short", 11), "short");
    }
}
