//! Workloads: what is timed, and the files it needs.
//!
//! A workload gives tasks; it never times or counts anything, and never waits until the machine is idle. The code that measures a task
//! knows nothing of workloads. So the same workload runs on this kernel, in a guest and on a rank.

pub mod demands;
pub mod payload;
mod program;
pub mod source;
pub mod tarball;
pub mod task;
pub mod tree;
pub mod web;
pub mod workload;
pub mod workloads;
