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

mod clocks;
mod counter;
pub mod counters;
mod error;
mod gauges;
mod plan;
mod readings;
mod recorder;
mod service;
mod tally;
mod target;
mod watcher;
mod window;

pub use counter::{Counter, Spec, Trouble};
pub use error::Error;
pub use plan::{Watch, named};
pub use readings::defs as readings;
pub use recorder::Recorder;
pub use watcher::{Limits, Watcher};
pub use window::{Mark, Window};
