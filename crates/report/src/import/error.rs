//! Why samples could not be read.

use super::Fault;
use fsarena_core::exit::{ExitCode, Exits};

/// Why samples could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No format fits.
    #[error("{origin}: in no format that fsarena reads ({known}); name it with --from")]
    Unknown {
        /// The file.
        origin: String,
        /// The formats.
        known: String,
    },
    /// Something in it is wrong.
    #[error("{place}: {message}")]
    Fault {
        /// File and line.
        place: String,
        /// The fault.
        message: String,
    },
}

impl ImportError {
    pub(crate) fn fault(origin: &str, fault: Fault) -> ImportError {
        let place = fault.line.map_or(origin.to_string(), |line| format!("{origin}, line {line}"));
        ImportError::Fault { place, message: fault.message }
    }
}

impl Exits for ImportError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}
