//! Where kernels, and what is known of them, are kept between runs.

use fsarena_sys::kernel::Kernel;
use fsarena_sys::process;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where root keeps kernels.
pub const SHARED: &str = "/var/cache/fsarena";

/// Where fetched and unpacked kernels are kept: `$FSARENA_CACHE_DIR`, else `/var/cache/fsarena` for root, else
/// `$XDG_CACHE_HOME/fsarena`, else `~/.cache/fsarena`, and in the directory of temporary files where there is no home.
pub fn dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = variable("FSARENA_CACHE_DIR") {
        return dir;
    }
    if rustix::process::geteuid().is_root() {
        return SHARED.into();
    }
    let home = || variable("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache"));
    let user = rustix::process::geteuid().as_raw();
    variable("XDG_CACHE_HOME")
        .or_else(home)
        .map_or_else(|| std::env::temp_dir().join(format!("fsarena-cache-{user}")), |dir| dir.join("fsarena"))
}

/// The beginning of this boot's id: another boot may be of another machine.
pub(crate) fn this_boot() -> String {
    process::boot_id(&Kernel::host()).chars().take(8).collect()
}

/// What a file is at this moment: whoever writes to it changes this.
pub(crate) fn state_of(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let meta = path.metadata().ok();
    let state = meta.map(|meta| {
        (
            meta.dev(),
            meta.ino(),
            meta.len(),
            (meta.mtime(), meta.mtime_nsec()),
            (meta.ctime(), meta.ctime_nsec()),
        )
    });
    (path, state).hash(&mut hasher);
    hasher.finish()
}

/// Notes that an entry was used, so that it is not among the oldest.
pub(crate) fn used(entry: &Path) {
    // Without it the entry is merely made again one day.
    let _ = std::fs::File::open(entry).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes entries whose names begin so, but for those used last.
pub(crate) fn keep_newest(cache: &Path, prefix: &str, count: usize) {
    let entries = std::fs::read_dir(cache).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let when =
        |path: &Path| path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut found: Vec<_> = named.map(|entry| (when(&entry.path()), entry.path())).collect();
    found.sort();
    found.truncate(found.len().saturating_sub(count));
    for (_, path) in found {
        // Somebody else may have removed it.
        let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_oldest_of_a_kind_go() {
        let dir = tempfile::tempdir().unwrap();
        for (age, name) in ["vm-old", "vm-used", "vm-new", "other"].into_iter().rev().enumerate() {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let file = std::fs::File::open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60 * (1 + age as u64))).unwrap();
        }
        used(&dir.path().join("vm-old"));
        keep_newest(dir.path(), "vm-", 2);
        let left = |name: &str| dir.path().join(name).is_dir();
        assert!(left("vm-old") && left("vm-new") && left("other") && !left("vm-used"));
    }

    #[test]
    fn a_file_that_was_written_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel");
        std::fs::write(&path, "one").unwrap();
        let before = state_of(&path);
        assert_eq!(before, state_of(&path));
        std::fs::write(&path, "another").unwrap();
        assert_ne!(before, state_of(&path));
    }
}
