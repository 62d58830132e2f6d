//! Reports: exporters of an analysed run.
//!
//! A report for people is a [`document::Document`], made of `sections`; the terminal and Markdown show
//! the same one.

pub mod charts;
pub mod columns;
pub mod commands;
pub mod compare;
mod crossed;
mod difference;
pub mod document;
pub mod drawing;
pub mod error;
pub mod exporter;
pub mod exporters;
pub mod findings;
pub mod functions;
mod glue;
pub mod history;
pub mod html;
pub mod import;
pub mod live;
mod matrix;
mod mean_cost;
pub mod page;
mod pair;
mod paired;
pub mod published;
pub mod ranking;
pub mod repeats;
pub mod report;
pub mod resolution;
mod sampled;
pub mod scaling;
mod section;
mod sections;
mod seen;
pub mod time_series;
mod typical;
mod words;

pub use fsarena_core::{number, safe};
pub use sections::decision::Decision;
pub use words::begun;
