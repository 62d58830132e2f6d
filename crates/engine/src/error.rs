//! Why a load could not be made or run.

use fsarena_core::exit::{ExitCode, Exits};
use fsarena_sys::limits::advice;
use std::io;
use std::path::{Path, PathBuf};

/// What a load gives, or why it could not be made or run.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why a load could not be made or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job contradicts itself.
    #[error("this load cannot be run: {0}")]
    Job(String),
    /// The job does not fit its files.
    #[error("{path:?} does not fit this load: {why}")]
    Files {
        /// The file.
        path: PathBuf,
        /// What does not fit, and what to do.
        why: String,
    },
    /// Direct I/O needs larger blocks.
    #[error("direct I/O on {0}, or buffered I/O")]
    Alignment(String),
    /// A file's extents are not what a read should be timed on.
    #[error(
        "{path:?} is {kind} from byte {start} to {end}: {consequence}; prepare the files anew, or allow `{kind}`"
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// `sparse`, `unwritten`, `shared`, `inline` or `encoded`.
        kind: &'static str,
        /// First byte.
        start: u64,
        /// The byte after the last.
        end: u64,
        /// What that would do to the figures.
        consequence: &'static str,
    },
    /// One operation failed, and with it the job.
    #[error("{operation} of {bytes} bytes at byte {offset} of {path:?} failed: {source}{}", advice(.source))]
    Operation {
        /// `read`, `write`, `sync`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// How many bytes were asked for.
        bytes: u32,
        /// The error of the system call.
        source: io::Error,
    },
    /// A block does not hold the data that the engine wrote.
    #[error("wrong data at byte {offset} of {path:?}: expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it the block begins.
        offset: u64,
        /// The content that the engine wrote.
        expected: String,
        /// The content that it read.
        found: String,
    },
    /// A system call outside the measured operations failed.
    #[error("{doing} {path:?}: {source}{}", advice(.source))]
    Io {
        /// The failed action, such as `opening`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The buffers are larger than the memory that is free.
    #[error("too little memory: {0}; take fewer threads, less depth or smaller blocks")]
    Memory(String),
    /// Threads, rings or memory could not be had.
    #[error("{what}: {source}{advice}")]
    Resource {
        /// What could not be had.
        what: String,
        /// The error of the system call.
        source: io::Error,
        /// What to do, starting with `; `; or nothing.
        advice: &'static str,
    },
}

impl Error {
    /// Makes an error of a failed system call on a path.
    pub fn io<E: Into<io::Error>>(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(E) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { doing, path, source: source.into() }
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Job(_) | Error::Files { .. } | Error::Alignment(_) | Error::Layout { .. } => {
                ExitCode::Usage
            }
            Error::Memory(_) | Error::Resource { .. } => ExitCode::Missing,
            Error::Io { source, .. } | Error::Operation { source, .. } => ExitCode::of_failed_call(source),
            Error::Corrupt { .. } => ExitCode::Internal,
        }
    }
}
