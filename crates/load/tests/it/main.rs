//! Tests of workloads in a temporary directory. All are in one program, so that it is linked once.

mod coreutils;
mod dbench;
mod fileio;
