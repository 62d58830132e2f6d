//! Workloads: the timed tasks and the files that they need.
//!
//! A workload defines tasks. The runner, in another crate, waits until the machine is idle and times the tasks. A
//! workload does not depend on the runner, so the same workload runs on this kernel, in a guest and on an MPI rank.
//! Workloads use the load engine (`fsarena-engine`) and the player of dbench's loadfiles ([`dbench`]), which do not
//! depend on workloads.
//!
//! | module | what it has |
//! |---|---|
//! | `workload`, `workloads` | what a workload must provide, and every workload |
//! | `task`, `error` | the timed parts of a workload and their actions, and the errors of both |
//! | `program` | `cp`, `tar` and others: their command lines, and their system calls made in this process |
//! | `invocation` | commands of the user, with a time limit and bounded output |
//! | `service` | servers that a workload starts |
//! | `printed` | the metrics that a command prints |
//! | `source`, `tree`, `payload` | the trees of files that workloads copy, and the content of files |
//! | `dbench` | the player of dbench's loadfiles |
//! | `fio` | the job files, options and output of fio |
//! | `ageing` | histories of operations that age a filesystem |
//! | `web`, `pace` | requests to a cache of web pages, and the times at which clients send them |

pub mod ageing;
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
pub mod tree;
pub mod web;
pub mod workload;
pub mod workloads;

#[cfg(test)]
use workload::testing;
