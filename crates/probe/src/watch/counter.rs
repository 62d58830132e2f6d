//! The interface of a counter of requests, and the errors of a watch.

use fsarena_core::exit::{ExitCode, HasExitCode};

/// A counter of requests: a number that only grows, until the counting program restarts.
pub trait Counter: Send {
    /// Reads the current number.
    ///
    /// # Errors
    /// The number cannot be read; the next attempt may succeed.
    fn read(&mut self) -> Result<f64, CounterError>;

    /// Checks, before a watch begins, that the user did not mistype a name. A service that is down passes.
    ///
    /// # Errors
    /// The service has no counter of this name, or this machine has no such service.
    fn check_before_watch(&self) -> Result<(), WatchError> {
        Ok(())
    }
}

/// The error of a counter that could not be read, in words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterError(pub String);

/// An error that keeps a watch from starting, or from storing its windows. Other problems during a watch mark a window and are
/// not errors.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// An argument is invalid.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something that the watch needs, or the user may not read it.
    #[error("{0}")]
    Unavailable(String),
    /// The store cannot read or write the windows.
    #[error(transparent)]
    Store(#[from] fsarena_store::Error),
}

impl HasExitCode for WatchError {
    fn exit_code(&self) -> ExitCode {
        match self {
            WatchError::Usage(_) => ExitCode::Usage,
            WatchError::Unavailable(_) => ExitCode::Missing,
            WatchError::Store(error) => error.exit_code(),
        }
    }
}
