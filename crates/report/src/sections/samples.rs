//! All samples, as a page lists them.

use crate::document::{Chapter, Document, Part};
use crate::section::{Detail, Section};
use crate::{number::plural, report::Report};

/// All samples.
pub const SECTION: Section = Section::full(Chapter::Data, add);

fn add(document: &mut Document, report: &Report, _: Detail) {
    let (count, id) = (plural(report.record.samples.len(), "sample"), &report.record.id);
    document.heading(3, "Samples");
    let words = format!("{count}; `fsarena report {id} --format csv` prints them all.");
    document.parts.push(Part::Samples(words));
}
