//! The run store: one directory a run, one SQLite file in it.
//!
//! | file | what it holds |
//! |---|---|
//! | `run.db` | hosts, variants, cells, samples and notes; written once a cell |
//! | `plan.toml` | the plan as resolved |
//! | `command.log` | every external command, one JSON object a line ([`fsarena_core::record::LogLine`]) |
//! | `events.jsonl` | what the runner said and when, one JSON object a line ([`TimedEvent`]), for those who follow it |
//! | `output/` | the end of what the user's commands printed, a file for each cell ([`RunDir::output_of`]) |
//!
//! [`Writer`] consumes events, [`read()`] gives the whole run back for analysis. A cell is written in one
//! transaction when it ends, so a crash loses one cell and never half of one.

mod cell;
mod dir;
mod error;
mod events;
mod latencies;
mod list;
mod log;
mod merge;
mod order;
mod output;
mod read;
mod rows;
mod schema;
mod series;
mod values;
mod writer;

#[cfg(test)]
mod testing;

pub use dir::RunDir;
pub use error::{Error, Result};
pub use events::{Events, TimedEvent};
pub use list::{RunSummary, list, summary};
pub use merge::{Merged, merge};
pub use read::{commands, read, reading};
pub use writer::Writer;
