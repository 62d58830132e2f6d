//! The charts.

use super::{Detail, Section};
use crate::charts::{self, standing};
use crate::document::{Chapter, Document, Part};
use crate::report::Report;

/// The charts.
pub const SECTION: Section = Section { chapter: Some(Chapter::Charts), parts };

/// Every chart but that which opens a page; where a format has room for them but no files, how to get those.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    if detail == Detail::Charts {
        document.parts.extend(
            charts::all(report)
                .into_iter()
                .filter(|chart| !chart.id.starts_with(standing::ID))
                .map(|chart| Part::Chart(Box::new(chart))),
        );
    } else if detail == Detail::Full && !report.record.samples.is_empty() {
        document.text(format!(
            "Charts are files: `fsarena report {} --format md --export svg=charts` draws them into a folder, and this \
             report then links to them.",
            report.record.id
        ));
    }
    document
}
