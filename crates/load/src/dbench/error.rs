//! The errors of reading and playing dbench's loads.

use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::setting_text::setting;
use std::path::PathBuf;

/// A load cannot be read, or was not played to its end.
#[derive(Debug, thiserror::Error)]
pub enum DbenchError {
    /// No loadfile is installed or named.
    #[error(
        "no loadfile: fsarena does not bring dbench's own, which is under the GPL. On Debian: apt install dbench \
         (looked for {looked_for}); or name one with --set loadfile=FILE, or use the workload dbench-like"
    )]
    NoLoadfile {
        /// The paths that were searched.
        looked_for: String,
    },
    /// A loadfile cannot be read.
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
        /// What is wrong and what to do.
        why: String,
    },
    /// A line of a loadfile is wrong.
    #[error("loadfile {path:?}, line {line}: {why}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u32,
        /// The problem.
        why: String,
    },
    /// The limits of this machine are too low for this number of clients.
    #[error("{0}")]
    Limit(String),
    /// The load requires more clients.
    #[error(
        "the load requires client number {client} (counted from 0), and there are only {clients} clients; take more: {}",
        setting("set", &format!("clients={}", .client + 1))
    )]
    TooFewClients {
        /// The client that another one waits for, from 0.
        client: u32,
        /// Number of clients.
        clients: u32,
    },
    /// A client failed.
    #[error("client {client} failed at line {line}: {why}")]
    Client {
        /// The number of the client, from 0.
        client: u32,
        /// The line of the loadfile.
        line: u32,
        /// The failed operation and its file.
        why: String,
        /// Whether the filesystem was full.
        full: bool,
    },
    /// A resource of this machine is unavailable.
    #[error("{what}: {source}")]
    Resource {
        /// What is unavailable, and what to do.
        what: String,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// A signal interrupted fsarena.
    #[error("interrupted")]
    Cancelled,
    /// A client process ended without a message.
    #[error("client {client} ended by {how}")]
    Lost {
        /// The number of the client, from 0.
        client: u32,
        /// How the process ended, such as `signal 9` or `exit 1`.
        how: String,
    },
}

impl Exits for DbenchError {
    /// A full filesystem counts as missing space, and a low limit as a missing resource: the user can provide both. An interrupted
    /// fsarena ends by the signal and not with a code, so only a fault of fsarena shows the code of [`DbenchError::Cancelled`].
    fn exit_code(&self) -> ExitCode {
        match self {
            DbenchError::NoLoadfile { .. } | DbenchError::Limit(_) | DbenchError::Resource { .. } => {
                ExitCode::Missing
            }
            DbenchError::Client { full: true, .. } => ExitCode::Missing,
            DbenchError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                ExitCode::Missing
            }
            DbenchError::Read { .. }
            | DbenchError::Unfit { .. }
            | DbenchError::Line { .. }
            | DbenchError::TooFewClients { .. } => ExitCode::Usage,
            DbenchError::Client { .. } | DbenchError::Cancelled | DbenchError::Lost { .. } => {
                ExitCode::Internal
            }
        }
    }
}
