//! The mounted filesystem under test, as the agent handles it.
//!
//! The executor has written the mount into its undo journal before the agent starts, so nothing here
//! needs a separate journal.

use crate::failed::Failed;
use crate::protocol::MountRequest;
use fsarena_core::event::{Cause, CommandRecord};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// Mounts it, and returns the peak memory of the command that did, in bytes.
///
/// # Errors
/// Where it fails, with the words of mount(8) or of the system.
pub fn mount(request: &MountRequest, log: &mut dyn FnMut(CommandRecord)) -> Result<u64, fsarena_sys::Error> {
    let MountRequest { source, target, fs_type, options, by_call, .. } = request;
    let command = fsarena_sys::mount::command(source, target, fs_type, options);
    if !by_call {
        return Ok(command.expect(log)?.max_rss_bytes);
    }
    let begun = Instant::now();
    let mounted = fsarena_sys::mount::by_call(source, target, fs_type, options);
    log(called(command.words(), begun));
    mounted.map_err(fsarena_sys::Error::io("mounting", source))?;
    Ok(0)
}

/// Unmounts it.
///
/// # Errors
/// Where it stays in use.
pub fn unmount(request: &MountRequest, log: &mut dyn FnMut(CommandRecord)) -> Result<(), fsarena_sys::Error> {
    let target = &request.target;
    if !request.by_call {
        return fsarena_sys::mount::unmount(target, log);
    }
    let begun = Instant::now();
    let unmounted = rustix::mount::unmount(target, rustix::mount::UnmountFlags::empty());
    log(called(vec!["umount".into(), target.display().to_string()], begun));
    unmounted.map_err(|error| fsarena_sys::Error::io("unmounting", target)(error.into()))
}

/// The record of a command that was done by its system call.
fn called(argv: Vec<String>, begun: Instant) -> CommandRecord {
    let ms = begun.elapsed().as_millis() as u64;
    CommandRecord { argv, times: 1, last: None, cwd: None, ended: "native".into(), ms, output: None }
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
pub fn drop_caches(dirs: &[&Path]) -> Result<(), Failed> {
    for dir in dirs {
        File::open(dir)
            .and_then(|dir| Ok(rustix::fs::syncfs(dir)?))
            .map_err(fsarena_sys::Error::io("syncing", dir))?;
    }
    std::fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| {
        let why = format!("dropping caches: {error}; run as root, or take `--set cache=warm`");
        Failed::new(Cause::Missing, why)
    })
}
