//! A document as a part of a page, and how text gets into pages.

use super::{Section, shown};
use crate::document::{Document, Part, Table};
use crate::error::Error;
use crate::safe;
use askama::Template;
use fsarena_stats::verdict::Outcome;

/// What the templates of documents say of their texts.
pub(super) trait Escaped {
    /// One line without control characters. The engine escapes it.
    fn line(&self, text: &str) -> String {
        safe::line(text)
    }

    /// Several lines without control characters.
    fn lines(&self, text: &str) -> String {
        safe::lines(text).collect::<Vec<_>>().join("\n")
    }

    /// The outcome that a cell of words begins with, and what follows it.
    fn outcome<'t>(&self, table: &Table, text: &'t str) -> Option<(&'static str, &'t str)> {
        const OUTCOMES: [Outcome; 4] =
            [Outcome::Held, Outcome::Refuted, Outcome::Inconclusive, Outcome::Equivalent];
        let begins = |name: &'static str| Some((name, text.strip_prefix(name)?));
        let found = OUTCOMES.into_iter().map(Outcome::name).find_map(begins).filter(|_| table.words);
        let found = found.filter(|(_, rest)| rest.is_empty() || rest.starts_with([',', ' ']));
        // The badge parts them already.
        found.map(|(name, rest)| (name, rest.trim_start_matches([',', ' '])))
    }
}

#[derive(Template)]
#[template(path = "parts.html")]
struct Fragment {
    section: Section,
}

impl Escaped for Fragment {}

/// A document as HTML that can stand in the body of a page with the style sheet of [`super::style`]. All its text is
/// escaped.
///
/// # Errors
/// Where the template engine refuses.
pub fn fragment(document: Document) -> Result<String, Error> {
    let section = Section { id: "", title: "", parts: shown(document) };
    Fragment { section }.render().map_err(|error| Error::Template(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_markup() {
        let mut document = Document::default();
        let hostile = "<script>alert(1)</script>\u{1b}[2J\u{202e}";
        document.heading(2, hostile);
        document.text(hostile);
        document.list(vec![hostile.into()]);
        document.table(Table::pairs([hostile, hostile], [(hostile.into(), hostile.into())]));
        document.parts.push(Part::Code("toml", hostile.into()));
        let html = fragment(document).unwrap();
        assert!(
            !html.contains("<script") && !html.contains('\u{1b}') && !html.contains('\u{202e}'),
            "{html}"
        );
        assert_eq!(html.matches("&#60;script&#62;").count(), 10, "{html}");
    }
}
