//! fio's job files and its output.

pub mod job;
pub mod job_file;
pub mod options;
pub(crate) mod output;
