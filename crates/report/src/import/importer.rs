//! The interface of the importers, and their errors.

use super::series::SampleCollector;
use fsarena_core::exit::{ExitCode, HasExitCode};

/// An importer: recognises a file format of another tool, and reads its samples.
pub struct Importer {
    /// The name of the format on the command line.
    pub id: &'static str,
    /// The text for the help, one line.
    pub help: &'static str,
    /// Whether the text looks like this format.
    pub(crate) recognises: fn(&str) -> bool,
    /// The metrics that people compare, most important first. Their series come first; other series follow in the order of the
    /// file.
    pub(crate) lead_metrics: &'static [&'static str],
    /// Reads the text and adds its samples to the collector.
    pub(crate) read: fn(&str, &mut SampleCollector) -> Result<(), FileFault>,
}

/// A fault in a file, without the name of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    /// The line, from 1; `None` if the fault is in no particular line.
    pub line: Option<usize>,
    /// The fault in words, without the line.
    pub message: String,
}

impl FileFault {
    /// A fault in this line, counted from 1.
    pub(crate) fn in_line(line: usize, message: impl Into<String>) -> FileFault {
        FileFault { line: Some(line), message: message.into() }
    }

    /// A fault of the whole file.
    pub(crate) fn in_file(message: impl Into<String>) -> FileFault {
        FileFault { line: None, message: message.into() }
    }
}

/// The error of an import. Its message names the file, the line if known, and the fault.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub(crate) String);

impl ImportError {
    /// The error for a fault in the file `origin`.
    pub(crate) fn new(origin: &str, fault: FileFault) -> ImportError {
        let location = fault.line.map_or(origin.to_string(), |line| format!("{origin}, line {line}"));
        ImportError(format!("{location}: {}", fault.message))
    }
}

impl HasExitCode for ImportError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}
