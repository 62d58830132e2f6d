//! Workloads: what is timed, and the files it needs.
//!
//! A workload gives steps; it never times, settles or counts anything. The code that measures a step
//! knows nothing of workloads. So the same workload runs on this kernel, in a guest and on a rank.

pub mod dbench;
pub mod demands;
pub mod engine;
pub mod payload;
mod program;
mod series;
pub mod source;
pub mod step;
pub mod tarball;
pub mod tree;
pub mod web;
pub mod workload;
pub mod workloads;
