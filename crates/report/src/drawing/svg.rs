//! A chart as SVG, inside a page or as a separate file: its title, its legend, and its panels row by row.

mod pen;

use crate::drawing::colour::{Colour, theme};
use crate::drawing::{Anchor, Axis, Chart, Dash, Key, Mark, Panel, Sign};
use fsarena_core::safe;
use pen::{Font, LABEL, Paint, Pen, Point, SMALL, n};
use quick_xml::escape::escape;

/// The chart as an element of a page whose style sheet has [`dark`] rules.
pub fn inline(chart: &Chart) -> String {
    // The page has the words of a chart below it, and its figures in tables: a reader would hear them twice.
    element(chart, &panel_summary(chart), "", 0.0)
}

/// The chart as a file. On a dark page it is dark.
pub fn file(chart: &Chart) -> String {
    let dark = format!("<style>@media (prefers-color-scheme:dark){{svg{{{}}}}}</style>", dark());
    let text = element(chart, &chart.about, &format!("{dark}{}", paper()), MARGIN);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}\n")
}

/// Room around a chart that stands alone, in CSS pixels.
const MARGIN: f64 = 14.0;

/// The page under a chart that stands alone.
fn paper() -> String {
    let fill = theme::PAPER.hex();
    format!("<rect x=\"-{MARGIN}\" y=\"-{MARGIN}\" width=\"100%\" height=\"100%\" fill=\"{fill}\"/>")
}

fn element(chart: &Chart, about: &str, before: &str, margin: f64) -> String {
    let mut pen = Pen::default();
    let height = draw_chart(&mut pen, chart).ceil() + 2.0 * margin;
    let width = f64::from(chart.width) + 2.0 * margin;
    let (title, about) = (safe::line(&chart.title), safe::line(about));
    let (id, title, about, body) = (&chart.id, escape(title), escape(about), pen.into_text());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{from} {from} {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-about\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\"><title id=\"{id}-title\">{title}</title>\
         <desc id=\"{id}-about\">{about}</desc>{before}{body}</svg>",
        from = -margin,
    )
}

