//! A document as one HTML file: nothing is fetched, and nothing that data holds can become markup or script.
//!
//! Text goes through the template engine, which escapes it; charts through their renderer, which escapes it; samples and
//! commands through a block of JSON (`data`) that the page's one script reads as data. A Content-Security-Policy
//! allows that script and that style sheet by their hashes, and nothing else.

pub mod report;

use crate::document::{Chapter, Document, Part, Table};
use crate::drawing::{Chart, Form, NARROW, svg};
use crate::{document::join_figures, error::Error, safe};
use askama::Template;
use base64::{Engine, engine::general_purpose::STANDARD};
use fsarena_stats::verdict::Outcome;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

const STYLE: &str = include_str!("../assets/report.css");
/// The script of a report, for servers of pages. It reads [`NO_SAMPLES`], or a report's data, from `#run`.
pub const SCRIPT: &str = include_str!("../assets/report.js");

/// The data that the script reads on pages without samples.
pub const NO_SAMPLES: &str =
    r#"{"tasks":[],"variants":[],"cells":[],"metrics":[],"texts":[],"log":[],"remark":"","values":[]}"#;

/// The style sheet of every page.
pub fn style() -> String {
    format!("{STYLE}{}", dark())
}

/// The Content-Security-Policy of a page, which is in its head too: run its one script, use its one style sheet, and
/// nothing else.
pub fn policy() -> String {
    // The hash of what is between the tags, as a policy names it.
    let [style, script] = [&style(), SCRIPT].map(hash);
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// The rules of charts for dark pages, by the page's own choice or the system's.
fn dark() -> String {
    let of = |root: &str| format!("{root}{{.picture{{{}}}}}", svg::dark());
    format!(
        "@media screen and (prefers-color-scheme:dark){{{}}}@media screen{{{}}}",
        of(":root:not([data-theme=light])"),
        of(":root[data-theme=dark]")
    )
}

/// The page of any other document.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn page_of_document(document: &Document) -> Result<String, Error> {
    let from = format!("fsarena {}", env!("CARGO_PKG_VERSION"));
    render(document, Extras { from, plan: None, data: NO_SAMPLES.into() }, "")
}

/// The parts of a page besides its document.
struct Extras {
    /// The program that made it.
    from: String,
    /// The plan to save, in base64.
    plan: Option<String>,
    /// The data that the script reads.
    data: Cow<'static, str>,
}

/// A page; `samples` says what its table of samples holds.
fn render(document: &Document, extras: Extras, samples: &str) -> Result<String, Error> {
    let (title, lead, sections) = divided(document);
    let lead = Body { sections: vec![lead], samples }.render()?;
    let titles = sections.iter().filter(|section| !section.id.is_empty());
    let nav = titles.map(|section| (section.id, section.title)).collect();
    let body = Body { sections, samples }.render()?;
    Ok(Page { title, lead, nav, body, extras }.render()?)
}

/// A document as parts of another page with the style sheet of [`style`].
pub struct Fragment {
    /// Its title, as text.
    pub title: String,
    /// The rest as HTML. All its text is escaped.
    pub html: String,
}

/// A document for the `main` element of another page.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn body(document: &Document) -> Result<Fragment, Error> {
    let (title, lead, mut sections) = divided(document);
    sections.insert(0, lead);
    Ok(Fragment { title, html: Body { sections, samples: "" }.render()? })
}

/// The whole page.
#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    title: String,
    lead: String,
    nav: Vec<(&'static str, &'static str)>,
    body: String,
    extras: Extras,
}

/// Its sections.
#[derive(Template)]
#[template(path = "body.html")]
struct Body<'a> {
    sections: Vec<Section<'a>>,
    samples: &'a str,
}

/// A chapter, with its place in the navigation; parts outside chapters have no id.
#[derive(Default)]
struct Section<'a> {
    id: &'static str,
    title: &'static str,
    parts: Vec<Shown<'a>>,
    /// Whether it has charts both in per cent and in units.
    both: bool,
}

/// A part of a document.
struct Shown<'a> {
    part: &'a Part,
    /// The name of a table: the heading above it.
    name: &'a str,
}

