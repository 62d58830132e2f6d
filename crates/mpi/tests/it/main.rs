//! Tests with the real mpirun: it is all they need besides the binary.

mod common;
mod failures;
mod loads;
