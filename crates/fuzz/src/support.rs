//! Support for the targets: files in a temporary directory, and a check of error messages.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The path of a file in a temporary directory of this process, which is in memory if `/dev/shm` exists. The directory remains
/// when the process ends, because Rust does not drop statics.
pub fn temp_path(name: &str) -> PathBuf {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let in_memory = Path::new("/dev/shm");
    let base = if in_memory.is_dir() { in_memory.into() } else { std::env::temp_dir() };
    DIR.get_or_init(|| tempfile::tempdir_in(base).expect("a directory")).path().join(name)
}

/// Writes an input to a file, and returns the path of the file.
pub fn write_file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = temp_path(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// Returns the value of a result; `None` for an error, after [`assert_sensible_message`].
pub fn check_error<T>(result: Result<T, impl std::fmt::Display>, input: &[u8]) -> Option<T> {
    result.map_err(|error| assert_sensible_message(&error, input)).ok()
}

/// Asserts that an error message is not empty, and not much longer than the input: at most 8 bytes for each byte of input,
/// which a message may quote with escapes like `\u{fffd}`, and 8,000 bytes for the rest of the message.
pub fn assert_sensible_message(message: &impl std::fmt::Display, input: &[u8]) {
    let text = message.to_string();
    assert!(!text.trim().is_empty() && text.len() <= 8 * input.len() + 8_000, "{} bytes: {text}", text.len());
}
