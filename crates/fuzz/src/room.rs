//! What the targets share: a directory for those that read files, and what errors must be like.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A path in a directory of this process, in memory where that can be.
pub fn path(name: &str) -> PathBuf {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
    DIR.get_or_init(|| tempfile::tempdir_in(base).expect("a directory")).path().join(name)
}

/// Puts the input into a file.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// Checks that an error message is there, and not much longer than the input.
pub fn sensible(message: &impl std::fmt::Display, bytes: &[u8]) {
    let said = message.to_string();
    assert!(!said.trim().is_empty() && said.len() <= 8 * bytes.len() + 8_000, "{} bytes: {said}", said.len());
}
