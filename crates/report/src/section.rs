//! A section of a report: its chapter, the detail that shows it, and the function that adds it to a document.

pub use crate::document::{Chapter, Document};
pub use crate::report::Report;

/// Adds what a section says to a document, where it has something to say.
type Add = fn(&mut Document, &Report, Detail);

/// A section of a report.
pub struct Section {
    /// The chapter that it belongs to; `None` for what stands below the title.
    pub chapter: Option<Chapter>,
    /// The least detail that shows it.
    pub from: Detail,
    /// Adds its content to a document.
    pub add: Add,
}

impl Section {
    /// A section of every report.
    pub const fn new(chapter: Chapter, add: Add) -> Section {
        Section { chapter: Some(chapter), from: Detail::Brief, add }
    }

    /// A section that needs more room than a screen has.
    pub const fn full(chapter: Chapter, add: Add) -> Section {
        Section { from: Detail::Full, ..Section::new(chapter, add) }
    }
}

/// How much of a report a format shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// What fits on a screen.
    Brief,
    /// Everything but charts.
    Full,
    /// Everything.
    Charts,
}
