//! One load from many clients: the ranks of an MPI job do the cells of a plan together.
//!
//! Each rank is a process that only passes messages; the work of a rank is done by an agent that it starts, as
//! everywhere in fsarena. So work that crashes or hangs ends its cell, and never the MPI job. Rank 0 drives: it has the
//! plan, the rounds and the store, tells the others each cell, and merges what their agents measured.
//!
//! Only the module `rsmpi`, which the feature `mpi` brings, needs an MPI library.

mod agent;
mod cell;
pub mod clock;
pub mod follow;
pub mod guard;
mod lead;
pub mod mapping;
pub mod measure;
mod merge;
pub mod message;
mod mountstats;
mod part;
pub mod ranks;
mod remarks;
#[cfg(feature = "mpi")]
pub mod rsmpi;
pub mod wire;
