//! A chart as SVG: inside a page, or as a separate file.

mod layout;
mod legend;
mod panel;
mod pen;

use crate::drawing::Chart;
use crate::drawing::colour::{Colour, theme};
use fsarena_core::safe;
use pen::Pen;
use quick_xml::escape::escape;

/// The chart as an element of a page whose style sheet has [`dark`] rules.
pub fn inline(chart: &Chart) -> String {
    // The page has the words of a chart below it, and its figures in tables: a reader would hear them twice.
    element(chart, &panels(chart), "", 0.0)
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
    let height = layout::draw(&mut pen, chart).ceil() + 2.0 * margin;
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

/// What a chart is of, in a line: its panels, or its axes where it has one.
fn panels(chart: &Chart) -> String {
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
    theme::TURNED.into_iter().chain(Colour::turned()).filter(|(from, to)| from != to).map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::{Axis, Key, Mark, Panel, Sign, colour::BLUE};

    fn chart(words: &str) -> Chart {
        let names = [words.to_string()];
        let bar = Mark::Box { x: (0.0, 2.0), y: (-0.9, -0.1), colour: BLUE, opacity: 1.0 };
        let interval = Mark::Across { x: (1.5, 5.0), y: -0.5, beyond: Some(words.into()) };
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
