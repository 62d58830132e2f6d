//! Draws a chart as SVG, inside an HTML page or as a separate file: its title, its legend, and its panels row by row.

use crate::drawing::colour::{Colour, theme};
use crate::drawing::pen::{Font, LABEL_FONT, PLOT_FONT, Paint, Pen, PixelPoint, round_coordinate};
use crate::drawing::{Anchor, Axis, Chart, Dash, KeySign, LegendKey, Mark, Panel};
use fsarena_core::escape;
use quick_xml::escape::escape as escape_xml;

/// Returns the chart as an `<svg>` element inside an HTML page. The style sheet of the page must contain the rules of
/// [`dark_page_rules`].
pub fn inline_svg(chart: &Chart) -> String {
    // The page shows the caption below the chart. A screen reader would read the caption twice if it were also the description.
    svg_element(chart, &summarise_panels(chart), "", 0.0)
}

/// Returns the chart as the text of an SVG file, which is dark if the viewer prefers dark colours.
pub fn svg_file_text(chart: &Chart) -> String {
    let (rules, paper) = (dark_page_rules(), theme::PAPER.hex());
    let underlay = format!(
        "<style>@media (prefers-color-scheme:dark){{svg{{{rules}}}}}</style>\
         <rect x=\"-{FILE_MARGIN}\" y=\"-{FILE_MARGIN}\" width=\"100%\" height=\"100%\" fill=\"{paper}\"/>"
    );
    let text = svg_element(chart, &chart.caption, &underlay, FILE_MARGIN);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}\n")
}

/// Room around a chart in a file, in CSS pixels.
const FILE_MARGIN: f64 = 14.0;

/// The `<svg>` element of a chart: `description` is for screen readers, `underlay` is markup drawn below the
/// chart, `margin` is the room around it.
fn svg_element(chart: &Chart, description: &str, underlay: &str, margin: f64) -> String {
    let mut pen = Pen::default();
    let height = draw_chart(&mut pen, chart).ceil() + 2.0 * margin;
    let width = f64::from(chart.width) + 2.0 * margin;
    let (title, description) = (escape::line(&chart.title), escape::line(description));
    let (id, title, description, body) = (&chart.id, escape_xml(title), escape_xml(description), pen.into_svg());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{origin} {origin} {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-about\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\"><title id=\"{id}-title\">{title}</title>\
         <desc id=\"{id}-about\">{description}</desc>{underlay}{body}</svg>",
        origin = -margin,
    )
}

/// Describes a chart for screen readers: the titles of its panels and the keys of its legend.
fn summarise_panels(chart: &Chart) -> String {
    let titles: Vec<&str> =
        chart.panels.iter().map(|panel| panel.title.as_str()).filter(|title| !title.is_empty()).collect();
    let keys: Vec<&str> = chart.legend.iter().map(|key| key.label.as_str()).collect();
    let mut sentences = vec![];
    for (heading, names) in [("Panels", titles), ("Shown", keys)] {
        if !names.is_empty() {
            sentences.push(format!("{heading}: {}.", names.join(", ")));
        }
    }
    sentences.push("The figures are in the tables of the page.".into());
    sentences.join(" ")
}

/// The CSS rules that replace the colours of charts on a dark page.
pub fn dark_page_rules() -> String {
    let rule = |(light, dark): (Colour, Colour)| {
        let (light, dark) = (light.hex(), dark.hex());
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    };
    theme::DARK_REPLACEMENTS
        .into_iter()
        .chain(Colour::series_dark_replacements())
        .filter(|(light, dark)| light != dark)
        .map(rule)
        .collect()
}

/// The font of the title of a chart.
const TITLE_FONT: Font = Font { size: 16.0, bold: true };
/// The font of the title of a panel.
const PANEL_TITLE_FONT: Font = Font { size: 12.0, bold: true };
/// Gap between two panels, in CSS pixels.
const PANEL_GAP: f64 = 10.0;
/// Smallest margin right of a plot, in CSS pixels.
const MIN_RIGHT_MARGIN: f64 = 22.0;
/// Height of a line of a panel's title, in CSS pixels.
const TITLE_LINE_HEIGHT: f64 = 15.0;

