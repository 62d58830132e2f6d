//! All samples, as a page lists them.

use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::{document::Part, number::plural};

/// All samples.
pub const SECTION: Section = Section::full(Chapter::Data, add);

fn add(document: &mut Document, report: &Report, _: Detail) {
    let (count, id) = (plural(report.record.samples.len(), "sample"), &report.record.id);
    document.heading(3, "Samples");
    let words = format!("{count}; `fsarena report {id} --format csv` prints them all.");
    document.parts.push(Part::Samples(words));
}
