//! Whether a kernel package in the cache still has the contents that were unpacked: their digests lie beside them.

use crate::digest;
use std::{fmt::Write, fs::File, io::Result, path::Path};
use walkdir::WalkDir;

/// The list of digests, a line for each file.
const LIST: &str = "digests";
/// The parts of a package that guests use.
const PARTS: [&str; 3] = ["boot", "lib", "usr/lib"];

/// Writes the list.
///
/// # Errors
/// Where a file cannot be read, or the list not written.
pub(crate) fn note(package: &Path) -> Result<()> {
    std::fs::write(package.join(LIST), digests(package)?)
}

/// Whether every file is as it was. A package that an older fsarena unpacked gets its list now.
pub(crate) fn is_whole(package: &Path) -> bool {
    match std::fs::read_to_string(package.join(LIST)) {
        Ok(list) => digests(package).is_ok_and(|now| now == list),
        // Only root can write to the cache that others share.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let _ = note(package);
            true
        }
        Err(_) => false,
    }
}

fn digests(package: &Path) -> Result<String> {
    let mut list = String::new();
    for part in PARTS.iter().map(|part| package.join(part)).filter(|part| part.is_dir()) {
        for entry in WalkDir::new(part).sort_by_file_name() {
            let entry = entry?;
            if entry.file_type().is_file() {
                let name = entry.path().strip_prefix(package).unwrap_or(entry.path());
                // A String takes every line.
                let _ = writeln!(list, "{}  {}", digest::of(File::open(entry.path())?)?, name.display());
            }
        }
    }
    Ok(list)
}
