//! Errors of a watch, with messages for people.

use fsarena_core::exit::{ExitCode, Exits};

/// An error that keeps a watch from starting, or from storing its windows. Other problems during a watch mark a window and are
/// not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is invalid.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something that the watch needs, or the user may not read it.
    #[error("{0}")]
    Unavailable(String),
    /// The store cannot read or write the windows.
    #[error(transparent)]
    Store(#[from] fsarena_store::Error),
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Usage(_) => ExitCode::Usage,
            Error::Unavailable(_) => ExitCode::Missing,
            Error::Store(error) => error.exit_code(),
        }
    }
}
