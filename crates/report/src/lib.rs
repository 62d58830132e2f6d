//! Reports: exporters of an analysed run.
//!
//! A report for people is a [`document::Document`], made of `sections`; the terminal and Markdown show
//! the same one.

pub mod charts;
pub mod commands;
pub mod compare;
mod difference;
pub mod document;
pub mod drawing;
pub mod error;
pub mod exporters;
mod figures;
pub mod findings;
pub mod functions;
pub mod history;
pub mod html;
pub mod import;
pub mod live;
pub mod matrix;
pub mod published;
pub mod repeats;
pub mod report;
pub mod resolution;
pub mod scaling;
mod sections;
pub mod time_series;
mod words;

pub use fsarena_core::{number, safe};
pub use sections::decision::Decision;
pub use words::begun;

/// Tests of the registries: no format, section or chart is forgotten.
#[cfg(test)]
mod registry {
    /// The name in `pub const NAME: KIND = …`.
    pub fn constant(line: &str, kind: &str) -> Option<String> {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
        rest.starts_with(&format!("{kind} ")).then(|| name.into())
    }

    /// Asserts that a registry, given by its source, has `FILE::NAME` of every entry in the files of a folder.
    pub fn assert_complete(folder: &str, registry: &str, entry: impl Fn(&str) -> Option<String>) {
        let folder = format!("{}/src/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut entries = 0;
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            for name in text.lines().filter_map(&entry) {
                let line = format!("{}::{name},", file.file_stem().unwrap().to_string_lossy());
                assert!(
                    registry.lines().any(|found| found.trim_start().trim_start_matches('&') == line),
                    "{line}"
                );
                entries += 1;
            }
        }
        assert!(entries > 1, "the pattern of entries fits");
    }
}
