//! The errors that keep a guest from running, with messages for users.

use fsarena_core::exit::{ExitCode, HasExitCode};
use std::path::{Path, PathBuf};

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a guest could not start or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine lacks something. The text explains what to do.
    #[error("{0}")]
    Missing(String),
    /// The plan requires something impossible.
    #[error("{0}")]
    Plan(String),
    /// A file is not of the expected kind, or damaged.
    #[error("{}: {why}", .path.display())]
    InvalidFile {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] fsarena_sys::Error),
}

impl Error {
    /// Returns a function that makes the error of a failed system call on a path, for `map_err`. `operation` is a participle:
    /// `reading`.
    pub fn io(operation: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let error = fsarena_sys::Error::io(operation, path);
        move |source| Error::System(error(source))
    }

    /// An error about a file that is not of the expected kind, or damaged.
    pub fn invalid_file(path: &Path, why: impl Into<String>) -> Error {
        Error::InvalidFile { path: path.into(), why: why.into() }
    }
}

impl From<fsarena_sys::CommandError> for Error {
    fn from(error: fsarena_sys::CommandError) -> Error {
        Error::System(error.into())
    }
}

impl HasExitCode for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Missing(_) | Error::InvalidFile { .. } => ExitCode::Missing,
            Error::Plan(_) => ExitCode::Usage,
            Error::System(error) => error.exit_code(),
        }
    }
}
