//! Probes: readings taken around every task.
//!
//! A session reads the probes three times: before a task, when its work has returned, and when its data is
//! synced. Two rules keep the readings clean. Before a task it reads the probes in reverse order, so that no
//! probe counts the cost of another. At each moment it reads only those probes that need it, because the time
//! to read them when the work has returned is part of the synced time.
//!
//! A new probe is one file in `probes/` and its line in `probes.rs`. [`trace`] names the lock that a workload waits for.

mod probe;
pub mod probes;
mod session;
pub mod trace;

pub use probe::{Gauge, KernelFile, Opened, Probe, ProbeReading, Scene, Takes, TextGauge, Unavailable};
pub use session::{Session, Snapshot, around};
