//! Errors from writing, finding or reading runs.

use fsarena_core::exit::{ExitCode, HasExitCode, is_resource_shortage};
use fsarena_core::names::UnknownName;
use fsarena_sys::limits;
use fsarena_sys::limits::remedy_suffix;
use rusqlite::ErrorCode;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The result of a function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the store. The message names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No run has this name.
    #[error(transparent)]
    UnknownRun(#[from] UnknownName),
    /// The ids of several runs begin with the given name. Fields: the name, these ids.
    #[error("`{0}` fits several runs: {known}. Type more of the id", known = .1.join(", "))]
    Ambiguous(String, Vec<String>),
    /// A directory or file that this fsarena cannot read as a run, or a run that it cannot continue, and the reason.
    #[error("{path}: {1}", path = .0.display())]
    Damaged(PathBuf, String),
    /// The directory of a run that another process is writing, and a description of that process.
    #[error("{path}: {1} is writing this run; wait for it to end, or stop it", path = .0.display())]
    Busy(PathBuf, String),
    /// A file could not be read or written: the operation (`reading`), the file, and the error of the system or of SQLite.
    #[error("{0} {path}: {2}{advice}", advice = remedy_suffix(.2), path = .1.display())]
    Io(&'static str, PathBuf, #[source] io::Error),
    /// An archive that could write outside of its directory or fill the disk, and the reason.
    #[error("{path}: refused: {1}", path = .0.display())]
    Hostile(PathBuf, String),
    /// A file, and the reason why the data to store in it is invalid. This is a bug of the caller.
    #[error("{path}: {1}", path = .0.display())]
    InvalidData(PathBuf, String),
}

impl Error {
    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Error {
        Error::Damaged(path.into(), reason.into())
    }

    pub(crate) fn invalid_data(path: &Path, reason: impl Into<String>) -> Error {
        Error::InvalidData(path.into(), reason.into())
    }

    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io(operation, path.into(), source)
    }

    /// Returns a function that turns an SQLite error while writing a database into an [`Error::Io`], for `map_err`.
    pub(crate) fn while_writing(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
        move |error| {
            let cause = match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => io::Error::new(ErrorKind::StorageFull, error),
                // SQLite does not report the error of the system call.
                Some(ErrorCode::SystemIoFailure) if is_at_size_limit(path) => {
                    io::Error::new(ErrorKind::FileTooLarge, error)
                }
                Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
                    File::open(path).err().filter(is_resource_shortage).unwrap_or_else(|| io::Error::other(error))
                }
                _ => io::Error::other(error),
            };
            Error::io("writing", path)(cause)
        }
    }

    /// Returns a function that turns an SQLite error while reading a database into an [`Error::Damaged`], for `map_err`. It
    /// copies the path only on an error, because it is called for every column of every row.
    pub(crate) fn while_reading(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
        move |source| {
            let reason = match source.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => "not an fsarena run: the file is not an SQLite database".into(),
                // `list::read_summary` interrupts SQLite after 10 s.
                Some(ErrorCode::OperationInterrupted) => "the file is damaged: reading it does not end".into(),
                Some(ErrorCode::DatabaseCorrupt) => format!("the file is damaged ({source})"),
                _ => format!("cannot be read as an fsarena run ({source})"),
            };
            Error::damaged(path, reason)
        }
    }
}

/// Whether the database or its log has grown to the limit of file sizes of this process.
fn is_at_size_limit(path: &Path) -> bool {
    /// The largest growth of a file in one step, in bytes: SQLite extends the `-shm` file by it.
    const MAX_STEP_BYTES: u64 = 32 << 10;
    let Some(limit) = limits::max_file_bytes() else { return false };
    let files = [path.to_path_buf(), path.with_extension("db-wal"), path.with_extension("db-shm")];
    files.iter().any(|file| file.metadata().map_or(0, |meta| meta.len()) + MAX_STEP_BYTES > limit)
}

impl HasExitCode for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Io(.., source) if is_resource_shortage(source) => ExitCode::Missing,
            Error::Io(..) | Error::InvalidData(..) => ExitCode::Internal,
            Error::Hostile(..) => ExitCode::Refused,
            _ => ExitCode::Usage,
        }
    }
}