/// Summarises a chart in a line: its panels and its legend.
fn panel_summary(chart: &Chart) -> String {
    let titles: Vec<&str> =
        chart.panels.iter().map(|panel| panel.title.as_str()).filter(|title| !title.is_empty()).collect();
    let keys: Vec<&str> = chart.legend.iter().map(|key| key.label.as_str()).collect();
    let list =
        |what: &str, names: Vec<&str>| (!names.is_empty()).then(|| format!("{what}: {}.", names.join(", ")));
    let told = [
        list("Panels", titles),
        list("Shown", keys),
        Some("The figures are in the tables of the page.".into()),
    ];
    told.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Rules that turn the colours for a dark page.
pub fn dark() -> String {
    let rule = |(from, to): (Colour, Colour)| {
        let (from, to) = (from.hex(), to.hex());
        format!("[fill=\"{from}\"]{{fill:{to}}}[stroke=\"{from}\"]{{stroke:{to}}}")
    };
    theme::DARK_REPLACEMENTS
        .into_iter()
        .chain(Colour::dark_replacements())
        .filter(|(from, to)| from != to)
        .map(rule)
        .collect()
}

/// The title of a chart.
const TITLE: Font = Font { size: 16.0, bold: true };
/// The title of a panel.
const PANEL_TITLE: Font = Font { size: 12.0, bold: true };
/// Room between panels.
const GAP: f64 = 10.0;
/// Room to the right of a plot, at least.
const RIGHT: f64 = 22.0;
/// Height of a line of a panel's title.
const TITLE_LINE: f64 = 15.0;

/// Draws a chart. Returns its height in CSS pixels.
pub fn draw_chart(pen: &mut Pen, chart: &Chart) -> f64 {
    let whole = f64::from(chart.width);
    let title = TITLE.fit(&safe::line(&chart.title), whole);
    pen.text((0.0, 3.0 + TITLE.size / 2.0), &title, (TITLE, theme::INK), Anchor::Start);
    let mut top = TITLE.size + 12.0;
    for row in legend_rows(&chart.legend, whole) {
        for (left, key) in row {
            draw_key(pen, key, (left, top + KEY_ROW / 2.0));
        }
        top += KEY_ROW;
    }
    top += 6.0;
    // Panels above each other share their left and right edges.
    let columns = chart.columns.max(1);
    let width = (whole - GAP * (columns - 1) as f64) / columns as f64;
    let most = |of: &dyn Fn(&Panel) -> f64| chart.panels.iter().map(of).fold(0.0, f64::max);
    let labels = most(&|panel| label_room(&panel.y)).min(width * 0.45);
    let columns_of = Columns { width, labels, right: most(&right_room) };
    for panels in chart.panels.chunks(columns) {
        top += columns_of.draw(pen, panels, top) + GAP;
    }
    top
}

/// The columns of a chart: width of a panel, and what of it is left and right of its plot.
struct Columns {
    width: f64,
    labels: f64,
    right: f64,
}

impl Columns {
    /// Draws a row of panels. Returns its height.
    fn draw(&self, pen: &mut Pen, panels: &[Panel], top: f64) -> f64 {
        let title = |panel: &Panel| PANEL_TITLE.lines(&safe::line(&panel.title), self.width - self.labels);
        let titles: Vec<Vec<String>> = panels.iter().map(title).collect();
        let lines = titles.iter().map(Vec::len).max().unwrap_or(0) as f64;
        // The plots of a row stand in line. A second line of a title takes nothing from them.
        let head = if lines == 0.0 { 4.0 } else { TITLE_LINE * lines + 6.0 };
        let more = (head - TITLE_LINE - 6.0).max(0.0);
        for (column, (panel, title)) in panels.iter().zip(titles).enumerate() {
            let left = column as f64 * (self.width + GAP);
            for (line, words) in title.iter().enumerate() {
                let at = (left + self.labels, top + PANEL_TITLE.size / 2.0 + TITLE_LINE * line as f64);
                pen.text(at, words, (PANEL_TITLE, theme::INK), Anchor::Start);
            }
            let x = (left + self.labels, left + self.width - self.right);
            let y = (top + more + f64::from(panel.height) - foot_height(panel), top + head);
            Plot { panel, x, y, labels: self.labels }.draw(pen);
        }
        more + panels.iter().map(|panel| f64::from(panel.height)).fold(0.0, f64::max)
    }
}

/// Room for the labels of a vertical axis.
fn label_room(axis: &Axis) -> f64 {
    let longest = axis.ticks.iter().map(|(_, label)| LABEL.width(&safe::line(label))).fold(0.0, f64::max);
    longest + 10.0 + if axis.label.is_empty() { 0.0 } else { LABEL.size + 8.0 }
}

/// Room to the right of a plot: for half of the last label, for figures, and for the ends of intervals that lie beyond the
/// picture.
fn right_room(panel: &Panel) -> f64 {
    let beyond = |mark: &Mark| match mark {
        Mark::HorizontalInterval { beyond: Some(end), .. } => SMALL.width(end) + 8.0,
        Mark::Figure { text, strong, .. } => Font { bold: *strong, ..SMALL }.width(text) + 10.0,
        _ => 0.0,
    };
    let label = panel.x.ticks.last().map_or(0.0, |(_, label)| LABEL.width(label) / 2.0);
    panel.marks.iter().map(beyond).fold(label.max(RIGHT), f64::max)
}

/// Height of a row of keys.
pub const KEY_ROW: f64 = 20.0;
/// Length of a line in a key.
const KEY_LINE: f64 = 26.0;

/// The keys in rows, each with its distance from the left.
pub fn legend_rows(keys: &[Key], room: f64) -> Vec<Vec<(f64, &Key)>> {
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
pub fn draw_key(pen: &mut Pen, key: &Key, (x, y): Point) {
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
        Sign::Line(dash) => pen.line([(x, y), (x + KEY_LINE, y)], line(dash)),
        Sign::Upright(dash) => pen.line([(x + 5.0, y - 8.0), (x + 5.0, y + 8.0)], line(dash)),
        Sign::Point(shape) => pen.point((x + 5.0, y), key.colour, shape),
        Sign::Series(shape, dash) => {
            pen.line([(x, y), (x + KEY_LINE, y)], line(dash));
            pen.point((x + KEY_LINE / 2.0, y), key.colour, shape);
        }
    }
    pen.text((x + sign_width(key.sign), y), &key.label, (LABEL, theme::INK), Anchor::Start);
}

/// Width of what a key looks like, with the room behind it.
fn sign_width(sign: Sign) -> f64 {
    match sign {
        Sign::Line(_) | Sign::Series(..) => KEY_LINE + 5.0,
        _ => 15.0,
    }
}

/// Length of a tick.
const TICK: f64 = 3.0;
/// Room between two labels of a horizontal axis, at least.
const BETWEEN: f64 = 6.0;

/// A panel, and where its axes end in the picture.
pub struct Plot<'a> {
    /// The panel.
    pub panel: &'a Panel,
    /// Left and right.
    pub x: (f64, f64),
    /// Bottom and top.
    pub y: (f64, f64),
    /// Room for the labels of the vertical axis.
    pub labels: f64,
}

