//! One load from many clients: the ranks of an MPI job run the cells of a plan together.
//!
//! Each rank only passes messages; an agent process that it starts does the work, as everywhere in fsarena. So work that
//! crashes or hangs ends its cell and never the MPI job. Rank 0, the coordinator, has the plan, the rounds and the store,
//! sends each cell to the other ranks, the workers, and merges what all agents measured.
//!
//! Only the module `rsmpi`, which the feature `mpi` brings, needs an MPI library.

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
