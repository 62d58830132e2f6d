//! Why a command did not do its work.

use fsarena_core::exit::{ExitCode, Exits};

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not on this machine.
    #[error("{program} is not installed")]
    NotFound {
        /// Its name.
        program: String,
    },
    /// It could not be started.
    #[error("{program} could not be started: {source}")]
    Start {
        /// Its name.
        program: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// It ran, and failed.
    #[error("{command} failed ({ended}): {said}")]
    Failed {
        /// The argument vector, for people.
        command: String,
        /// `exit 1`, `signal 9`.
        ended: String,
        /// The command's own words.
        said: String,
    },
    /// A signal asked fsarena to stop, so the command was killed or not started.
    #[error("{program} was interrupted by signal {signal}")]
    Interrupted {
        /// Its name.
        program: String,
        /// The signal that fsarena got.
        signal: i32,
    },
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::NotFound { .. } => ExitCode::Missing,
            _ => ExitCode::Internal,
        }
    }
}
