//! Errors of external commands.

use crate::shortage::advice;
use fsarena_core::exit::{ExitCode, Exits, is_shortage};

/// Why a command failed or could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not installed.
    #[error("{program} is not installed")]
    NotFound {
        /// Its name.
        program: String,
    },
    /// A file that the user named and that cannot be executed.
    #[error("{program} cannot be executed: {why}")]
    Unusable {
        /// Its name or path.
        program: String,
        /// Why, and what to do.
        why: String,
    },
    /// It could not be started.
    #[error("{program} could not be started: {source}{}", advice(.source))]
    Start {
        /// Its name.
        program: String,
        /// The error of the system call.
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
            Error::Unusable { .. } => ExitCode::Usage,
            Error::Start { source, .. } if is_shortage(source) => ExitCode::Missing,
            _ => ExitCode::Internal,
        }
    }
}
