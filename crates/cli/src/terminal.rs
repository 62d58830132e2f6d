//! What a terminal shows: runs, loads and watches in progress on standard error, rows and windows on standard output.
//!
//! Each view draws facts that a lower crate has gathered; none knows how a run is made. The result of a load is here
//! too, as no lower crate knows both the load engine and the documents of reports.

pub mod load;
pub mod progress;
pub mod rows;
mod screen;
pub mod stdout;
pub mod watch;