/// Draws a chart. Returns its height in CSS pixels.
fn draw_chart(pen: &mut Pen, chart: &Chart) -> f64 {
    let chart_width = f64::from(chart.width);
    let title = TITLE_FONT.shorten(&escape::line(&chart.title), chart_width);
    pen.draw_text((0.0, 3.0 + TITLE_FONT.size / 2.0), &title, (TITLE_FONT, theme::INK), Anchor::Start);
    let mut top = TITLE_FONT.size + 12.0;
    for row in legend_rows(&chart.legend, chart_width) {
        for (left, key) in row {
            draw_key(pen, key, (left, top + KEY_ROW_HEIGHT / 2.0));
        }
        top += KEY_ROW_HEIGHT;
    }
    top += 6.0;
    let columns = chart.columns.max(1);
    let panel_width = (chart_width - PANEL_GAP * (columns - 1) as f64) / columns as f64;
    // All panels have the same room for labels, so that the plots of a column have the same edges.
    let label_width = chart.panels.iter().map(|panel| label_width(&panel.y_axis)).fold(0.0, f64::max);
    let right_margin = chart.panels.iter().map(right_margin).fold(0.0, f64::max);
    let layout = PanelLayout { panel_width, label_width: label_width.min(panel_width * 0.45), right_margin };
    for panels in chart.panels.chunks(columns) {
        top += layout.draw_row(pen, panels, top) + PANEL_GAP;
    }
    top
}

/// The widths that all panels of a chart share, in CSS pixels.
struct PanelLayout {
    /// Width of a panel.
    panel_width: f64,
    /// Room left of the plot, for the labels of the vertical axis.
    label_width: f64,
    /// Room right of the plot.
    right_margin: f64,
}

impl PanelLayout {
    /// Draws a row of panels. Returns its height in CSS pixels.
    fn draw_row(&self, pen: &mut Pen, panels: &[Panel], top: f64) -> f64 {
        let title = |panel: &Panel| {
            PANEL_TITLE_FONT.break_lines(&escape::line(&panel.title), self.panel_width - self.label_width)
        };
        let titles: Vec<Vec<String>> = panels.iter().map(title).collect();
        let lines = titles.iter().map(Vec::len).max().unwrap_or(0) as f64;
        // All plots of a row start below the longest title. A title of several lines makes the row higher,
        // not the plots smaller.
        let title_height = if lines == 0.0 { 4.0 } else { TITLE_LINE_HEIGHT * lines + 6.0 };
        let extra_height = (title_height - TITLE_LINE_HEIGHT - 6.0).max(0.0);
        for (column, (panel, title)) in panels.iter().zip(titles).enumerate() {
            let left = column as f64 * (self.panel_width + PANEL_GAP);
            for (number, line) in title.iter().enumerate() {
                let y = top + PANEL_TITLE_FONT.size / 2.0 + TITLE_LINE_HEIGHT * number as f64;
                pen.draw_text((left + self.label_width, y), line, (PANEL_TITLE_FONT, theme::INK), Anchor::Start);
            }
            let x = (left + self.label_width, left + self.panel_width - self.right_margin);
            let y = (top + extra_height + f64::from(panel.height) - horizontal_axis_height(panel), top + title_height);
            Plot { panel, x, y, label_width: self.label_width }.draw(pen);
        }
        extra_height + panels.iter().map(|panel| f64::from(panel.height)).fold(0.0, f64::max)
    }
}

/// Room left of a plot for the labels of its vertical axis, in CSS pixels.
fn label_width(axis: &Axis) -> f64 {
    let longest = axis.ticks.iter().map(|(_, label)| LABEL_FONT.text_width(&escape::line(label))).fold(0.0, f64::max);
    longest + 10.0 + if axis.label.is_empty() { 0.0 } else { LABEL_FONT.size + 8.0 }
}

/// Room right of a plot, in CSS pixels: for half of the last label of the horizontal axis, for figures, and for the text of
/// intervals that end beyond the plot.
fn right_margin(panel: &Panel) -> f64 {
    let width_right_of_plot = |mark: &Mark| match mark {
        Mark::HorizontalInterval { clipped_end: Some(end), .. } => PLOT_FONT.text_width(end) + 8.0,
        Mark::ValueText { text, bold, .. } => Font { bold: *bold, ..PLOT_FONT }.text_width(text) + 10.0,
        _ => 0.0,
    };
    let label = panel.x_axis.ticks.last().map_or(0.0, |(_, label)| LABEL_FONT.text_width(label) / 2.0);
    panel.marks.iter().map(width_right_of_plot).fold(label.max(MIN_RIGHT_MARGIN), f64::max)
}

/// Height of a row of the legend, in CSS pixels.
const KEY_ROW_HEIGHT: f64 = 20.0;
/// Length of a line in a legend key, in CSS pixels.
const KEY_LINE_LENGTH: f64 = 26.0;

