//! Watching a live machine without driving it: how many requests were served, and what they cost.
//!
//! Nothing is changed on the machine. Time is cut into windows; each has the growth of the kernel's counters from
//! its beginning to its end, and of a counter of requests. A window that something disturbed (the endpoint did not
//! answer, the counter went back, the clock was stepped, the device went away) is marked, kept and left out of
//! comparisons; the next one begins where it ended.
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
pub use service::Known;
pub use target::Where;
pub use watcher::Watcher;
pub use window::{Mark, Window};

/// Why a watch cannot start. Later problems mark a window and are not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Wrong arguments.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something that the watch needs, or the user may not read it.
    #[error("{0}")]
    Missing(String),
    /// The store cannot keep the windows.
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
