//! Errors between fsarena and the system, in words for people.

use crate::shortage::advice;
use bytesize::ByteSize;
use fsarena_core::exit::{ExitCode, Exits, is_shortage};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Why something could not be set up or taken away.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] crate::argv::Error),
    /// A system call failed.
    #[error("{doing} {path:?}: {source}{}", advice(.source))]
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
    #[error("{target:?} cannot be unmounted, it is in use by {}", list_holders(.holders))]
    Busy {
        /// The mount point.
        target: PathBuf,
        /// The processes that use it.
        holders: Vec<Holder>,
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
    /// A file or directory of the kernel cannot be read, so that the state of the machine is unknown.
    #[error(
        "{path:?} cannot be read ({source}), and fsarena does nothing without knowing what it says: {fix}"
    )]
    Hidden {
        /// The file or directory.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
        /// What makes it readable.
        fix: &'static str,
    },
    /// A resource limit of this process is too low for the run; the text says how to raise it.
    #[error("{0}")]
    Limit(String),
    /// A path that the undo journal cannot hold, because it is not UTF-8.
    #[error(
        "{0:?} is not valid UTF-8, and the undo journal holds its paths as text: name another directory (--runs, --on, FSARENA_STATE_DIR), or rename it"
    )]
    NotText(PathBuf),
    /// The directory of the undo journals cannot be written.
    #[error(
        "{dir:?} cannot be written ({source}), and fsarena notes there how to undo what it makes: name a directory that you can write to in FSARENA_STATE_DIR"
    )]
    State {
        /// The directory.
        dir: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// A signal asked to stop.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// A process that uses something at or below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// How it uses the directory.
    pub uses: Vec<&'static str>,
}

/// Who holds a mount or a device, and the commands that let it go.
pub(crate) fn list_holders(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "something that shows in no process that this user may inspect (another mount, swap, a loop device, or a \
                process of another user); end that and run `fsarena recover`"
            .into();
    }
    let one = |holder: &Holder| format!("{} ({}: {})", holder.pid, holder.name, holder.uses.join(", "));
    let names: Vec<String> = holders.iter().map(one).collect();
    let pids: Vec<String> = holders.iter().map(|holder| holder.pid.to_string()).collect();
    format!("{}; end that and undo the rest: kill {} && fsarena recover", names.join(", "), pids.join(" "))
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

    /// Makes an error of a failure to read a file or directory of the kernel.
    pub fn hidden(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        // A path below a fake root in tests has more before it; `/proc/sys` is a part of `/proc`.
        let first =
            path.components().find(|part| ["proc", "sys"].map(OsStr::new).contains(&part.as_os_str()));
        let fix = match first {
            Some(part) if part.as_os_str() == "sys" => "mount the whole of /sys: `mount -t sysfs sysfs /sys`",
            _ => "mount the whole of /proc: `mount -t proc proc /proc`",
        };
        move |source| Error::Hidden { path, source, fix }
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
            Error::Io { source, .. } if is_shortage(source) => ExitCode::Missing,
            Error::NoRoom { .. } | Error::Busy { .. } | Error::Held { .. } => ExitCode::Missing,
            Error::Hidden { .. } | Error::Limit(_) => ExitCode::Missing,
            Error::State { source, .. }
                if is_shortage(source) || source.kind() == std::io::ErrorKind::ReadOnlyFilesystem =>
            {
                ExitCode::Missing
            }
            Error::NotText(_) | Error::State { .. } => ExitCode::Usage,
            Error::NotOurs { .. } | Error::Foreign { .. } => ExitCode::Refused,
            _ => ExitCode::Internal,
        }
    }
}
