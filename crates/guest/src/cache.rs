//! The cache of kernels and facts about them, shared by runs.

use crate::digest;
use fsarena_sys::{dirs, kernel::SysRoot, process};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fs::Metadata, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt};

/// Damage found in the cache, until a report takes it: fsarena looks for kernels before there is a run to tell.
static DAMAGE: Mutex<Vec<String>> = Mutex::new(vec![]);

/// Root's directory for kernels.
pub const SHARED: &str = "/var/cache/fsarena";

/// The directory for fetched and unpacked kernels: `$FSARENA_CACHE_DIR`, else `/var/cache/fsarena` for root, else
/// `$XDG_CACHE_HOME/fsarena`, else `~/.cache/fsarena`, else (without `$HOME`) the directory for temporary files.
pub fn dir() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    dirs::user_dir("FSARENA_CACHE_DIR", SHARED, "XDG_CACHE_HOME", || match dirs::home() {
        Some(home) if home.is_dir() => home.join(".cache/fsarena"),
        _ => std::env::temp_dir().join(format!("fsarena-cache-{user}")),
    })
}

/// Notes that an entry does not match its digest, and what fsarena does about that.
pub fn was_damaged(entry: &Path, remedy: &str) {
    let line = format!("{}: this file of the cache was damaged; fsarena {remedy}", entry.display());
    DAMAGE.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Takes what was noted of damage since the last call: a line for each entry.
pub fn damage() -> Vec<String> {
    std::mem::take(&mut DAMAGE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The beginning of this boot's id: another boot may be of another machine. Where the boot is unknown, a word that no other
/// process has.
pub(crate) fn this_boot() -> String {
    let boot = process::boot_id(&SysRoot::host()).unwrap_or_else(|_| format!("p{}", std::process::id()));
    boot.chars().take(8).collect()
}

/// The digest of what a file is at this moment: every write to the file changes this. None where it is not there.
pub(crate) fn state_of(path: &Path) -> Option<String> {
    let meta = path.metadata().ok()?;
    let changed = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()].map(i64::to_le_bytes);
    let which = [meta.dev(), meta.ino(), meta.len()].map(u64::to_le_bytes);
    Some(digest::of_parts([path.as_os_str().as_bytes(), which.as_flattened(), changed.as_flattened()]))
}

/// Whether only this user can write to a directory of the cache: QEMU trusts the state that it resumes from.
pub(crate) fn is_ours(dir: &Path) -> bool {
    let ours = |meta: &Metadata| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
    dir.symlink_metadata().is_ok_and(|meta| ours(&meta) && meta.mode() & 0o002 == 0)
}

/// Notes that an entry was used, so that it is not among the oldest.
pub(crate) fn used(entry: &Path) {
    // Without it the entry is merely made again one day.
    let _ = std::fs::File::open(entry).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes entries whose names begin so, but for the newest and those that are not as old as this: some run may have
/// more of them than are kept.
pub(crate) fn keep_newest(cache: &Path, prefix: &str, count: usize, age: Duration) {
    let entries = std::fs::read_dir(cache).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let when =
        |path: &Path| path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut found: Vec<_> = named.map(|entry| (when(&entry.path()), entry.path())).collect();
    found.sort();
    found.truncate(found.len().saturating_sub(count));
    for (used, path) in found {
        if used.elapsed().is_ok_and(|idle| idle > age) {
            remove(&path);
        }
    }
}

/// Removes a file or a directory. It is whole until it has another name: other processes see all of it or nothing.
pub(crate) fn remove(path: &Path) {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".gone-{}", std::process::id()));
    let gone = path.with_file_name(name);
    // Another process may have removed it.
    let _ = std::fs::rename(path, &gone).and_then(|()| match gone.is_dir() {
        true => std::fs::remove_dir_all(&gone),
        false => std::fs::remove_file(&gone),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_a_kind_go() {
        const AGE: Duration = Duration::from_secs(60);
        let dir = tempfile::tempdir().unwrap();
        for (age, name) in ["vm-old", "vm-used", "vm-file", "vm-new", "other"].into_iter().rev().enumerate() {
            let path = dir.path().join(name);
            match name {
                "vm-file" => std::fs::write(&path, "").unwrap(),
                _ => std::fs::create_dir(&path).unwrap(),
            }
            let file = std::fs::File::open(&path).unwrap();
            file.set_modified(SystemTime::now() - (1 + age as u32) * 2 * AGE).unwrap();
        }
        used(&dir.path().join("vm-old"));
        keep_newest(dir.path(), "vm-", 1, 100 * AGE);
        let left = |name: &str| dir.path().join(name).exists();
        assert!(left("vm-used") && left("vm-file"), "none is that old");
        keep_newest(dir.path(), "vm-", 2, AGE);
        assert!(left("vm-old") && left("vm-new") && left("other") && !left("vm-used") && !left("vm-file"));
    }

    #[test]
    fn a_file_that_was_written_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel");
        std::fs::write(&path, "one").unwrap();
        let before = state_of(&path);
        assert!(before.is_some() && before == state_of(&path));
        std::fs::write(&path, "another").unwrap();
        assert_ne!(before, state_of(&path));
        assert_eq!(state_of(&dir.path().join("none")), None);
    }

    #[test]
    fn what_others_can_write_to_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_ours(dir.path()) && !is_ours(&dir.path().join("none")));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(!is_ours(&link));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        assert!(!is_ours(dir.path()));
    }
}
