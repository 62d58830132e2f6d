//! A format that samples can be read from, and why they could not be read.

use super::collector::Collector;
use fsarena_core::exit::{ExitCode, Exits};

/// A format that samples can be read from.
pub struct Importer {
    /// The name on the command line.
    pub id: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether the text looks like this format.
    pub(super) recognises: fn(&str) -> bool,
    /// The metrics that people compare, the first in front. Their series lead.
    pub(super) leads: &'static [&'static str],
    /// Reads the samples; a fault with its line if known.
    pub(super) read: fn(&str, &mut Collector) -> Result<(), Fault>,
}

/// A fault in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; none where the whole file is meant.
    pub line: Option<usize>,
    /// The fault.
    pub message: String,
}

impl Fault {
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Fault {
        Fault { line: Some(line), message: message.into() }
    }

    pub(crate) fn whole(message: impl Into<String>) -> Fault {
        Fault { line: None, message: message.into() }
    }

    /// Reads a number in this line; `what` follows it in the fault: `is not a rate`.
    pub(super) fn number(line: usize, word: &str, what: &str) -> Result<f64, Fault> {
        word.parse().map_err(|_| Fault::at(line, format!("`{word}` {what}")))
    }
}

/// Why samples could not be read: the file, the line if known, and the fault.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub(super) String);

impl ImportError {
    pub(crate) fn fault(origin: &str, fault: Fault) -> ImportError {
        let place = fault.line.map_or(origin.to_string(), |line| format!("{origin}, line {line}"));
        ImportError(format!("{place}: {}", fault.message))
    }
}

impl Exits for ImportError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}
