//! The mounted filesystem under test, as the agent handles it.
//!
//! The executor has written the mount into its undo journal before the agent starts, so nothing here
//! needs a journal of its own.

use crate::protocol::MountRequest;
use fsarena_core::event::CommandRecord;
use fsarena_sys::argv::{Error, Finished};
use std::fs::File;
use std::path::Path;

/// Mounts with mount(8).
///
/// # Errors
/// Where it fails, with its own words.
pub fn mount(request: &MountRequest, log: &mut dyn FnMut(CommandRecord)) -> Result<Finished, Error> {
    fsarena_sys::mount::command(&request.source, &request.target, &request.fs_type, &request.options)
        .expect(log)
}

/// Unmounts with umount(8).
///
/// # Errors
/// Where it stays in use.
pub fn unmount(request: &MountRequest, log: &mut dyn FnMut(CommandRecord)) -> Result<(), fsarena_sys::Error> {
    fsarena_sys::mount::unmount(&request.target, log)
}

/// Bytes that a user without privileges can write to the filesystem of a directory.
///
/// # Errors
/// Where the directory is not there.
pub fn usable_bytes(dir: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Writes back the filesystems of these directories, then drops clean pages, dentries and inodes.
///
/// # Errors
/// Without the privilege to do so.
pub fn drop_caches(dirs: &[&Path]) -> Result<(), String> {
    for dir in dirs {
        File::open(dir)
            .and_then(|dir| Ok(rustix::fs::syncfs(dir)?))
            .map_err(|error| format!("{dir:?}: {error}"))?;
    }
    std::fs::write("/proc/sys/vm/drop_caches", "3")
        .map_err(|error| format!("dropping caches: {error}; it needs root, or take `--set cache=warm`"))
}
