//! The cache of kernels and facts about them, shared by runs: [`fsarena_sys::dirs::cache_dir`] and
//! [`fsarena_sys::dirs::SHARED_CACHE`]. An entry is a file or a directory in the cache.
//!
//! Large files carry their digest in their name. A kernel package has the digests of its files in a list beside them.
//! fsarena reads and compares all these files once after each boot, because a power failure can lose what was written. Until
//! the next boot it compares only their inodes, sizes and times.

use fsarena_sys::{kernel::SysRoot, none_if_missing, process};
use sha2::{Digest, Sha256};
use std::fs::{File, Metadata, Permissions};
use std::io::{Read, Result};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use walkdir::WalkDir;

/// Damage found in the cache, for the next report. fsarena looks for kernels before a run exists that could record it.
static DAMAGE: Mutex<Vec<String>> = Mutex::new(vec![]);

/// Records that an entry does not match its digest; `remedy` is what fsarena does about it.
pub fn record_damage(entry: &Path, remedy: &str) {
    let line = format!("{}: this entry of the cache was damaged; fsarena {remedy}", entry.display());
    DAMAGE.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Returns the damage that was recorded since the last call, a line for each entry.
pub fn take_damage() -> Vec<String> {
    std::mem::take(&mut DAMAGE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The first characters of the id of this boot, for the names of entries that are valid only until the next boot, which
/// may be on another machine. If the id is unknown, a text with the id of this process.
pub(crate) fn boot_prefix() -> String {
    let boot = process::boot_id(&SysRoot::host()).unwrap_or_else(|_| format!("p{}", std::process::id()));
    boot.chars().take(8).collect()
}

/// A digest of the path, identity, size and timestamps of a file, which every write changes. None if the file is missing.
pub(crate) fn digest_state(path: &Path) -> Option<String> {
    let meta = path.metadata().ok()?;
    let timestamps = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()].map(i64::to_le_bytes);
    let identity_and_size = [meta.dev(), meta.ino(), meta.len()].map(u64::to_le_bytes);
    Some(digest_parts([path.as_os_str().as_bytes(), identity_and_size.as_flattened(), timestamps.as_flattened()]))
}

/// Whether a directory of the cache belongs to this user and is not writable for everybody. Saved machines require
/// this, because QEMU trusts the state of a machine that it loads.
pub(crate) fn is_private_dir(dir: &Path) -> bool {
    let is_own_dir = |meta: &Metadata| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
    dir.symlink_metadata().is_ok_and(|meta| is_own_dir(&meta) && meta.mode() & 0o002 == 0)
}

/// Sets the time of last use of an entry to now, so that [`remove_oldest`] removes others first.
pub(crate) fn mark_used(entry: &Path) {
    // If this fails, the entry is only removed earlier and made again.
    let _ = std::fs::File::open(entry).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes the oldest entries whose names have this prefix: all but the newest `kept_count` and those used within
/// `min_idle`, which a run in progress may need.
pub(crate) fn remove_oldest(cache: &Path, prefix: &str, kept_count: usize, min_idle: Duration) {
    let entries = std::fs::read_dir(cache).into_iter().flatten().flatten();
    let with_prefix = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let last_use = |path: &Path| path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut candidates: Vec<_> = with_prefix.map(|entry| (last_use(&entry.path()), entry.path())).collect();
    candidates.sort();
    candidates.truncate(candidates.len().saturating_sub(kept_count));
    for (last_use, path) in candidates {
        if last_use.elapsed().is_ok_and(|idle| idle > min_idle) {
            remove_entry(&path);
        }
    }
}

/// Removes a file or a directory. It is renamed first, so that other processes see either all of it or none.
pub(crate) fn remove_entry(path: &Path) {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".gone-{}", std::process::id()));
    let renamed = path.with_file_name(name);
    // Another process may have removed it.
    if std::fs::rename(path, &renamed).is_ok() {
        let _ = if renamed.is_dir() { std::fs::remove_dir_all(&renamed) } else { std::fs::remove_file(&renamed) };
    }
}

/// The number of bytes of SHA-256 in a digest, enough to find any damage.
const DIGEST_BYTES: usize = 16;
/// The number of bytes that are read at once.
const PART_BYTES: usize = 64 << 10;

/// Computes a digest from parts.
#[derive(Default)]
pub(crate) struct Digester(Sha256);

impl Digester {
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    pub(crate) fn finish(self) -> String {
        self.0.finalize()[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The digest of everything in a reader.
pub fn digest(mut reader: impl Read) -> Result<String> {
    let (mut digester, mut part) = (Digester::default(), vec![0; PART_BYTES]);
    loop {
        match reader.read(&mut part)? {
            0 => return Ok(digester.finish()),
            count => digester.add(&part[..count]),
        }
    }
}

/// The digest of several parts in this order, each with its length. Every build computes the same digest, so it can
/// name an entry of the cache. The hashers of the standard library do not promise this.
pub fn digest_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> String {
    let mut digester = Digester::default();
    for part in parts {
        let part = part.as_ref();
        digester.add(&(part.len() as u64).to_le_bytes());
        digester.add(part);
    }
    digester.finish()
}

/// The name of an entry with this digest.
pub(crate) fn name_with_digest(base: &str, digest: &str) -> String {
    format!("{base}.{digest}")
}

/// The entries of a directory whose names [`name_with_digest`] made from this base.
pub(crate) fn find_entries(dir: &Path, base: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_entry = |name: &str| {
        let digest = name.strip_prefix(base).and_then(|rest| rest.strip_prefix('.'));
        digest.is_some_and(|digest| {
            digest.len() == 2 * DIGEST_BYTES && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_entry)).map(|entry| entry.path()).collect()
}

/// Whether the name of an entry has the digest of these contents.
pub(crate) fn matches_digest(entry: &Path, contents: impl Read) -> bool {
    let expected = entry.extension().and_then(|digest| digest.to_str());
    expected.is_some() && digest(contents).ok().as_deref() == expected
}

/// The name of the list of digests, which has a line for each file.
const DIGEST_LIST: &str = "digests";
/// The name of the file with the result of [`digest_package_state`] when the package was last verified.
const VERIFIED_STATE: &str = "verified";
/// The directories of a package that guests use.
const PACKAGE_DIRS: [&str; 3] = ["boot", "lib", "usr/lib"];

/// Writes the list of digests of a package.
///
/// # Errors
/// A file cannot be read, or the list not written.
pub(crate) fn write_digest_list(package: &Path) -> Result<()> {
    write_for_all_users(&package.join(DIGEST_LIST), &list_digests(package)?)
}

/// Returns whether every file of a package matches its digest. Reads the files only if they changed, or the machine
/// booted, since the last verification. An older fsarena unpacked packages without a list: such a package passes and
/// gets a list.
pub(crate) fn verify_package(package: &Path) -> bool {
    let Ok(state) = digest_package_state(package) else { return false };
    let verified_state = package.join(VERIFIED_STATE);
    if std::fs::read_to_string(&verified_state).is_ok_and(|verified| verified == state) {
        return true;
    }
    // Only root can write to the cache that all users share. Other users read the files each time until root has verified them.
    match none_if_missing(std::fs::read_to_string(package.join(DIGEST_LIST))) {
        Ok(Some(list)) => {
            let is_undamaged = list_digests(package).is_ok_and(|current| current == list);
            if is_undamaged {
                let _ = write_for_all_users(&verified_state, &state);
            }
            is_undamaged
        }
        Ok(None) => {
            let _ = write_digest_list(package);
            true
        }
        Err(_) => false,
    }
}

/// Writes a file that all users can read, since all may use the packages that root unpacked.
fn write_for_all_users(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// The files of a package that guests use, in the order of their names.
fn find_package_files(package: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    for dir in PACKAGE_DIRS.iter().map(|dir| package.join(dir)).filter(|dir| dir.is_dir()) {
        for entry in WalkDir::new(dir).sort_by_file_name() {
            let entry = entry?;
            if entry.file_type().is_file() {
                files.push(entry.into_path());
            }
        }
    }
    Ok(files)
}

/// The list of digests: for each file of a package that guests use, a line with its digest and its path in the package.
fn list_digests(package: &Path) -> Result<String> {
    let mut list = String::new();
    for file in find_package_files(package)? {
        let name = file.strip_prefix(package).unwrap_or(&file);
        list += &format!("{}  {}\n", digest(File::open(&file)?)?, name.display());
    }
    Ok(list)
}

/// A digest of the id of this boot, and of the inodes, sizes and times of a package's files and of its list of digests.
fn digest_package_state(package: &Path) -> Result<String> {
    let mut files = find_package_files(package)?;
    files.push(package.join(DIGEST_LIST));
    let states = files.iter().map(|file| digest_state(file).unwrap_or_default());
    Ok(digest_parts(std::iter::once(boot_prefix()).chain(states)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_with_a_prefix_are_removed() {
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
        mark_used(&dir.path().join("vm-old"));
        remove_oldest(dir.path(), "vm-", 1, 100 * AGE);
        let exists = |name: &str| dir.path().join(name).exists();
        assert!(exists("vm-used") && exists("vm-file"), "no entry is that old");
        remove_oldest(dir.path(), "vm-", 2, AGE);
        assert!(exists("vm-old") && exists("vm-new") && exists("other") && !exists("vm-used") && !exists("vm-file"));
    }

    #[test]
    fn a_write_changes_the_state_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel");
        std::fs::write(&path, "one").unwrap();
        let before = digest_state(&path);
        assert!(before.is_some() && before == digest_state(&path));
        std::fs::write(&path, "another").unwrap();
        assert_ne!(before, digest_state(&path));
        assert_eq!(digest_state(&dir.path().join("none")), None);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_private() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_private_dir(dir.path()) && !is_private_dir(&dir.path().join("none")));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(!is_private_dir(&link));
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(!is_private_dir(dir.path()));
    }

    #[test]
    fn all_users_can_read_the_list_of_digests() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join(DIGEST_LIST);
        // Writing to a file does not change its mode.
        std::fs::write(&list, "").unwrap();
        std::fs::set_permissions(&list, Permissions::from_mode(0o600)).unwrap();
        write_digest_list(dir.path()).unwrap();
        assert_eq!(list.metadata().unwrap().mode() & 0o777, 0o644);
        assert!(verify_package(dir.path()));
    }

    #[test]
    fn a_package_is_read_again_when_a_file_changed_or_the_machine_booted() {
        let dir = tempfile::tempdir().unwrap();
        let (module, verified_state) = (dir.path().join("lib/a.ko"), dir.path().join(VERIFIED_STATE));
        std::fs::create_dir(dir.path().join("lib")).unwrap();
        std::fs::write(&module, "sound").unwrap();
        write_digest_list(dir.path()).unwrap();
        assert!(verify_package(dir.path()) && verified_state.is_file());
        assert!(verify_package(dir.path()));
        let state = std::fs::read_to_string(&verified_state).unwrap();
        assert_eq!(digest_package_state(dir.path()).unwrap(), state);
        std::fs::write(&verified_state, "the state after another boot").unwrap();
        assert!(verify_package(dir.path()));
        assert_eq!(std::fs::read_to_string(&verified_state).unwrap(), state);
        std::fs::write(&module, "damaged").unwrap();
        assert!(!verify_package(dir.path()));
        std::fs::write(&module, "sound").unwrap();
        std::fs::write(dir.path().join(DIGEST_LIST), "00  lib/a.ko\n").unwrap();
        assert!(!verify_package(dir.path()));
    }

    #[test]
    fn the_digest_is_the_beginning_of_sha256() {
        assert_eq!(digest(&b"abc"[..]).unwrap(), "ba7816bf8f01cfea414140de5dae2223");
    }

    #[test]
    fn the_digest_of_parts_is_the_same_in_every_build() {
        // printf '\1\0\0\0\0\0\0\0a\2\0\0\0\0\0\0\0bc' | sha256sum
        assert_eq!(digest_parts(["a", "bc"]), "9a8acca1b6c6c0befd3fbc756aed625d");
        assert_ne!(digest_parts(["ab", "c"]), digest_parts(["a", "bc"]));
        assert_ne!(digest_parts(["", "a"]), digest_parts(["a", ""]));
    }

    #[test]
    fn an_entry_matches_only_its_own_contents() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join(name_with_digest("state", &digest(&b"abc"[..]).unwrap()));
        std::fs::write(&entry, "abc").unwrap();
        std::fs::write(dir.path().join("state.other"), "").unwrap();
        assert_eq!(find_entries(dir.path(), "state"), std::slice::from_ref(&entry));
        assert!(
            matches_digest(&entry, &b"abc"[..])
                && !matches_digest(&entry, &b"abd"[..])
                && !matches_digest(&entry, &b""[..])
        );
    }
}
