//! Renders a document as one HTML file, which loads nothing else, and in which no data can become markup or script.
//!
//! The template engine escapes all text, and the SVG renderer escapes the text of charts. Samples and commands are in a block of
//! JSON, which the only script of the page reads. A Content-Security-Policy allows only this script and the style sheet, by
//! their hashes.

use crate::document::{Chapter, Document, Part, Table};
use crate::drawing::{Chart, PHONE_WIDTH, ValueScale, svg};
use crate::{document::insert_no_break_spaces, error::Error, escape};
use askama::Template;
use base64::{Engine, engine::general_purpose::STANDARD};
use fsarena_stats::verdict::Outcome;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// The style sheet of every page, without the rules for charts on dark pages.
const STYLE: &str = include_str!("../assets/report.css");
/// The script of every page, for servers that deliver it separately. It reads the data of a report, or [`NO_SAMPLES`], from
/// the element `#run`.
pub const SCRIPT: &str = include_str!("../assets/report.js");

/// The data that the script reads on pages without samples.
pub const NO_SAMPLES: &str =
    r#"{"tasks":[],"variants":[],"cells":[],"metrics":[],"texts":[],"log":[],"remark":"","values":[]}"#;

/// The style sheet of every page.
pub fn style_sheet() -> String {
    format!("{STYLE}{}", dark_chart_rules())
}

/// The Content-Security-Policy of a page, as a header and in the head of the page: it allows only the page's script and
/// style sheet.
pub fn content_security_policy() -> String {
    let (style, script) = (csp_hash(&style_sheet()), csp_hash(SCRIPT));
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// The source expression by which a Content-Security-Policy allows an inline script or style sheet with this text.
fn csp_hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// The CSS rules of charts on dark pages: if the system prefers dark colours, or if the reader chose them on the page.
fn dark_chart_rules() -> String {
    let rules_below = |root: &str| format!("{root}{{.picture{{{}}}}}", svg::dark_page_rules());
    format!(
        "@media screen and (prefers-color-scheme:dark){{{}}}@media screen{{{}}}",
        rules_below(":root:not([data-theme=light])"),
        rules_below(":root[data-theme=dark]")
    )
}

/// Renders a document without samples as a page.
///
/// # Errors
/// If a template fails.
pub fn page_of_document(document: &Document) -> Result<String, Error> {
    let generator = format!("fsarena {}", env!("CARGO_PKG_VERSION"));
    render_page(document, PageExtras { generator, plan: None, data: NO_SAMPLES.into() }, "")
}

/// The parts of a page besides its document.
pub(crate) struct PageExtras {
    /// The name and version of the program that made the page.
    pub generator: String,
    /// The plan that a reader can save, in base64.
    pub plan: Option<String>,
    /// The JSON that the script reads.
    pub data: Cow<'static, str>,
}

/// Renders a document as a page. `samples_caption` is the caption of its table of samples.
pub(crate) fn render_page(document: &Document, extras: PageExtras, samples_caption: &str) -> Result<String, Error> {
    let (title, lead, sections) = split_into_sections(document);
    let lead = BodyTemplate { sections: vec![lead], samples_caption }.render()?;
    let chapters = sections.iter().filter(|section| !section.id.is_empty());
    let navigation = chapters.map(|section| (section.id, section.title)).collect();
    let body = BodyTemplate { sections, samples_caption }.render()?;
    Ok(PageTemplate { title, lead, navigation, body, extras }.render()?)
}

/// A rendered document for a page of another program, which must use the [`style_sheet`].
pub struct Fragment {
    /// The title of the document as plain text, not escaped.
    pub title: String,
    /// The rest of the document as HTML, with all text escaped.
    pub html: String,
}

/// Renders a document for the `main` element of another page.
///
/// # Errors
/// If a template fails.
pub fn render_fragment(document: &Document) -> Result<Fragment, Error> {
    let (title, lead, mut sections) = split_into_sections(document);
    sections.insert(0, lead);
    Ok(Fragment { title, html: BodyTemplate { sections, samples_caption: "" }.render()? })
}

/// The template of a whole page.
#[derive(Template)]
#[template(path = "page.html")]
struct PageTemplate {
    title: String,
    /// The introduction below the title, as HTML.
    lead: String,
    /// The id and the title of each chapter.
    navigation: Vec<(&'static str, &'static str)>,
    /// The sections, as HTML.
    body: String,
    extras: PageExtras,
}

/// The template of the sections of a page.
#[derive(Template)]
#[template(path = "body.html")]
struct BodyTemplate<'a> {
    sections: Vec<Section<'a>>,
    samples_caption: &'a str,
}

