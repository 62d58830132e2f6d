//! The run store: one directory for each run, with one SQLite file in it.
//!
//! | file | content |
//! |---|---|
//! | `run.db` | hosts, variants, cells, samples and notes; written when a cell ends |
//! | `plan.toml` | the resolved plan |
//! | `command.log` | every external command, one JSON object a line ([`fsarena_core::record::CommandLogLine`]) |
//! | `events.jsonl` | the events of the runner with their times, one JSON object a line ([`TimedEvent`]), for followers |
//! | `output/` | the end of the output of the user's commands, a file for each cell ([`RunDir::output_file`]) |
//!
//! [`Writer`] consumes events; [`read()`] returns the whole run for analysis. A cell (one variant in one round) is written in
//! one transaction when it ends, so a crash loses at most the cell that was running.
//!
//! [`archive`] writes and reads `.tar.zst` files, and [`bundle`] collects runs with everything that their reports need.
//! [`merge()`] joins the shards of a run. [`views_sql`] defines SQL views for programs that read `run.db` directly.

pub mod archive;
pub mod bundle;
mod command_log;
mod dir;
mod error;
mod event_log;
mod insert;
mod list;
mod merge;
mod read;
mod rows;
mod schema;
mod values;
mod views;
mod writer;

#[cfg(test)]
mod testing;

pub use dir::RunDir;
pub use error::{Error, Result};
pub use event_log::{EventReader, TimedEvent};
pub use list::{RunSummary, list_runs, read_summary};
pub use merge::{MergeResult, merge};
pub use read::{find_reading_definition, for_each_command, read};
pub use views::views_sql;
pub use writer::Writer;
