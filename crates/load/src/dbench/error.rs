//! Why a load cannot be read, or was not played to its end.

use fsarena_core::exit::{ExitCode, Exits};
use std::path::PathBuf;

/// Why a load cannot be read, or was not played to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No loadfile was found.
    #[error(
        "no loadfile: fsarena does not bring dbench's own, which is under the GPL. On Debian: apt install dbench \
         (looked for {looked_for}); or name one with --set loadfile=FILE, or use the workload dbench-like"
    )]
    NoLoadfile {
        /// Where.
        looked_for: String,
    },
    /// It cannot be read.
    #[error("loadfile {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The file is not a loadfile.
    #[error("loadfile {path:?}: {why}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// A line of it is wrong.
    #[error("loadfile {path:?}, line {line}: {why}")]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u32,
        /// The problem.
        why: String,
    },
    /// The limits of this machine are too low for this number of clients.
    #[error("{0}")]
    Limit(String),
    /// The load needs more clients.
    #[error(
        "the load waits for client {client} (from 0), and there are {clients}; take more: --set clients={needed}",
        needed = .client + 1
    )]
    TooFew {
        /// The client that another one waits for.
        client: u32,
        /// How many there are.
        clients: u32,
    },
    /// A client could not go on.
    #[error("client {client} failed at line {line}: {why}")]
    Client {
        /// Which, from 0.
        client: u32,
        /// The line of the loadfile.
        line: u32,
        /// What went wrong, to which file.
        why: String,
        /// Whether the filesystem was full.
        full: bool,
    },
    /// Clients could not be had.
    #[error("{what}: {source}")]
    Resource {
        /// What could not be had, and what to do.
        what: String,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// A signal asked fsarena to stop.
    #[error("interrupted")]
    Cancelled,
    /// A client ended without saying why.
    #[error("client {client} ended by {how}")]
    Lost {
        /// Which, from 0.
        client: u32,
        /// `signal 9`, `exit 1`.
        how: String,
    },
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::NoLoadfile { .. } | Error::Limit(_) | Error::Resource { .. } => ExitCode::Missing,
            Error::Client { full: true, .. } => ExitCode::Missing,
            Error::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => ExitCode::Missing,
            Error::Read { .. } | Error::Unfit { .. } | Error::Line { .. } | Error::TooFew { .. } => {
                ExitCode::Usage
            }
            Error::Client { .. } | Error::Cancelled | Error::Lost { .. } => ExitCode::Internal,
        }
    }
}