/// Height of what is below a plot: ticks, their labels, and the label of the axis.
pub fn foot_height(panel: &Panel) -> f64 {
    if panel.x.label.is_empty() { LABEL.size + 12.0 } else { 2.0 * LABEL.size + 14.0 }
}

impl Plot<'_> {
    /// Where a point of the panel lies in the picture.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let along = |(from, to): (f64, f64), share: f64| from + share * (to - from);
        (along(self.x, self.panel.x.share(x)), along(self.y, self.panel.y.share(y)))
    }

    /// Draws all of it.
    pub fn draw(&self, pen: &mut Pen) {
        self.horizontal_axis(pen);
        self.vertical_axis(pen);
        let ((left, right), (bottom, top)) = (self.x, self.y);
        pen.line([(left, top), (left, bottom), (right, bottom)], Paint::Line(theme::SHADE, 1.0, Dash::Solid));
        for mark in &self.panel.marks {
            draw_mark(pen, self, mark);
        }
    }

    /// Ticks, grid and labels below the plot. A label that would touch the one before it is left out.
    fn horizontal_axis(&self, pen: &mut Pen) {
        let (axis, (bottom, top)) = (&self.panel.x, self.y);
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &axis.ticks {
            let x = self.at((*value, self.panel.y.range.0)).0;
            if axis.grid {
                pen.line([(x, bottom), (x, top)], Paint::Line(theme::GRID, 1.0, Dash::Solid));
            }
            pen.line([(x, bottom), (x, bottom + TICK)], Paint::Line(theme::SHADE, 1.0, Dash::Solid));
            let half = LABEL.width(label) / 2.0;
            if x - half >= free {
                pen.text((x, bottom + TICK + 9.0), label, (LABEL, theme::SOFT), Anchor::Middle);
                free = x + half + BETWEEN;
            }
        }
        if !axis.label.is_empty() {
            let middle = (self.x.0 + self.x.1) / 2.0;
            let label = LABEL.fit(&axis.label, self.x.1 - self.x.0 + 2.0 * self.labels);
            pen.text((middle, bottom + TICK + 28.0), &label, (LABEL, theme::SOFT), Anchor::Middle);
        }
    }

    /// Ticks, grid and labels left of the plot.
    fn vertical_axis(&self, pen: &mut Pen) {
        let (axis, (left, right)) = (&self.panel.y, self.x);
        let named = if axis.label.is_empty() { 0.0 } else { LABEL.size + 8.0 };
        for (value, label) in &axis.ticks {
            let y = self.at((self.panel.x.range.0, *value)).1;
            if axis.grid {
                pen.line([(left, y), (right, y)], Paint::Line(theme::GRID, 1.0, Dash::Solid));
            }
            pen.line([(left - TICK, y), (left, y)], Paint::Line(theme::SHADE, 1.0, Dash::Solid));
            let label = LABEL.fit(&safe::line(label), self.labels - named - TICK - 3.0);
            pen.text((left - TICK - 3.0, y), &label, (LABEL, theme::SOFT), Anchor::End);
        }
        if named > 0.0 {
            let at = (left - self.labels + LABEL.size / 2.0 + 1.0, (self.y.0 + self.y.1) / 2.0);
            let label = LABEL.fit(&axis.label, self.y.0 - self.y.1 + 30.0);
            pen.upright_text(at, &label, (LABEL, theme::SOFT));
        }
    }
}

