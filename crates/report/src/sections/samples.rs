//! All samples, as a page lists them.

use super::{Detail, Section};
use crate::document::{Chapter, Document, Part};
use crate::number::plural;
use crate::report::Report;

/// All samples.
pub const SECTION: Section = Section { chapter: Some(Chapter::Data), parts };

fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    if detail >= Detail::Full {
        let (count, id) = (plural(report.record.samples.len(), "sample"), &report.record.id);
        document.heading(3, "Samples");
        document
            .parts
            .push(Part::Samples(format!("{count}; `fsarena report {id} --format csv` prints them all.")));
    }
    document
}
