//! Why nothing can be watched.

use fsarena_core::exit::{ExitCode, Exits};

/// Why a watch cannot start. Later problems mark a window and are not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Wrong arguments.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something that the watch needs, or the user may not read it.
    #[error("{0}")]
    Missing(String),
    /// The store cannot keep the windows.
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
