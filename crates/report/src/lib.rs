//! Reports of stored runs: analysis, comparisons, charts, imports of other tools' results, and exporters.
//!
//! [`report::analyse_run`] analyses a run, and every [exporter](exporters) writes the result. A report for people is a
//! [`document::Document`] made of sections; the terminal, Markdown and web pages show the same one.
//!
//! A *run* compares *variants*, such as filesystems, in *rounds*. A *cell* is one variant in one round; it runs the *tasks* of
//! a workload. A *sample* has the *readings* of one task in one cell, such as `elapsed_ns`. A *metric*, such as `elapsed`, is
//! computed from readings.
//!
//! | modules | what they contain |
//! |---|---|
//! | `report`, `sections`, `pair`, `time_series`, `live` | the analysis of a run, the sections of its report, and the view of a run in progress |
//! | `document`, `page`, `html`, `report_page` | documents, and their rendering for the terminal, as Markdown and as HTML |
//! | `charts`, `drawing` | the charts, and their drawing as SVG |
//! | `exporter`, `exporters`, `commands`, `bundle` | the formats of reports, and the bundles of runs |
//! | `import` | readers of the output files of other tools |
//! | `compare`, `history`, `scaling`, `matrix`, `findings` | results besides the report of one run: comparisons of runs, histories over runs, curves over clients or sizes, anomalies of a matrix |
//! | `published`, `bisect`, `functions`, `resolution`, `repeats`, `recheck` | pages and checks of single commands |
//!
//! # Examples
//! Print the text report of a stored run:
//! ```no_run
//! use fsarena_report::exporters;
//! use fsarena_report::report::{self, ReportOptions};
//! use fsarena_store::RunDir;
//! use std::path::Path;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let record = fsarena_store::read(&RunDir::open(Path::new("runs/latest"))?)?;
//!     let report = report::analyse_run(record, ReportOptions::default())?;
//!     exporters::find("term")?.export(&report, &mut std::io::stdout())?;
//!     Ok(())
//! }
//! ```

pub mod advice;
pub mod bisect;
pub mod bundle;
mod chart_context;
pub mod charts;
pub mod commands;
pub mod compare;
pub mod document;
pub mod drawing;
pub mod error;
pub mod exporter;
pub mod exporters;
mod figures;
mod finding_sentences;
pub mod findings;
pub mod functions;
pub mod history;
pub mod html;
pub mod import;
pub mod live;
pub mod matrix;
pub mod page;
mod pair;
mod phrases;
pub mod published;
mod ratio_verdict;
pub mod recheck;
pub mod repeats;
pub mod report;
pub mod report_page;
pub mod resolution;
pub mod scaling;
mod sections;
pub mod time_series;

pub use fsarena_core::{escape, number};
pub use phrases::format_start_time;
pub use sections::decision::Decision;

/// Functions for the tests that every format, section and chart is in its registry.
#[cfg(test)]
mod registry {
    /// The constant's name in a line `pub const NAME: KIND = …`; `None` for other lines.
    pub fn constant_name(line: &str, kind: &str) -> Option<String> {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
        rest.starts_with(&format!("{kind} ")).then(|| name.into())
    }

    /// Asserts that a line of a registry's source text ends in `FILE::NAME` for every entry that the files of a folder define.
    /// `entry` returns the name in a line that defines one.
    pub fn assert_complete(folder: &str, registry: &str, entry: impl Fn(&str) -> Option<String>) {
        let folder = format!("{}/src/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut entries = 0;
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            for name in text.lines().filter_map(&entry) {
                let entry = format!("{}::{name}", file.file_stem().unwrap().to_string_lossy());
                let is_entry = |found: &str| found.trim_end_matches([',', ')', ' ', '}']).ends_with(&entry);
                assert!(registry.lines().any(is_entry), "{entry}");
                entries += 1;
            }
        }
        assert!(entries > 1, "the pattern of entries fits");
    }
}