/// The title of a document, the parts that stand below the title, and all others by chapter.
fn divided(document: &Document) -> (String, Section<'_>, Vec<Section<'_>>) {
    let mut parts = document.parts.iter().peekable();
    let title = match parts.next_if(|part| matches!(part, Part::Heading(1, _))) {
        Some(Part::Heading(_, title)) => title.clone(),
        _ => String::new(),
    };
    // A page that has an answer begins with it: the facts about it come last.
    let answers = document.parts.contains(&Part::Chapter(Chapter::Answer));
    let (mut lead, mut last) = (Section::default(), Section::default());
    let leads = |part: &&Part| matches!(part, Part::Text(_) | Part::Warning(_) | Part::Facts(_));
    while let Some(part) = parts.next_if(leads) {
        let section = if answers && matches!(part, Part::Facts(_)) { &mut last } else { &mut lead };
        section.parts.push(Shown { part, name: "" });
    }
    let mut sections = vec![Section::default()];
    let mut name = "";
    for part in parts {
        match part {
            Part::Chapter(chapter) => {
                name = chapter.title();
                sections.push(Section { id: chapter.id(), title: chapter.title(), ..Section::default() });
                continue;
            }
            Part::Heading(_, text) => name = text,
            _ => {}
        }
        let section = sections.last_mut().expect("there is one from the start");
        section.both |= matches!(part, Part::Chart(chart) if chart.form == Form::Raw);
        section.parts.push(Shown { part, name });
    }
    sections.push(last);
    sections.retain(|section| !section.parts.is_empty());
    (title, lead, sections)
}

/// How the templates print text.
trait Escaped {
    /// One line without control characters, whose figures do not break. The engine escapes it.
    fn line(&self, text: &str) -> String {
        join_figures(&safe::line(text))
    }

    /// Several lines without control characters.
    fn lines(&self, text: &str) -> String {
        safe::lines(text).collect::<Vec<_>>().join("\n")
    }

    /// A chart, drawn.
    fn svg(&self, chart: &Chart) -> String {
        svg::inline(chart)
    }

    /// The chart for narrow pages, if it has bars with labels; else `None`.
    fn narrow(&self, chart: &Chart) -> Option<String> {
        let id = format!("{}-narrow", chart.id);
        let narrow = || svg::inline(&Chart { id, width: NARROW, columns: 1, ..chart.clone() });
        (chart.form == Form::Normalised).then(narrow)
    }

    /// How the script tells charts of one measure from those of another.
    fn form(&self, form: &Form) -> &'static str {
        match form {
            Form::Only => "only",
            Form::Normalised => "normalised",
            Form::Raw => "raw",
        }
    }

    /// The outcome that a cell of words begins with, and what follows it.
    fn outcome<'t>(&self, table: &Table, text: &'t str) -> Option<(&'static str, &'t str)> {
        let begins = |name: &'static str| Some((name, text.strip_prefix(name)?));
        let found = Outcome::ALL.into_iter().map(Outcome::name).find_map(begins).filter(|_| table.words);
        let found = found.filter(|(_, rest)| rest.is_empty() || rest.starts_with([',', ' ']));
        // The badge parts them already.
        found.map(|(name, rest)| (name, rest.trim_start_matches([',', ' '])))
    }
}

impl Escaped for Page {}
impl Escaped for Body<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Colour;

    /// A colour of the style sheet, on a light page and on a dark one.
    fn colours(name: &str) -> [Colour; 2] {
        let after = STYLE.split_once(&format!("--{name}: light-dark(")).expect("it is in the sheet").1;
        let (both, _) = after.split_once(')').unwrap();
        let part = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let colour = |hex: &str| Colour(part(hex, 1), part(hex, 3), part(hex, 5));
        let (light, dark) = both.split_once(", ").unwrap();
        [colour(light), colour(dark)]
    }

    #[test]
    fn words_and_edges_stand_out_from_what_they_are_on() {
        let words = [
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
        let pairs = words.map(|pair| (pair, 4.5)).into_iter().chain([(("edge", "paper"), 3.0)]);
        for ((ink, paper), least) in pairs {
            for (ink_colour, paper_colour) in colours(ink).into_iter().zip(colours(paper)) {
                let contrast = ink_colour.contrast(paper_colour);
                assert!(contrast >= least, "{ink} on {paper}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn hashes_are_those_that_browsers_compute() {
        // printf 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert_eq!(hash("alert(1)"), "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='");
    }

    #[test]
    fn text_is_never_markup() {
        let mut document = Document::default();
        let hostile = "<script>alert(1)</script>\u{1b}[2J\u{202e}";
        document.heading(3, hostile);
        document.text(hostile);
        document.list(vec![hostile.into()]);
        document.table(Table::pairs([hostile, hostile], [(hostile, hostile.into())]));
        document.parts.push(Part::Code("toml", hostile.into()));
        document.parts.push(Part::Facts(vec![hostile.into()]));
        let html = body(&document).unwrap().html;
        assert!(
            !html.contains("<script") && !html.contains('\u{1b}') && !html.contains('\u{202e}'),
            "{html}"
        );
        assert_eq!(html.matches("&#60;script&#62;").count(), 11, "{html}");
    }
}
