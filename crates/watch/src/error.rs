//! Why nothing can be watched.

use fsarena_core::exit::{ExitCode, Exits};

/// Why nothing can be watched. What goes wrong later marks a window and is no error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// This machine or this user cannot see what is needed.
    #[error("{0}")]
    Missing(String),
    /// What was watched cannot be kept.
    #[error(transparent)]
    Store(#[from] fsarena_store::Error),
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Usage(_) => ExitCode::Usage,
            Error::Missing(_) => ExitCode::Missing,
            Error::Store(error) => error.exit_code(),
        }
    }
}