/// Arranges the keys of a legend in rows of at most `max_width` CSS pixels. Each key comes with its distance
/// from the left.
fn legend_rows(keys: &[LegendKey], max_width: f64) -> Vec<Vec<(f64, &LegendKey)>> {
    let mut rows: Vec<Vec<(f64, &LegendKey)>> = vec![];
    let mut left = 0.0;
    for key in keys {
        let width = sign_width(key.sign) + LABEL_FONT.text_width(&key.label) + 20.0;
        match rows.last_mut() {
            Some(row) if left + width <= max_width => row.push((left, key)),
            _ => {
                left = 0.0;
                rows.push(vec![(left, key)]);
            }
        }
        left += width;
    }
    rows
}

/// Draws a legend key: its sign and its label. The point is the left end of the sign, in the middle of the row's height.
fn draw_key(pen: &mut Pen, key: &LegendKey, (x, y): PixelPoint) {
    let line = |dash| Paint::Stroke(key.colour, 2.0, dash);
    let draw_area = |pen: &mut Pen, paint| pen.draw_rectangle((x, y - 5.0), (x + 10.0, y + 5.0), paint);
    match key.sign {
        KeySign::Area(opacity) => {
            draw_area(pen, Paint::Fill(key.colour, opacity));
            // The edge makes an area visible that is as light as the page.
            draw_area(pen, Paint::Stroke(theme::MUTED, 0.75, Dash::Solid));
        }
        KeySign::Frame => {
            // In the chart, frames surround the cells of a heat map.
            draw_area(pen, Paint::Fill(Colour::on_heat_scale(0.0), 1.0));
            pen.draw_rectangle((x + 2.0, y - 3.0), (x + 8.0, y + 3.0), Paint::Stroke(key.colour, 2.0, Dash::Solid));
        }
        KeySign::Line(dash) => pen.draw_polyline([(x, y), (x + KEY_LINE_LENGTH, y)], line(dash)),
        KeySign::VerticalLine(dash) => pen.draw_polyline([(x + 5.0, y - 8.0), (x + 5.0, y + 8.0)], line(dash)),
        KeySign::Point(shape) => pen.draw_point((x + 5.0, y), key.colour, shape),
        KeySign::Series(shape, dash) => {
            pen.draw_polyline([(x, y), (x + KEY_LINE_LENGTH, y)], line(dash));
            pen.draw_point((x + KEY_LINE_LENGTH / 2.0, y), key.colour, shape);
        }
    }
    pen.draw_text((x + sign_width(key.sign), y), &key.label, (LABEL_FONT, theme::INK), Anchor::Start);
}

/// Width of the sign of a key and the gap behind it, in CSS pixels.
fn sign_width(sign: KeySign) -> f64 {
    match sign {
        KeySign::Line(_) | KeySign::Series(..) => KEY_LINE_LENGTH + 5.0,
        _ => 15.0,
    }
}

/// Length of a tick, in CSS pixels.
const TICK_LENGTH: f64 = 3.0;
/// Smallest gap between two labels of a horizontal axis, in CSS pixels.
const LABEL_GAP: f64 = 6.0;

/// The plot of a panel: the area between its axes, and its place in the chart in CSS pixels.
struct Plot<'a> {
    panel: &'a Panel,
    /// Left and right edge.
    x: (f64, f64),
    /// Bottom and top edge.
    y: (f64, f64),
    /// Room left of the plot, for the labels of the vertical axis.
    label_width: f64,
}

/// Height of the horizontal axis below a plot, in CSS pixels: ticks, their labels, and the label of the axis.
fn horizontal_axis_height(panel: &Panel) -> f64 {
    if panel.x_axis.label.is_empty() { LABEL_FONT.size + 12.0 } else { 2.0 * LABEL_FONT.size + 14.0 }
}

