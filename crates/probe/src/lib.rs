//! Probes: sources of readings around every task, such as CPU time and bytes written.
//!
//! A [`Session`] reads the probes three times: before a task, when its work has returned, and when its data is synced. Two
//! rules keep the readings accurate. Before a task it reads the probes in reverse order, so that no probe counts the cost of
//! another. After that it reads only the probes whose readings use that moment, because the time to read them when the work
//! has returned is part of the synced time.
//!
//! A new probe needs one file in `probes/` and its line in `probes.rs`. [`trace`] finds the lock that a workload waits for, and
//! [`watch`] reads probes at the end of each window of a live service.

mod probe;
pub mod probes;
mod session;
pub mod trace;
pub mod watch;

pub use probe::{Gauge, KernelFile, OpenedProbe, Probe, ProbeReading, ProbeTarget, Sampling, TextGauge, Unavailable};
pub use session::{Session, Snapshot, measure_around};
