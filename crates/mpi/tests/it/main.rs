//! End-to-end tests of `fsarena-mpi` with the real mpirun. Without mpirun they are skipped.

mod common;
mod failures;
mod loads;
