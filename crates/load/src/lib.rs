//! Workloads: the timed tasks and the files that they need.
//!
//! A workload defines tasks; the runner times them, counts, and waits until the machine is idle. The runner knows
//! nothing of workloads, so the same workload runs on this kernel, in a guest and on a rank. Workloads use the load
//! engine (`fsarena-engine`) and the player of dbench's loadfiles ([`dbench`]); neither knows workloads.

pub mod dbench;
pub mod invocation;
mod pace;
pub mod payload;
pub mod printed;
mod program;
mod service;
pub mod source;
pub mod task;
#[cfg(test)]
mod testing;
pub mod tree;
pub mod web;
pub mod workload;
pub mod workloads;