/// Draws one mark.
fn draw_mark(pen: &mut Pen, plot: &Plot, mark: &Mark) {
    let font = |strong: bool| Font { bold: strong, ..SMALL };
    match mark {
        Mark::Box { x, y, colour, opacity } => {
            pen.rectangle(plot.at((x.0, y.0)), plot.at((x.1, y.1)), Paint::Fill(*colour, *opacity));
        }
        Mark::Frame { x, y, colour } => {
            pen.rectangle(plot.at((x.0, y.0)), plot.at((x.1, y.1)), Paint::Line(*colour, 2.0, Dash::Solid));
        }
        Mark::Line { points, colour, width, dash } => {
            pen.line(points.iter().copied().map(|point| plot.at(point)), Paint::Line(*colour, *width, *dash));
        }
        Mark::Band { points, colour } => {
            let low = points.iter().map(|(x, low, _)| plot.at((*x, *low)));
            let high = points.iter().rev().map(|(x, _, high)| plot.at((*x, *high)));
            pen.line(low.chain(high), Paint::Fill(*colour, 0.2));
        }
        Mark::Dot { at: point, colour, shape } => pen.point(plot.at(*point), *colour, *shape),
        Mark::HorizontalInterval { x, y, beyond } => draw_interval(pen, plot, *x, *y, beyond.as_deref()),
        Mark::VerticalInterval { x, y, colour } => {
            let ((x, low), (_, high)) = (plot.at((*x, y.0)), plot.at((*x, y.1)));
            let (left, low, high) = (n(x - 3.0), n(low), n(high));
            let path = format_args!("M{left},{low}h6m-3,0V{high}m-3,0h6").to_string();
            pen.path(path, Paint::Line(*colour, 1.0, Dash::Solid));
        }
        Mark::Words { at: point, shift, text, colour, anchor, strong } => {
            let (x, y) = plot.at(*point);
            let point = (x + f64::from(shift.0), y + f64::from(shift.1));
            pen.text(point, text, (font(*strong), *colour), *anchor);
        }
        Mark::Figure { y, text, colour, strong } => {
            let (right, y) = plot.at((plot.panel.x.range.1, *y));
            pen.text((right + 6.0, y), text, (font(*strong), *colour), Anchor::Start);
        }
    }
}

/// An interval with an upright line at each end. One that ends beyond the picture has an arrow at the end of the axis,
/// and its end in words behind it. It lies over bars of any colour, so it has a rim of the colour of the page.
fn draw_interval(pen: &mut Pen, plot: &Plot, (low, high): (f64, f64), y: f64, beyond: Option<&str>) {
    let high = if beyond.is_some() { plot.panel.x.range.1 } else { high };
    let ((low, y), (high, _)) = (plot.at((low, y)), plot.at((high, y)));
    let (left, top, right) = (n(low), n(y - 3.0), n(high));
    let end = if beyond.is_some() { "m-4,-3l4,3l-4,3" } else { "m0,-3v6" };
    let path = format!("M{left},{top}v6m0,-3H{right}{end}");
    pen.path(&path, Paint::Line(theme::PAPER, 2.75, Dash::Solid));
    pen.path(&path, Paint::Line(theme::INK, 1.25, Dash::Solid));
    if let Some(words) = beyond {
        pen.text((high + 4.0, y), words, (SMALL, theme::INK), Anchor::Start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::colour::BLUE;

    fn chart(words: &str) -> Chart {
        let names = [words.to_string()];
        let bar = Mark::Box { x: (0.0, 2.0), y: (-0.9, -0.1), colour: BLUE, opacity: 1.0 };
        let interval = Mark::HorizontalInterval { x: (1.5, 5.0), y: -0.5, beyond: Some(words.into()) };
        let panel = Panel {
            title: words.into(),
            x: Axis::from_zero(words, 4.0, fsarena_core::sample::Unit::Seconds),
            y: Axis::names(&names),
            marks: vec![bar, interval],
            height: 100,
        };
        let key = Key { label: words.into(), colour: BLUE, sign: Sign::Area(1.0) };
        Chart { panels: vec![panel], legend: vec![key], ..Chart::new("a", words, words) }
    }

    #[test]
    fn text_is_text_and_never_markup() {
        let hostile = "<script>alert('1')</script>&\"\u{1b}[2J\u{202e}";
        for svg in [inline(&chart(hostile)), file(&chart(hostile))] {
            assert!(
                !svg.contains("<script") && !svg.contains('\u{1b}') && !svg.contains('\u{202e}'),
                "{svg}"
            );
            assert!(svg.contains("&lt;script&gt;"), "{svg}");
            let mut reader = quick_xml::Reader::from_str(&svg);
            let names = std::iter::from_fn(|| match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Eof => None,
                event => Some(event.into_owned()),
            });
            assert!(names.count() > 20);
        }
    }

    #[test]
    fn a_page_does_not_say_its_caption_twice() {
        let mut chart = chart("untar");
        chart.about = "What is to be seen.".into();
        assert!(file(&chart).contains("What is to be seen."));
        let inline = inline(&chart);
        assert!(!inline.contains("What is to be seen.") && inline.contains("<title"), "{inline}");
        assert!(inline.contains("Panels: untar. Shown: untar."), "{inline}");
    }

    #[test]
    fn a_file_is_dark_on_dark_pages_and_a_page_has_its_own_sheet() {
        assert!(file(&chart("x")).contains("prefers-color-scheme"));
        assert!(!inline(&chart("x")).contains("<style"));
    }
}
