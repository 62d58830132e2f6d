//! A directory for targets that read files.

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