/// A section of a page: a chapter, or parts outside chapters, which have no id and are not in the navigation.
#[derive(Default)]
struct Section<'a> {
    id: &'static str,
    title: &'static str,
    parts: Vec<PartBelowHeading<'a>>,
    /// Whether the section has charts both in per cent and in units, between which a reader can switch.
    has_both_scales: bool,
}

/// A part of a document, and the heading above it, which names a table for screen readers.
struct PartBelowHeading<'a> {
    part: &'a Part,
    heading: &'a str,
}

/// Splits a document into its title, the introductory parts below the title, and sections with all other parts.
fn split_into_sections(document: &Document) -> (String, Section<'_>, Vec<Section<'_>>) {
    let mut parts = document.parts.iter().peekable();
    let title = match parts.next_if(|part| matches!(part, Part::Heading(1, _))) {
        Some(Part::Heading(_, title)) => title.clone(),
        _ => String::new(),
    };
    // A page with an answer starts with it, so the facts move to the end.
    let has_answer = document.parts.contains(&Part::Chapter(Chapter::Answer));
    let (mut lead, mut facts_at_end) = (Section::default(), Section::default());
    let is_introduction = |part: &&Part| matches!(part, Part::Text(_) | Part::Warning(_) | Part::Facts(_));
    while let Some(part) = parts.next_if(is_introduction) {
        let section = if has_answer && matches!(part, Part::Facts(_)) { &mut facts_at_end } else { &mut lead };
        section.parts.push(PartBelowHeading { part, heading: "" });
    }
    let mut sections = vec![Section::default()];
    let mut heading = "";
    for part in parts {
        match part {
            Part::Chapter(chapter) => {
                heading = chapter.title();
                sections.push(Section { id: chapter.id(), title: chapter.title(), ..Section::default() });
                continue;
            }
            Part::Heading(_, text) => heading = text,
            _ => {}
        }
        let section = sections.last_mut().expect("the list starts with one section");
        section.has_both_scales |= matches!(part, Part::Chart(chart) if chart.value_scale == ValueScale::Raw);
        section.parts.push(PartBelowHeading { part, heading });
    }
    sections.push(facts_at_end);
    sections.retain(|section| !section.parts.is_empty());
    (title, lead, sections)
}

/// Functions that the templates call to print text and charts.
trait TemplateFunctions {
    /// The text in one line, without control characters and without line breaks inside figures. The template engine escapes
    /// it.
    fn line(&self, text: &str) -> String {
        insert_no_break_spaces(&escape::line(text))
    }

    /// The lines of the text without control characters.
    fn lines(&self, text: &str) -> String {
        escape::lines(text).collect::<Vec<_>>().join("\n")
    }

    /// The chart as an `<svg>` element.
    fn svg(&self, chart: &Chart) -> String {
        svg::inline_svg(chart)
    }

    /// A second version of the chart for narrow pages; `None` except for bars in per cent of the best.
    fn narrow_svg(&self, chart: &Chart) -> Option<String> {
        if chart.value_scale != ValueScale::Normalised {
            return None;
        }
        let id = format!("{}-narrow", chart.id);
        Some(svg::inline_svg(&Chart { id, width: PHONE_WIDTH, columns: 1, ..chart.clone() }))
    }

