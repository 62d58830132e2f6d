//! Probes: readings taken around every task.
//!
//! Each probe is read three times: before a task, when its work has returned, and when its data is on the
//! device. Two rules keep the readings clean. Before a task the probes are read in reverse, so that the
//! work lies inside the innermost probe and a probe does not count the cost of another. And at each moment
//! only those probes are read that have a use for it, because what is read when the work has returned
//! lies within the durable time.
//!
//! A new probe is one file in `probes/` and its line in `probes.rs`.

mod gauge;
mod probe;
pub mod probes;
mod session;

pub use gauge::{Gauge, KernelFile, TextGauge};
pub use probe::{Opened, Probe, ProbeReading, Scene, Takes, Unavailable};
pub use session::{Session, Snapshot};
