//! The digests of the programs and kernels that a run uses. A run stores them as facts of its machine, so that a later command can
//! tell whether the same files are still there.

use crate::error::Result;
use crate::guest::guest_modules;
use crate::preflight::Check;
use fsarena_guest::cache;
use fsarena_sys::{Error, program};
use std::collections::BTreeMap;
use std::{fs::File, path::Path};

/// The prefix of facts with the digest of a program or a kernel.
pub const DIGEST: &str = "digest of ";
/// The prefix of facts with the release of a guest kernel.
pub const RELEASE: &str = "release of kernel ";

/// The digests of the programs and kernels that a run uses, and the releases of the kernels, as facts of its machine.
///
/// # Errors
/// A program or kernel that cannot be read.
pub fn digests(check: &Check) -> Result<BTreeMap<String, String>> {
    let mut facts = BTreeMap::new();
    let digest = |path: &Path| -> Result<String> {
        let file = File::open(path).map_err(Error::io("reading", path))?;
        Ok(cache::digest(file).map_err(Error::io("reading", path))?)
    };
    for name in check.programs.iter().chain(&check.own_programs) {
        let path = if name.contains('/') { Some(name.into()) } else { program::find(name) };
        if let Some(path) = path {
            facts.insert(format!("{DIGEST}{name}"), digest(&path)?);
        }
    }
    for (level, kernel) in &check.kernels.by_level {
        let modules = guest_modules(&kernel.modules);
        let modules = modules.iter().flat_map(|module| [module.name.as_bytes(), &module.elf[..]]);
        let parts = [digest(&kernel.code)?, cache::digest_parts(modules)];
        facts.insert(format!("{DIGEST}kernel {level}"), cache::digest_parts(parts));
        facts.insert(format!("{RELEASE}{level}"), kernel.release.clone());
    }
    Ok(facts)
}
