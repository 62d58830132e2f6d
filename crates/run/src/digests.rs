//! Digests of the programs, kernels and inputs that a run uses. A run stores those of programs and kernels as facts of
//! its machine, so that a later command can check whether the machine still has the same files.

use crate::error::{Result, RunError};
use crate::guest::guest_modules;
use crate::preflight::Requirements;
use fsarena_guest::{cache, modules::Modules};
use fsarena_sys::{Error, program};
use std::collections::BTreeMap;
use std::os::unix::{ffi::OsStrExt, fs::MetadataExt};
use std::path::Path;
use std::{fs::File, io};
use walkdir::WalkDir;

/// The prefix of the names of facts that have the digest of a program or kernel.
pub const DIGEST_PREFIX: &str = "digest of ";
/// The prefix of the names of facts that have the release of a guest kernel.
pub const RELEASE_PREFIX: &str = "release of kernel ";

/// Computes the digests of the programs and guest kernels that a run uses, and lists the releases of these kernels, as
/// facts of its machine: names and values. Leaves out programs that this user may execute but not read.
///
/// # Errors
/// A program or kernel that cannot be read for another reason.
pub fn digest_facts(requirements: &Requirements) -> Result<BTreeMap<String, String>> {
    let mut facts = BTreeMap::new();
    for name in requirements.programs.iter().chain(&requirements.user_programs) {
        let Some(path) = program::find_by_name_or_path(name) else { continue };
        match digest_file(&path) {
            Err(RunError::System(Error::Io { source, .. })) if source.kind() == io::ErrorKind::PermissionDenied => {}
            digest => drop(facts.insert(format!("{DIGEST_PREFIX}{name}"), digest?)),
        }
    }
    for (level, kernel) in &requirements.kernels.by_level {
        let parts = [digest_file(&kernel.code)?, digest_guest_modules(&kernel.modules)];
        facts.insert(format!("{DIGEST_PREFIX}kernel {level}"), cache::digest_parts(parts));
        facts.insert(format!("{RELEASE_PREFIX}{level}"), kernel.release.clone());
    }
    Ok(facts)
}

/// Computes the digest of those modules of a kernel that guests need.
pub fn digest_guest_modules(modules: &Modules) -> String {
    let modules = guest_modules(modules);
    cache::digest_parts(modules.iter().flat_map(|module| [module.name.as_bytes(), &module.elf[..]]))
}

/// Computes the digest of the content of a file.
///
/// # Errors
/// The file cannot be read.
pub fn digest_file(path: &Path) -> Result<String> {
    let file = File::open(path).map_err(Error::io("reading", path))?;
    Ok(cache::digest(file).map_err(Error::io("reading", path))?)
}

/// The largest input file, in bytes, whose content is digested. Each run reads this content.
const MAX_CONTENT_BYTES: u64 = 1 << 30;

/// Computes a digest that shows whether an input of commands has changed: of a file, the digest of its content; of a
/// directory or a file larger than [`MAX_CONTENT_BYTES`], the digest of the names, modes, sizes and times of everything
/// in it.
///
/// # Errors
/// The input cannot be read.
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
        // The time and size of a directory also change if a temporary file was made in it and removed, so they do not
        // count.
        let facts = if meta.is_dir() { [facts[0], 0, 0, 0] } else { facts };
        parts.push(entry.path().as_os_str().as_bytes().to_vec());
        parts.push(facts.into_iter().flat_map(u64::to_le_bytes).collect());
    }
    Ok(cache::digest_parts(parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_that_cannot_be_read_has_no_digest() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o111)).unwrap();
        let user_programs = [file.to_str().unwrap().to_string()].into();
        let facts = digest_facts(&Requirements { user_programs, ..Requirements::default() }).unwrap();
        // Root may read it.
        assert_eq!(facts.len(), usize::from(File::open(&file).is_ok()));
    }

    #[test]
    fn the_digest_of_an_input_changes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "text").unwrap();
        let (of_file, of_dir) = (digest_of_input(&file).unwrap(), digest_of_input(dir.path()).unwrap());
        assert_eq!(of_dir, digest_of_input(dir.path()).unwrap());
        // The time of a file does not count for the file itself, but for its directory.
        let time = std::time::SystemTime::UNIX_EPOCH;
        File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        assert_eq!(of_file, digest_of_input(&file).unwrap());
        assert_ne!(of_dir, digest_of_input(dir.path()).unwrap());
        std::fs::write(&file, "tex?").unwrap();
        assert_ne!(of_file, digest_of_input(&file).unwrap());
        assert!(digest_of_input(&dir.path().join("missing")).is_err());
    }
}
