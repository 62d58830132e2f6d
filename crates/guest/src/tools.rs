//! Programs of Debian packages, fetched with their libraries as an ordinary user. Nothing is installed:
//! `fsarena_sys::fetched_program` starts them.

use crate::suites::{Log, Suites};
use crate::{Error, Result};
use fsarena_sys::argv::Argv;
use fsarena_sys::fetched_program;
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
    let tools = cache.join(fetched_program::DIR);
    std::fs::create_dir_all(&tools).map_err(Error::io("making", &tools))?;
    let room = tempfile::tempdir_in(cache).map_err(Error::io("making a directory in", cache))?;
    let unpacked = room.path().join("unpacked");
    for archive in suites.download(&names, room.path(), log)? {
        Argv::new("dpkg").arg("-x").arg(archive).arg(&unpacked).expect(log)?;
    }
    let place = tools.join(package);
    match std::fs::rename(&unpacked, &place) {
        // Another fsarena was faster.
        Err(_) if place.is_dir() => Ok(()),
        moved => moved.map_err(Error::io("moving programs to", &place)),
    }
}
