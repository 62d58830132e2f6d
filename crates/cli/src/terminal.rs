//! Drawing on a terminal: the progress of runs on standard error, and rows as tables.
//!
//! The views draw facts that a lower crate has gathered; none knows how a run is made.

pub mod progress;
pub mod rows;
pub mod screen;
