//! The charts.

use crate::charts::{self, standing};
use crate::section::{Chapter, Detail, Document, Report, Section};

/// The charts.
pub const SECTION: Section = Section::full(Chapter::Charts, add);

/// Every chart but that which opens a page; where a format has room for them but no files, how to get those.
fn add(document: &mut Document, report: &Report, detail: Detail) {
    if detail == Detail::Charts {
        document.charts(charts::all(report).into_iter().filter(|chart| !chart.id.starts_with(standing::ID)));
    } else if !report.record.samples.is_empty() {
        document.text(format!(
            "Charts are files: `fsarena report {} --format md --export svg=charts` draws them into a folder, and this \
             report then links to them.",
            report.record.id
        ));
    }
}
