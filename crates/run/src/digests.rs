//! The digests of the programs and kernels that a run uses. A run stores them as facts of its machine, so that a later
//! command can tell whether the same files are still there.

use crate::error::Result;
use crate::guest::guest_modules;
use crate::preflight::Requirements;
use fsarena_guest::cache;
use fsarena_sys::{Error, program};
use std::collections::BTreeMap;
use std::os::unix::{ffi::OsStrExt, fs::MetadataExt};
use std::{fs::File, io, path::Path};
use walkdir::WalkDir;

/// The prefix of facts with the digest of a program or a kernel.
pub const DIGEST_PREFIX: &str = "digest of ";
/// The prefix of facts with the release of a guest kernel.
pub const RELEASE_PREFIX: &str = "release of kernel ";

/// The digests of the programs and kernels that a run uses, and the releases of the kernels, as facts of its machine.
///
/// # Errors
/// A program or kernel that cannot be read.
pub fn digest_facts(requirements: &Requirements) -> Result<BTreeMap<String, String>> {
    let mut facts = BTreeMap::new();
    let digest = |path: &Path| -> Result<String> {
        let file = File::open(path).map_err(Error::io("reading", path))?;
        Ok(cache::digest(file).map_err(Error::io("reading", path))?)
    };
    for name in requirements.programs.iter().chain(&requirements.user_programs) {
        let path = if name.contains('/') { Some(name.into()) } else { program::find(name) };
        if let Some(path) = path {
            facts.insert(format!("{DIGEST_PREFIX}{name}"), digest(&path)?);
        }
    }
    for (level, kernel) in &requirements.kernels.by_level {
        let modules = guest_modules(&kernel.modules);
        let modules = modules.iter().flat_map(|module| [module.name.as_bytes(), &module.elf[..]]);
        let parts = [digest(&kernel.code)?, cache::digest_parts(modules)];
        facts.insert(format!("{DIGEST_PREFIX}kernel {level}"), cache::digest_parts(parts));
        facts.insert(format!("{RELEASE_PREFIX}{level}"), kernel.release.clone());
    }
    Ok(facts)
}

/// The largest file whose content a digest of an input covers, in bytes: it is read each time.
const MAX_CONTENT_BYTES: u64 = 1 << 30;

/// A digest that shows whether an input of commands has changed: of the content of a file; of the names, types, sizes and
/// times of a large file, or of everything in a directory.
///
/// # Errors
/// If it cannot be read.
pub fn digest_of_input(path: &Path) -> io::Result<String> {
    let meta = path.metadata()?;
    if meta.is_file() && meta.len() <= MAX_CONTENT_BYTES {
        return cache::digest(File::open(path)?);
    }
    let mut parts = vec![];
    for entry in WalkDir::new(path).sort_by_file_name() {
        let entry = entry?;
        let meta = entry.metadata()?;
        let facts = [u64::from(meta.mode()), meta.len(), meta.mtime() as u64, meta.mtime_nsec() as u64];
        // A file that is added changes the time of its directory, and so does one that is removed and is no input.
        let facts = if meta.is_dir() { [facts[0], 0, 0, 0] } else { facts };
        parts.push(entry.path().as_os_str().as_bytes().to_vec());
        parts.push(facts.into_iter().flat_map(u64::to_le_bytes).collect());
    }
    Ok(cache::digest_parts(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_an_input_changes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "text").unwrap();
        let (of_file, of_dir) = (digest_of_input(&file).unwrap(), digest_of_input(dir.path()).unwrap());
        assert_eq!(of_dir, digest_of_input(dir.path()).unwrap());
        // A new time alone is no change of a file.
        let time = std::time::SystemTime::UNIX_EPOCH;
        File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        assert_eq!(of_file, digest_of_input(&file).unwrap());
        assert_ne!(of_dir, digest_of_input(dir.path()).unwrap());
        std::fs::write(&file, "tex?").unwrap();
        assert_ne!(of_file, digest_of_input(&file).unwrap());
        assert!(digest_of_input(&dir.path().join("missing")).is_err());
    }
}
