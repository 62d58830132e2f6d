//! Files with one JSON value each, in the directory of runs: the alarms, the baselines, and the states of bisections.

use crate::error::{Result, RunError, require};
use fsarena_sys::{Error, input, none_if_missing};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Display, path::Path};

/// Reads a file of at most `max_bytes` bytes. None if it does not exist.
///
/// # Errors
/// The file is too large or cannot be read, or its value is not a `T`.
pub fn read_json<T: DeserializeOwned>(file: &Path, max_bytes: u64) -> Result<Option<T>> {
    let bytes = none_if_missing(input::read(file, max_bytes)).map_err(Error::io("reading", file))?;
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| damaged_error(file, error))).transpose()
}

/// Checks that the format of a file is the one that this fsarena reads.
///
/// # Errors
/// The file has another format.
pub fn check_format(file: &Path, format: u32, readable_format: u32) -> Result<()> {
    let why = || format!("written by a newer fsarena (format {format})");
    require(format == readable_format, || damaged_error(file, why()))
}

/// The error of a file whose value cannot be used.
pub fn damaged_error(file: &Path, why: impl Display) -> RunError {
    RunError::Plan(format!("{}: {why}", file.display()))
}

/// Writes a value to a new file, which then replaces `file`. So a crash leaves the old or the new value, and another
/// process never reads half of one.
///
/// # Errors
/// The directory cannot be written.
pub fn write_json(file: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value).map_err(|error| RunError::Plan(error.to_string()))?;
    let new_file = file.with_extension("new");
    std::fs::write(&new_file, text).map_err(Error::io("writing", &new_file))?;
    Ok(std::fs::rename(&new_file, file).map_err(Error::io("writing", file))?)
}

/// The names of the directories in `parent` that have a file `file_name`, sorted. Empty if `parent` cannot be read.
pub fn dirs_with_file(parent: &Path, file_name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let with_file = entries.filter(|entry| entry.path().join(file_name).is_file());
    let mut names: Vec<String> = with_file.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
