//! Why the page cannot be served.

use fsarena_core::exit::{ExitCode, Exits};
use std::{io::ErrorKind, net::SocketAddr, path::PathBuf};

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder of runs cannot be read, or is none.
    #[error("{}: {}; `fsarena serve DIR` names the folder that holds runs", .path.display(), said(.source))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Nothing can listen there.
    #[error("{address}: {source}{}", hint(.source))]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// The system's word.
        source: std::io::Error,
    },
    /// A token that can be guessed.
    #[error("the token has {0} characters; give one of at least {MIN}, or none to have one made", MIN = crate::guard::SHORTEST_TOKEN)]
    Token(usize),
    /// The system refused threads, timers or signals.
    #[error("the server could not start: {0}")]
    Start(std::io::Error),
}

fn said(source: &std::io::Error) -> String {
    match source.kind() {
        ErrorKind::NotADirectory => "not a folder".into(),
        _ => source.to_string(),
    }
}

fn hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::AddrInUse => {
            "; another program listens there: end it, or take another --port, or none for a free one"
        }
        ErrorKind::PermissionDenied => "; ports below 1024 are root's: take another --port",
        ErrorKind::AddrNotAvailable => "; --bind takes an address of this machine",
        _ => "",
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Listen { source, .. } if source.kind() != ErrorKind::AddrNotAvailable => ExitCode::Missing,
            Error::Folder { .. } | Error::Listen { .. } | Error::Token(_) => ExitCode::Usage,
            Error::Start(_) => ExitCode::Internal,
        }
    }
}
