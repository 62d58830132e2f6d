//! Reports: exporters of an analysed run.
//!
//! A report for people is a [`document::Document`], made of `sections`; the terminal and Markdown show
//! the same one.

pub mod compare;
mod difference;
pub mod document;
pub mod error;
pub mod exporter;
pub mod exporters;
pub mod findings;
pub mod import;
pub mod number;
pub mod page;
pub mod published;
pub mod ranking;
pub mod report;
mod safe;
mod sampled;
mod sections;
