//! What the figures of a run depend on besides its plan: programs and kernels, by digest.

use crate::error::Result;
use crate::guest::guest_modules;
use crate::preflight::Check;
use fsarena_core::cell::Variant;
use fsarena_core::{factor, host::Host};
use fsarena_guest::cache;
use fsarena_sys::{Error, program};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// The prefix of facts with the digest of a program or a kernel.
const DIGEST: &str = "digest of ";
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

/// What the figures of a variant depend on: the programs and the kernel by digest or release, and fsarena by version.
pub type Parts = BTreeMap<String, String>;

/// The parts in the facts of a machine that ran a variant.
pub fn parts(host: &Host, version: &str, variant: &Variant, in_guest: bool) -> Parts {
    let kernel = format!("{DIGEST}kernel {}", variant.level(factor::KERNEL));
    let mut parts = Parts::from([("fsarena".into(), version.into())]);
    for (fact, value) in &host.facts {
        if let Some(name) = fact.strip_prefix(DIGEST).filter(|name| !name.starts_with("kernel ")) {
            parts.insert(name.into(), value.clone());
        }
    }
    let kernel = if in_guest { host.facts.get(&kernel) } else { Some(&host.kernel) };
    parts.extend(kernel.map(|kernel| ("the kernel".into(), kernel.clone())));
    parts
}