    /// The attribute by which the script finds the charts of one scale, to show or to hide them.
    fn scale_attribute(&self, scale: &ValueScale) -> &'static str {
        match scale {
            ValueScale::Single => "only",
            ValueScale::Normalised => "normalised",
            ValueScale::Raw => "raw",
        }
    }

    /// Splits the text of a table cell into the name of an outcome, which the page shows as a badge, and the rest. `None` if the
    /// text does not start with an outcome, or if the table contains figures.
    fn split_outcome<'t>(&self, table: &Table, text: &'t str) -> Option<(&'static str, &'t str)> {
        if !table.has_words {
            return None;
        }
        let strip = |name: &'static str| Some((name, text.strip_prefix(name)?));
        let (name, rest) = Outcome::ALL.into_iter().map(Outcome::name).find_map(strip)?;
        let is_whole_word = rest.is_empty() || rest.starts_with([',', ' ']);
        is_whole_word.then(|| (name, rest.trim_start_matches([',', ' '])))
    }
}

impl<T: Template> TemplateFunctions for T {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Colour;
    use crate::number::UnitMultiple;
    use fsarena_core::sample::Unit;

    /// A colour of the style sheet: on a light page, and on a dark one.
    fn light_and_dark_colour(name: &str) -> [Colour; 2] {
        let (_, rest) = STYLE.split_once(&format!("--{name}: light-dark(")).expect("a colour of the sheet");
        let (light_and_dark, _) = rest.split_once(')').unwrap();
        let component = |hex: &str, start: usize| u8::from_str_radix(&hex[start..start + 2], 16).unwrap();
        let colour = |hex: &str| Colour(component(hex, 1), component(hex, 3), component(hex, 5));
        let (light, dark) = light_and_dark.split_once(", ").unwrap();
        [colour(light), colour(dark)]
    }

    #[test]
    fn text_and_edges_contrast_with_their_background() {
        let text_pairs = [
            ("ink", "paper"),
            ("ink", "raised"),
            ("ink", "accent-paper"),
            ("soft", "paper"),
            ("soft", "raised"),
            ("accent", "paper"),
            ("accent", "raised"),
            ("accent", "accent-paper"),
            ("paper", "accent"),
            ("good", "paper"),
            ("good", "good-paper"),
            ("bad", "bad-paper"),
            ("open", "open-paper"),
        ];
        // WCAG 2.2, success criteria 1.4.3 and 1.4.11.
        let pairs = text_pairs.map(|pair| (pair, 4.5)).into_iter().chain([(("edge", "paper"), 3.0)]);
        for ((ink, paper), min_contrast) in pairs {
            let colours = light_and_dark_colour(ink).into_iter().zip(light_and_dark_colour(paper));
            for (ink_colour, paper_colour) in colours {
                let contrast = ink_colour.contrast(paper_colour);
                assert!(contrast >= min_contrast, "{ink} on {paper}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn the_script_sorts_figures_by_every_multiple_of_their_units() {
        for unit in [Unit::Nanoseconds, Unit::Bytes, Unit::BytesPerSecond, Unit::Count, Unit::PerSecond] {
            for exponent in 0..18 {
                let symbol = UnitMultiple::of(10f64.powi(exponent), unit).symbol;
                let amount = symbol.trim_end_matches("/s");
                let keys = [format!(" {amount}: ["), format!("\"{amount}\": [")];
                assert!(amount.is_empty() || keys.iter().any(|key| SCRIPT.contains(key)), "{symbol}");
            }
        }
    }

    #[test]
    fn policy_hashes_equal_those_of_browsers() {
        // printf 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert_eq!(csp_hash("alert(1)"), "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='");
    }

    #[test]
    fn hostile_text_is_escaped() {
        let mut document = Document::default();
        let hostile = "<script>alert(1)</script>\u{1b}[2J\u{202e}";
        document.heading(3, hostile);
        document.text(hostile);
        document.list(vec![hostile.into()]);
        document.table(Table::of_pairs([hostile, hostile], [(hostile, hostile.into())]));
        document.parts.push(Part::Code("toml", hostile.into()));
        document.parts.push(Part::Facts(vec![hostile.into()]));
        let html = render_fragment(&document).unwrap().html;
        assert!(!html.contains("<script") && !html.contains('\u{1b}') && !html.contains('\u{202e}'), "{html}");
        assert_eq!(html.matches("&#60;script&#62;").count(), 11, "{html}");
    }
}
