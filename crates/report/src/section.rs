//! A section of a report: its chapter, the level of detail that shows it, and the function that adds it to a document.

pub use crate::document::{Chapter, Document};
pub use crate::report::Report;

/// A function that adds the content of a section to a document. It adds nothing if the section has no content for this report.
type Add = fn(&mut Document, &Report, Detail);

/// A section of a report.
pub struct Section {
    /// The chapter of the section; `None` for a section directly below the title.
    pub chapter: Option<Chapter>,
    /// The lowest level of detail that includes the section.
    pub min_detail: Detail,
    /// Adds the content of the section to a document.
    pub add: Add,
}

impl Section {
    /// A section that every report includes.
    pub const fn new(chapter: Chapter, add: Add) -> Section {
        Section { chapter: Some(chapter), min_detail: Detail::Brief, add }
    }

    /// A section that only full reports include, because it needs more room than a screen has.
    pub const fn full(chapter: Chapter, add: Add) -> Section {
        Section { min_detail: Detail::Full, ..Section::new(chapter, add) }
    }
}

/// How much of a report a format includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Only the sections that fit on a screen.
    Brief,
    /// All sections, without charts.
    Full,
    /// All sections, with charts.
    Charts,
}
