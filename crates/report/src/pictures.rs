//! The charts of a report as files: one file a chart.

use crate::error::Error;
use crate::plot::{Chart, png, svg};

/// A format of charts. A new one is a line of [`FORMATS`].
#[derive(Clone, Copy)]
pub struct Format {
    /// Its name on the command line, and the extension of its files.
    pub id: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// The bytes of a chart's file.
    pub file: fn(&Chart) -> Result<Vec<u8>, Error>,
}

/// Every format.
pub const FORMATS: &[Format] = &[
    Format {
        id: "svg",
        help: "every chart as SVG in a folder; text stays text",
        file: |chart| svg::file(chart).map(String::into_bytes),
    },
    Format { id: "png", help: "every chart as PNG in a folder", file: png::file },
];

/// Finds a format by its name.
pub fn find(id: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.id == id)
}
