//! Errors between fsarena and the system, in words for people.

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
        /// The act that failed: "reading", "removing".
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
    /// A loop device stays attached as long as something uses it.
    #[error(
        "{device:?} cannot be detached yet, it is in use by {}; end that and run `fsarena recover`", list(.holders)
    )]
    Held {
        /// The device.
        device: PathBuf,
        /// Who uses it, for people.
        holders: Vec<String>,
    },
    /// Something else is there than what fsarena made, so fsarena leaves it alone.
    #[error("{path:?} is left alone: {why}")]
    NotOurs {
        /// The file or directory.
        path: PathBuf,
        /// How it differs.
        why: String,
    },
    /// A directory of fsarena's holds files that fsarena did not put there, so it stays with them.
    #[error("fsarena keeps the directory {dir:?}: it holds files that fsarena did not make: {}", some(.names))]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// The names in it.
        names: Vec<String>,
    },
    /// A device, directory or process is in another state than fsarena needs.
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
        /// How it differs.
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

/// The first of the names, and the number of the others.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len().checked_sub(SHOWN) {
        Some(rest @ 1..) => format!("{}, and {rest} more", names[..SHOWN].join(", ")),
        _ => names.join(", "),
    }
}

impl Error {
    /// Makes an error of a failed system call on a path.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { doing, path, source }
    }
}

/// Returns the result of reading a file that may be missing: None if it is.
///
/// # Errors
/// Every other failure.
pub fn found<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Command(error) => error.exit_code(),
            Error::NoRoom { .. } | Error::Busy { .. } | Error::Held { .. } => ExitCode::Missing,
            Error::NotOurs { .. } | Error::Foreign { .. } => ExitCode::Refused,
            _ => ExitCode::Internal,
        }
    }
}
