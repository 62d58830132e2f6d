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
mod counters;
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

pub use counter::{Counter, Trouble};
pub use counters::Spec;
pub use error::Error;
pub use plan::Watch;
pub use readings::defs as readings;
pub use recorder::Recorder;
pub use service::Known;
pub use target::Where;
pub use watcher::Watcher;
pub use window::{Mark, Window};
