//! Errors from writing, finding or reading runs.

use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::names::Unknown;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What a store function gives.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the store. The message names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No run has the name.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// Several runs begin with the name.
    #[error("`{name}` fits several runs: {}. Type more of the id", .known.join(", "))]
    Ambiguous {
        /// The name that the caller gave.
        name: String,
        /// The runs it fits.
        known: Vec<String>,
    },
    /// The directory or file is not a run that this fsarena can read.
    #[error("{}: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// Another process is writing the run.
    #[error("{}: another fsarena is writing this run; wait for it to end, or stop it", .path.display())]
    Busy {
        /// The run's directory.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{doing} {}: {source}", .path.display())]
    Io {
        /// The operation, such as "reading".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The word of the system or of SQLite.
        source: io::Error,
    },
    /// The data to store makes no sense: a bug of the caller.
    #[error("{}: {what}", .path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What makes no sense.
        what: String,
    },
}

impl Error {
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Error {
        Error::Damaged { path: path.into(), what: what.into() }
    }

    pub(crate) fn unfit(path: &Path, what: impl Into<String>) -> Error {
        Error::Unfit { path: path.into(), what: what.into() }
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { doing, path: path.into(), source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
        move |error| {
            let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
            let kind = if full { ErrorKind::StorageFull } else { ErrorKind::Other };
            Error::io("writing", path)(io::Error::new(kind, error))
        }
    }

    /// A failure while reading a database: the file is to blame, whatever SQLite calls it. The path is copied only then:
    /// this is called for every column of every row.
    pub(crate) fn read(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
        move |source| {
            let what = match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::NotADatabase) => {
                    "not an fsarena run: the file is not an SQLite database".into()
                }
                Some(rusqlite::ErrorCode::DatabaseCorrupt) => format!("the file is damaged ({source})"),
                _ => format!("cannot be read as an fsarena run ({source})"),
            };
            Error::damaged(path, what)
        }
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Io { source, .. }
                if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                ExitCode::Missing
            }
            Error::Io { .. } | Error::Unfit { .. } => ExitCode::Internal,
            _ => ExitCode::Usage,
        }
    }
}