impl Plot<'_> {
    /// Converts a point from the coordinates of the axes to CSS pixels.
    fn to_pixels(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let ((left, right), (bottom, top)) = (self.x, self.y);
        let (x_fraction, y_fraction) = (self.panel.x_axis.fraction_at(x), self.panel.y_axis.fraction_at(y));
        (left + x_fraction * (right - left), bottom + y_fraction * (top - bottom))
    }

    /// Draws the axes, their labels, and the marks.
    fn draw(&self, pen: &mut Pen) {
        self.draw_horizontal_axis(pen);
        self.draw_vertical_axis(pen);
        let ((left, right), (bottom, top)) = (self.x, self.y);
        pen.draw_polyline([(left, top), (left, bottom), (right, bottom)], Paint::Stroke(theme::GREY, 1.0, Dash::Solid));
        for mark in &self.panel.marks {
            draw_mark(pen, self, mark);
        }
    }

    /// Draws ticks, grid lines and labels of the horizontal axis, without labels that would touch the previous one.
    fn draw_horizontal_axis(&self, pen: &mut Pen) {
        let (axis, (bottom, top)) = (&self.panel.x_axis, self.y);
        let mut labels_end = f64::NEG_INFINITY;
        for (value, label) in &axis.ticks {
            let x = self.to_pixels((*value, self.panel.y_axis.range.0)).0;
            if axis.has_grid_lines {
                pen.draw_polyline([(x, bottom), (x, top)], Paint::Stroke(theme::GRID, 1.0, Dash::Solid));
            }
            pen.draw_polyline([(x, bottom), (x, bottom + TICK_LENGTH)], Paint::Stroke(theme::GREY, 1.0, Dash::Solid));
            let half_width = LABEL_FONT.text_width(label) / 2.0;
            if x - half_width >= labels_end + LABEL_GAP {
                pen.draw_text((x, bottom + TICK_LENGTH + 9.0), label, (LABEL_FONT, theme::MUTED), Anchor::Middle);
                labels_end = x + half_width;
            }
        }
        if !axis.label.is_empty() {
            let middle = (self.x.0 + self.x.1) / 2.0;
            let label = LABEL_FONT.shorten(&axis.label, self.x.1 - self.x.0 + 2.0 * self.label_width);
            pen.draw_text((middle, bottom + TICK_LENGTH + 28.0), &label, (LABEL_FONT, theme::MUTED), Anchor::Middle);
        }
    }

    /// Draws ticks, grid lines and labels of the vertical axis.
    fn draw_vertical_axis(&self, pen: &mut Pen) {
        let (axis, (left, right)) = (&self.panel.y_axis, self.x);
        let axis_label_width = if axis.label.is_empty() { 0.0 } else { LABEL_FONT.size + 8.0 };
        for (value, label) in &axis.ticks {
            let y = self.to_pixels((self.panel.x_axis.range.0, *value)).1;
            if axis.has_grid_lines {
                pen.draw_polyline([(left, y), (right, y)], Paint::Stroke(theme::GRID, 1.0, Dash::Solid));
            }
            pen.draw_polyline([(left - TICK_LENGTH, y), (left, y)], Paint::Stroke(theme::GREY, 1.0, Dash::Solid));
            let label =
                LABEL_FONT.shorten(&escape::line(label), self.label_width - axis_label_width - TICK_LENGTH - 3.0);
            pen.draw_text((left - TICK_LENGTH - 3.0, y), &label, (LABEL_FONT, theme::MUTED), Anchor::End);
        }
        if axis_label_width > 0.0 {
            let middle = (left - self.label_width + LABEL_FONT.size / 2.0 + 1.0, (self.y.0 + self.y.1) / 2.0);
            let label = LABEL_FONT.shorten(&axis.label, self.y.0 - self.y.1 + 30.0);
            pen.draw_vertical_text(middle, &label, (LABEL_FONT, theme::MUTED));
        }
    }
}

/// Draws one mark.
fn draw_mark(pen: &mut Pen, plot: &Plot, mark: &Mark) {
    let font = |bold: bool| Font { bold, ..PLOT_FONT };
    match mark {
        Mark::Box { x, y, colour, opacity } => draw_box(pen, plot, *x, *y, Paint::Fill(*colour, *opacity)),
        Mark::Frame { x, y, colour } => draw_box(pen, plot, *x, *y, Paint::Stroke(*colour, 2.0, Dash::Solid)),
        Mark::Line { points, colour, width, dash } => {
            let points = points.iter().map(|point| plot.to_pixels(*point));
            pen.draw_polyline(points, Paint::Stroke(*colour, *width, *dash));
        }
        Mark::Band { points, colour } => {
            let low = points.iter().map(|(x, low, _)| plot.to_pixels((*x, *low)));
            let high = points.iter().rev().map(|(x, _, high)| plot.to_pixels((*x, *high)));
            pen.draw_polyline(low.chain(high), Paint::Fill(*colour, 0.2));
        }
        Mark::Dot { point, colour, shape } => pen.draw_point(plot.to_pixels(*point), *colour, *shape),
        Mark::HorizontalInterval { x, y, clipped_end } => draw_interval(pen, plot, *x, *y, clipped_end.as_deref()),
        Mark::VerticalInterval { x, y, colour } => {
            let ((x, low), (_, high)) = (plot.to_pixels((*x, y.0)), plot.to_pixels((*x, y.1)));
            let (left, low, high) = (round_coordinate(x - 3.0), round_coordinate(low), round_coordinate(high));
            let path = format_args!("M{left},{low}h6m-3,0V{high}m-3,0h6").to_string();
            pen.draw_path(path, Paint::Stroke(*colour, 1.0, Dash::Solid));
        }
        Mark::Text { point, offset, text, colour, anchor, bold } => {
            let (x, y) = plot.to_pixels(*point);
            let point = (x + f64::from(offset.0), y + f64::from(offset.1));
            pen.draw_text(point, text, (font(*bold), *colour), *anchor);
        }
        Mark::ValueText { y, text, colour, bold } => {
            let (right, y) = plot.to_pixels((plot.panel.x_axis.range.1, *y));
            pen.draw_text((right + 6.0, y), text, (font(*bold), *colour), Anchor::Start);
        }
    }
}

