//! Programs of Debian packages, fetched with their libraries as an ordinary user. Nothing is installed:
//! `fsarena_sys::program` finds and starts them.

use crate::Result;
use crate::suites::{Log, Suites};
use fsarena_sys::program::FETCHED_DIR;
use std::path::Path;

/// Fetches a package and the libraries that its programs need, from the stable suite if that has it, and unpacks them below
/// `tools` in the cache.
///
/// # Errors
/// No suite has the package, apt cannot fetch it, or the cache cannot be written.
pub fn fetch(package: &str, cache: &Path, suites: &Suites, log: Log) -> Result<()> {
    let refreshed = suites.refresh(log);
    let names = match suites.with_libraries(package, log) {
        Ok(names) => names,
        Err(error) => return Err(refreshed.err().unwrap_or(error)),
    };
    suites.unpack(&names, &cache.join(FETCHED_DIR).join(package), log)
}
