//! What can go wrong between fsarena and the system, in words for people.

use bytesize::ByteSize;
use fsarena_core::exit::{ExitCode, Exits};
use std::path::{Path, PathBuf};

/// Why something could not be set up or taken away.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] crate::argv::Error),
    /// A system call failed.
    #[error("{doing} {path:?}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file, device or directory.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// There is too little room for an image.
    #[error(
        "no room for the image {path:?}: {} needed, {} free in {dir:?}; free some, or put it elsewhere with --on loop:DIR, or make it smaller with --size",
        ByteSize::b(*.needed), ByteSize::b(*.free)
    )]
    NoRoom {
        /// The image.
        path: PathBuf,
        /// Where it should lie.
        dir: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// A mount point stays in use.
    #[error("{target:?} cannot be unmounted, it is in use by {}; end that and run `fsarena recover`", list(.holders))]
    Busy {
        /// The mount point.
        target: PathBuf,
        /// The processes, with pid and name.
        holders: Vec<String>,
    },
    /// What is there is not what was made, so it is left alone.
    #[error("{path:?} is left alone: {why}")]
    NotOurs {
        /// The file or directory.
        path: PathBuf,
        /// How it differs.
        why: String,
    },
    /// Something stays as it is although it should have changed, or is not what was asked for.
    #[error("{}: {why}", .what.display())]
    Unfit {
        /// The device, directory or process.
        what: PathBuf,
        /// How it is.
        why: String,
    },
    /// A kernel file does not read as expected.
    #[error("{path:?} reads unlike any kernel known to fsarena: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        why: String,
    },
    /// A signal asked to stop.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

fn list(holders: &[String]) -> String {
    if holders.is_empty() {
        "something that shows in no process (another mount, swap or loop device)".into()
    } else {
        holders.join(", ")
    }
}

impl Error {
    /// Makes an error of a failed system call on a path.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { doing, path, source }
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Command(error) => error.exit_code(),
            Error::NoRoom { .. } => ExitCode::Missing,
            Error::NotOurs { .. } => ExitCode::Refused,
            _ => ExitCode::Internal,
        }
    }
}
