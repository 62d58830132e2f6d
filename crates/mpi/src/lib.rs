//! One load from many clients: the ranks of an MPI job run the cells of a plan together.
//!
//! Each rank only passes messages; it starts an agent process that does the work, as in all runs of fsarena. So work that
//! crashes or hangs ends its cell and never the MPI job. Rank 0, the coordinator, has the plan and the store. It sends each
//! cell (the measurement of one variant in one round) to the other ranks, the workers, and merges the samples of all agents.
//!
//! Only the module `rsmpi`, behind the feature `mpi`, requires an MPI library.

mod agent;
mod coordinator;
pub mod guard;
pub mod measure;
mod merge;
pub mod ranks;
#[cfg(feature = "mpi")]
pub mod rsmpi;
pub mod wire;
pub mod worker;
