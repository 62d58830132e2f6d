//! Why a task failed.

use fsarena_core::exit::{ExitCode, Exits};
use fsarena_sys::limits::advice;
use std::{io, path::Path};

/// The result of work for a task; its error is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason for which a task failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] fsarena_sys::argv::Error),
    /// A system call failed.
    #[error("{doing}: {source}{}", advice(.source))]
    Io {
        /// The operation and its file.
        doing: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The work cannot be done as asked.
    #[error("{0}")]
    Unfit(String),
    /// The plan asks for what cannot be.
    #[error("{0}")]
    Plan(String),
    /// This machine lacks something; the text says what to do.
    #[error("{0}")]
    Missing(String),
    /// The load engine failed.
    #[error(transparent)]
    Engine(#[from] fsarena_engine::Error),
    /// A loadfile cannot be read, or was not played to its end.
    #[error(transparent)]
    Dbench(#[from] crate::dbench::Error),
    /// The filesystem broke a promise.
    #[error("{0}")]
    Violation(String),
    /// This task cannot be done here; the others can, so it is left out and said so.
    #[error("{0}")]
    LeftOut(String),
}

impl Error {
    /// Makes an error of a failed system call: `Error::io("write /mnt/f")(error)`.
    pub fn io<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Error {
        |source| Error::Io { doing: doing.into(), source: source.into() }
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Command(error) => error.exit_code(),
            Error::Io { source, .. } => ExitCode::of_failed_call(source),
            Error::Engine(error) => error.exit_code(),
            Error::Dbench(error) => error.exit_code(),
            Error::Violation(_) => ExitCode::Refuted,
            Error::Missing(_) => ExitCode::Missing,
            Error::Unfit(_) | Error::Plan(_) | Error::LeftOut(_) => ExitCode::Usage,
        }
    }
}

/// Makes an error of a failed system call on a file: `.map_err(at("write", &path))`.
pub fn at<E: Into<io::Error>>(doing: &str, path: &Path) -> impl FnOnce(E) -> Error {
    move |source| Error::io(format!("{doing} {}", path.display()))(source)
}
