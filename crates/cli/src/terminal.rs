//! Draws on a terminal: the progress of runs on standard error, and rows as tables.
//!
//! These modules only display data that other crates provide; they do not depend on how a run works.

pub mod progress;
pub mod rows;
pub mod screen;
