//! The error type of this crate: refused devices, missing programs, and wrong options.

use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_core::names::UnknownName;
use std::path::PathBuf;

/// Why a filesystem could not be made or mounted, or why a device could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// fsarena refuses a device, file or argument, because using it could destroy data.
    #[error("refused to use {}: {why}. {fix}", .path.display())]
    Refused {
        /// The device, file or directory.
        path: PathBuf,
        /// The reason.
        why: String,
        /// The remedy.
        fix: String,
    },
    /// The program that makes the filesystem is not installed.
    #[error("{program} is not installed, and {title} cannot be made without it; install it: {fix}")]
    NoMkfs {
        /// The program.
        program: &'static str,
        /// The filesystem.
        title: &'static str,
        /// The command that installs it.
        fix: String,
    },
    /// The program ignored options of an option set that it does not know.
    #[error("option set {option_set}: the installed {program} ignores some of its options; {fix}")]
    OldMkfs {
        /// The program.
        program: &'static str,
        /// The option set.
        option_set: String,
        /// The options that the program ignored, and what to install.
        fix: &'static str,
    },
    /// The name of the filesystem is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The filesystem has no set of options of this name, or does not accept the options.
    #[error("{0}")]
    Options(String),
    /// The system failed.
    #[error(transparent)]
    System(#[from] fsarena_sys::Error),
}

/// Makes an [`Error::Refused`].
pub(crate) fn refused(path: impl Into<PathBuf>, why: impl Into<String>, fix: impl Into<String>) -> Error {
    Error::Refused { path: path.into(), why: why.into(), fix: fix.into() }
}

impl Error {
    /// Whether a signal ended the program that makes the filesystem. Another attempt may succeed.
    pub fn was_ended_by_signal(&self) -> bool {
        matches!(self, Error::System(fsarena_sys::Error::Command(error)) if error.was_ended_by_signal())
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
            Error::Refused { .. } => ExitCode::Refused,
            Error::NoMkfs { .. } | Error::OldMkfs { .. } => ExitCode::Missing,
            Error::Unknown(_) | Error::Options(_) => ExitCode::Usage,
            Error::System(error) => error.exit_code(),
        }
    }
}