/// Draws a rectangle, given by its edges in the coordinates of the axes.
fn draw_box(pen: &mut Pen, plot: &Plot, x: (f64, f64), y: (f64, f64), paint: Paint) {
    pen.draw_rectangle(plot.to_pixels((x.0, y.0)), plot.to_pixels((x.1, y.1)), paint);
}

/// Draws a horizontal interval with an upright line at each end. If the interval ends beyond the plot, `clipped_end` is the text
/// of its end. The line then ends in an arrow at the edge of the plot, followed by this text.
fn draw_interval(pen: &mut Pen, plot: &Plot, (low, high): (f64, f64), y: f64, clipped_end: Option<&str>) {
    let high = if clipped_end.is_some() { plot.panel.x_axis.range.1 } else { high };
    let ((low, y), (high, _)) = (plot.to_pixels((low, y)), plot.to_pixels((high, y)));
    let (left, top, right) = (round_coordinate(low), round_coordinate(y - 3.0), round_coordinate(high));
    let end = if clipped_end.is_some() { "m-4,-3l4,3l-4,3" } else { "m0,-3v6" };
    let path = format!("M{left},{top}v6m0,-3H{right}{end}");
    // A rim in the colour of the page separates the line from a bar of any colour.
    pen.draw_path(&path, Paint::Stroke(theme::PAPER, 2.75, Dash::Solid));
    pen.draw_path(&path, Paint::Stroke(theme::INK, 1.25, Dash::Solid));
    if let Some(end_text) = clipped_end {
        pen.draw_text((high + 4.0, y), end_text, (PLOT_FONT, theme::INK), Anchor::Start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::colour::BLUE;

    fn chart(text: &str) -> Chart {
        let names = [text.to_string()];
        let bar = Mark::Box { x: (0.0, 2.0), y: (-0.9, -0.1), colour: BLUE, opacity: 1.0 };
        let interval = Mark::HorizontalInterval { x: (1.5, 5.0), y: -0.5, clipped_end: Some(text.into()) };
        let panel = Panel {
            title: text.into(),
            x_axis: Axis::from_zero(text, 4.0, fsarena_core::sample::Unit::Seconds),
            y_axis: Axis::of_rows(&names),
            marks: vec![bar, interval],
            height: 100,
        };
        let key = LegendKey { label: text.into(), colour: BLUE, sign: KeySign::Area(1.0) };
        Chart { panels: vec![panel], legend: vec![key], ..Chart::new("a", text, text) }
    }

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "<script>alert('1')</script>&\"\u{1b}[2J\u{202e}";
        for svg in [inline_svg(&chart(hostile)), svg_file_text(&chart(hostile))] {
            assert!(!svg.contains("<script") && !svg.contains('\u{1b}') && !svg.contains('\u{202e}'), "{svg}");
            assert!(svg.contains("&lt;script&gt;"), "{svg}");
            let mut reader = quick_xml::Reader::from_str(&svg);
            let events = std::iter::from_fn(|| match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Eof => None,
                event => Some(event.into_owned()),
            });
            assert!(events.count() > 20);
        }
    }

    #[test]
    fn an_inline_chart_lists_its_panels_instead_of_its_caption() {
        let mut chart = chart("untar");
        chart.caption = "What is to be seen.".into();
        assert!(svg_file_text(&chart).contains("What is to be seen."));
        let inline = inline_svg(&chart);
        assert!(!inline.contains("What is to be seen.") && inline.contains("<title"), "{inline}");
        assert!(inline.contains("Panels: untar. Shown: untar."), "{inline}");
    }

    #[test]
    fn only_a_file_has_its_own_style_sheet_for_dark_pages() {
        assert!(svg_file_text(&chart("x")).contains("prefers-color-scheme"));
        assert!(!inline_svg(&chart("x")).contains("<style"));
    }
}
