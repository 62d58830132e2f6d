//! A comparison as a page: with the style, the script and the policy of a report's.

use super::fragment::Escaped;
use super::{Picture, SCRIPT, Section, picture, policy, shown, style};
use crate::compare::Compared;
use crate::document::{Document, Part};
use crate::error::Error;
use askama::Template;

/// What the script of a report reads where there are no samples.
pub const NO_SAMPLES: &str =
    r#"{"tasks":[],"variants":[],"cells":[],"metrics":[],"texts":[],"log":[],"remark":"","values":[]}"#;

/// The script of a report, for pages of other servers of it. It reads [`NO_SAMPLES`], or a report's data, from `#run`.
pub fn script() -> &'static str {
    SCRIPT
}

/// The whole page.
#[derive(Template)]
#[template(path = "comparison.html")]
struct Page<'a> {
    title: &'a str,
    facts: &'a [String],
    version: &'static str,
    policy: String,
    style: String,
    script: &'static str,
    data: &'static str,
    sections: Vec<(&'static str, &'static str)>,
    body: String,
}

/// Its sections.
#[derive(Template)]
#[template(path = "comparison-body.html")]
struct Body {
    sections: Vec<Section>,
    pictures: Vec<Picture>,
    /// The pictures have one measure.
    both: bool,
}

impl Escaped for Page<'_> {}
impl Escaped for Body {}

/// A comparison as one HTML file that needs no network.
///
/// # Errors
/// Where the picture cannot be drawn or the template engine refuses.
pub fn comparison(compared: &Compared) -> Result<String, Error> {
    let page = Page {
        title: &compared.title,
        facts: &compared.facts,
        version: env!("CARGO_PKG_VERSION"),
        policy: policy(),
        style: style(),
        script: SCRIPT,
        data: NO_SAMPLES,
        sections: sections(compared).iter().map(|section| (section.id, section.title)).collect(),
        body: comparison_body(compared)?,
    };
    page.render().map_err(|error| Error::Template(error.to_string()))
}

/// The answer, the picture, the tables and the method as HTML that can stand in the `main` element of a page with the
/// style sheet of [`style`]. All its text is escaped.
///
/// # Errors
/// Where the picture cannot be drawn or the template engine refuses.
pub fn comparison_body(compared: &Compared) -> Result<String, Error> {
    let pictures = compared.chart.iter().map(picture).collect::<Result<_, _>>()?;
    let body = Body { sections: sections(compared), pictures, both: false };
    body.render().map_err(|error| Error::Template(error.to_string()))
}

fn sections(compared: &Compared) -> Vec<Section> {
    let mut answer = Document::default();
    // The words of the answer stand out below a heading.
    answer.heading(2, "In short");
    answer.parts.extend(compared.answer.parts.iter().cloned());
    let mut method = compared.method.clone();
    // The section has that title already.
    if let Some(Part::Heading(..)) = method.parts.first() {
        method.parts.remove(0);
    }
    let section = |id, title: &'static str, document: Document| {
        let mut parts = shown(document);
        // Every table has a name for those who do not see it.
        parts.iter_mut().filter(|part| part.name.is_empty()).for_each(|part| part.name = title.into());
        Section { id, title, parts }
    };
    let mut sections = vec![section("answer", "The answer", answer)];
    if compared.chart.is_some() {
        sections.push(section("pictures", "Picture", Document::default()));
    }
    sections.push(section("data", "Data", compared.data.clone()));
    sections.push(section("method", "How it was compared", method));
    sections
}
