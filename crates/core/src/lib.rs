//! The vocabulary of fsarena, without any I/O.
//!
//! Data goes through the program in this order:
//!
//! ```text
//! PlanFile::parse → plan::resolve → matrix::expand → schedule::order_of_round → Executor::run(cell)
//!            → Event::Sample → Store → stats::analyse → verdicts → Exporter::export
//! ```
//!
//! This crate defines the types of all these data.

pub mod average;
pub mod bisect;
pub mod cell;
pub mod claim;
pub mod conclusion;
pub mod dbench;
pub mod escape;
pub mod event;
pub mod exit;
pub mod factor;
pub mod host;
pub mod latency;
pub mod matrix;
pub mod metric;
mod named_enum;
pub mod names;
pub mod number;
pub mod observations;
pub mod plan;
pub mod published;
pub mod record;
pub mod rerun;
pub mod row;
pub mod sample;
pub mod scale;
pub mod schedule;
pub mod series;
pub mod setting;
pub mod setting_grid;
pub mod setting_text;
pub mod state;
pub mod study;
