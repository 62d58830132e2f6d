//! How a command fails: one message for people, one documented exit code.

use fsarena_core::exit::{ExitCode, Exits};
use std::fmt;

/// What a command returns where it cannot do its work.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: ExitCode,
    broken_pipe: bool,
}

/// The result of a command: how the program ends.
pub type Outcome = Result<ExitCode, Failure>;

impl Failure {
    /// A failure of this kind.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code, broken_pipe: false }
    }

    /// The documented exit code.
    pub fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// Whether nobody reads our output any more.
    pub fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }

    /// A failure to read or write a file.
    pub fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Failure {
        move |error| Failure::new(ExitCode::Usage, format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Exits> From<E> for Failure {
    fn from(error: E) -> Failure {
        let broken_pipe = caused_by_broken_pipe(&error);
        Failure { message: error.to_string(), code: error.exit_code(), broken_pipe }
    }
}

/// Writing results to standard output.
pub fn printing(error: std::io::Error) -> Failure {
    let broken_pipe = error.kind() == std::io::ErrorKind::BrokenPipe;
    Failure { message: format!("standard output: {error}"), code: ExitCode::Internal, broken_pipe }
}

fn caused_by_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
        || error.source().is_some_and(caused_by_broken_pipe)
}
