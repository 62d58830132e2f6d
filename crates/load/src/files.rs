//! Files that workloads keep: directories made anew, and numbers that a later check reads.

use crate::error::{Error, Result, at};
use fsarena_engine::Error as EngineError;
use std::path::Path;

/// Makes an empty directory, whatever was there.
///
/// # Errors
/// Where the old one cannot be removed, or the new one not be made.
pub fn fresh_dir(dir: &Path) -> Result<(), EngineError> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).map_err(EngineError::io("emptying", dir))?;
    }
    std::fs::create_dir(dir).map_err(EngineError::io("making", dir))
}

/// Writes a number to a file.
///
/// # Errors
/// Where it cannot be written.
pub fn note(path: &Path, number: u64) -> Result<()> {
    std::fs::write(path, number.to_string()).map_err(at("write", path))
}

/// Reads the number that [`note`] wrote.
///
/// # Errors
/// Where it cannot be read, or is no number.
pub fn noted(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path).map_err(at("read", path))?;
    text.parse().map_err(|_| Error::Unfit(format!("{} holds no number", path.display())))
}
