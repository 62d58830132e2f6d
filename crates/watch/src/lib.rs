//! Watches a live service without loading it: the number of requests served, and their cost in CPU time and I/O.
//!
//! A watch changes nothing on the machine. It divides time into windows of equal length. The readings of a window are the growth
//! of the kernel's counters and of a counter of requests between its beginning and its end. If something disturbed a window (the
//! endpoint did not answer, the counter decreased, the clock was stepped, the device disappeared), fsarena stores the window
//! with a mark, and comparisons leave out windows whose marks make them invalid. The next window begins where the last ended.
//!
//! ```text
//! Counter → Tally ┐
//! Gauges ─────────┼→ Window → Recorder (store) and the printer
//! Service ────────┘
//! ```

mod counters;
mod gauges;
mod plan;
mod recorder;
mod service;
mod target;
mod watcher;
mod window;

use fsarena_core::exit::{ExitCode, Exits};

pub use counters::{Counter, CounterSpec, Trouble};
pub use gauges::readings;
pub use plan::Watch;
pub use recorder::Recorder;
pub use service::ServiceSpec;
pub use target::WatchedPlace;
pub use watcher::Watcher;
pub use window::{Mark, Window};

/// An error that keeps a watch from starting, or from storing its windows. Other problems during a watch mark a window and are
/// not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is invalid.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something that the watch needs, or the user may not read it.
    #[error("{0}")]
    Missing(String),
    /// The store cannot read or write the windows.
    #[error(transparent)]
    Store(#[from] fsarena_store::Error),
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Usage(_) => ExitCode::Usage,
            Error::Missing(_) => ExitCode::Missing,
            Error::Store(error) => error.exit_code(),
        }
    }
}
