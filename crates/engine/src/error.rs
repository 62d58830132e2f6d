//! The errors of the load engine.

use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_sys::limits::remedy_suffix;
use std::io;
use std::path::{Path, PathBuf};

/// The result of an operation of the engine.
pub type Result<T = (), E = EngineError> = std::result::Result<T, E>;

/// An error of the load engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The job contradicts itself.
    #[error("this load cannot be run: {0}")]
    Job(String),
    /// The files do not fit the job.
    #[error("{path:?} does not fit this load: {why}")]
    Files {
        /// The file.
        path: PathBuf,
        /// What does not fit, and what to do.
        why: String,
    },
    /// A file has extents that make timed reads meaningless.
    #[error("{path:?} is {kind} from byte {start} to {end}: {consequence}; prepare the files anew, or allow `{kind}`")]
    UnsuitableExtents {
        /// The file.
        path: PathBuf,
        /// `sparse`, `unwritten`, `shared`, `inline` or `encoded`.
        kind: &'static str,
        /// First byte.
        start: u64,
        /// The byte after the last.
        end: u64,
        /// How the extents would falsify the results.
        consequence: &'static str,
    },
    /// An operation failed, which ended the job.
    #[error("{operation} of {bytes} bytes at byte {offset} of {path:?} failed: {source}{}", remedy_suffix(.source))]
    Operation {
        /// `read`, `write`, `sync`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// The bytes of the operation.
        bytes: u32,
        /// The error of the system call.
        source: io::Error,
    },
    /// A block does not have the data that the engine wrote.
    #[error("wrong data at byte {offset} of {path:?}: expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The offset of the block in the file.
        offset: u64,
        /// The content that the engine wrote.
        expected: String,
        /// The content that it read.
        found: String,
    },
    /// A system call outside the measured operations failed.
    #[error("{doing} {path:?}: {source}{}", remedy_suffix(.source))]
    Io {
        /// The failed action, such as `opening`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The buffers are larger than the memory that is free.
    #[error("too little memory: {0}; use fewer threads, less depth or smaller blocks")]
    Memory(String),
    /// Threads, rings or memory are unavailable.
    #[error("{problem}: {source}{advice}")]
    Resource {
        /// What is unavailable, as a phrase such as `no io_uring`.
        problem: String,
        /// The error of the system call.
        source: io::Error,
        /// What to do about it, beginning with `; `; may be empty.
        advice: &'static str,
    },
}

impl EngineError {
    /// Returns a function that makes the error of a failed system call on a path.
    pub fn io<E: Into<io::Error>>(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(E) -> EngineError {
        let path = path.as_ref().to_path_buf();
        move |source| EngineError::Io { doing, path, source: source.into() }
    }
}

impl HasExitCode for EngineError {
    fn exit_code(&self) -> ExitCode {
        match self {
            EngineError::Job(_) | EngineError::Files { .. } | EngineError::UnsuitableExtents { .. } => ExitCode::Usage,
            EngineError::Memory(_) | EngineError::Resource { .. } => ExitCode::Missing,
            EngineError::Io { source, .. } | EngineError::Operation { source, .. } => ExitCode::of_failed_call(source),
            EngineError::Corrupt { .. } => ExitCode::Internal,
        }
    }
}
