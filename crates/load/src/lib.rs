//! Workloads: the timed tasks and the files that they need.
//!
//! A workload defines tasks. The runner, in another crate, waits until the machine is idle and times the tasks. It does not
//! depend on a particular workload, so the same workload runs on this kernel, in a guest and on an MPI rank. Workloads use
//! the load engine (`fsarena-engine`) and the player of dbench's loadfiles ([`dbench`]), which do not depend on workloads.

pub mod dbench;
mod error;
pub mod fio;
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
