//! Watches a live service without loading it: the number of requests served, and their cost in CPU time and I/O.
//!
//! A watch changes nothing on the machine. It divides time into windows of equal length. The readings of a window are the
//! growth of the kernel's counters and of a counter of requests between its beginning and its end. If something disturbed a
//! window (the endpoint did not answer, the counter decreased, the clock was stepped, the device disappeared), fsarena stores
//! the window with a mark, and comparisons leave out windows whose marks make them invalid. The next window begins where the
//! last ended.
//!
//! [`Counter`] is the interface to a counter of requests; its implementations are in the module `counters`. The tally
//! of requests is in `window`, and the gauges (the readings of the kernel's counters) are in `gauges`. The printer is
//! the command of the user interface, which receives each window when it closes.
//!
//! ```text
//! Counter → RequestTally ┐
//! Gauges ────────────────┼→ Window → Recorder (store) and the printer
//! Service ───────────────┘
//! ```

mod counter;
mod counters;
mod gauges;
mod plan;
mod recorder;
mod service;
mod target;
mod watcher;
mod window;

pub use counter::{Counter, CounterError, WatchError};
pub use counters::CounterSpec;
pub use gauges::reading_defs;
pub use plan::Watch;
pub use recorder::Recorder;
pub use service::ServiceSpec;
pub use target::WatchedPlace;
pub use watcher::Watcher;
pub use window::{Window, WindowMark};
