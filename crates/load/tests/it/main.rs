//! Workloads in a directory, without a filesystem of their own. One program, so that it is linked once.

mod coreutils;
mod dbench;
mod fileio;
