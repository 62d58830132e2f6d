//! Advisory locks of whole files (flock(2)): lock files, which processes hold a lock, and whether a locked file still has its
//! name.

use crate::kernel::{SysRoot, sorted_names};
use crate::{Error, process};
use std::fs::{File, Metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::{io, ops::Deref, path::Path};

/// Opens the file `NAME.lock` in a state directory, by which runs exclude each other; makes it if it is missing. Only
/// its owner may open it: another user who opened it could lock it, and runs would wait or be refused.
///
/// # Errors
/// The file cannot be opened.
pub fn open_lock_file(state_dir: &Path, name: &str) -> Result<File, Error> {
    let path = state_dir.join(format!("{name}.lock"));
    let opened = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
    opened.map_err(Error::io("opening", path))
}

/// A locked file. Dropping it unlocks the file at once. Closing alone might not: a child process that another thread
/// has just forked also has the file open, and so keeps the lock, until it calls exec(2).
#[derive(Debug)]
pub struct LockedFile(File);

impl LockedFile {
    /// Takes over a file that the caller has locked.
    pub fn new(file: File) -> LockedFile {
        LockedFile(file)
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Unlocking fails only on filesystems that do not support locks.
        let _ = self.0.unlock();
    }
}

/// A living process that holds the lock of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Its number in the PID namespace of this process.
    pub pid: i32,
    /// The user that it runs as.
    pub uid: u32,
}

/// The living processes that hold the lock of a file. `/proc` does not show a process on another host, or in a PID namespace
/// that is not below this one, so an empty list does not mean that the lock is free.
///
/// # Errors
/// The metadata of the file cannot be read.
pub fn find_lock_holders(kernel: &SysRoot, file: &File) -> io::Result<Vec<LockHolder>> {
    let meta = file.metadata()?;
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let mut holders = vec![];
    for lock in kernel.read("proc/locks").unwrap_or_default().lines().filter_map(parse_lock) {
        // stat(2) on btrfs and overlayfs returns another device number than `/proc/locks`.
        let is_lock_of_file =
            lock.inode == meta.ino() && (lock.device == device || has_file_open(kernel, lock.pid, &meta));
        let process = kernel.path(&format!("proc/{}", lock.pid));
        if is_lock_of_file && let Ok(process) = process.metadata() {
            holders.push(LockHolder { pid: lock.pid, uid: process.uid() });
        }
    }
    Ok(holders)
}

/// A line of `/proc/locks`: a lock of a file that a process holds.
struct HeldLock {
    pid: i32,
    /// The major and minor number of the device of the file.
    device: (u32, u32),
    /// The inode number of the file.
    inode: u64,
}

/// Parses `1: FLOCK  ADVISORY  WRITE 3407 fe:00:131 0 EOF`. None for a process that waits for a lock (`1: -> FLOCK`), and for
/// other types of locks.
fn parse_lock(line: &str) -> Option<HeldLock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["FLOCK", _, _, pid, file, ..] = words.get(1..)? else { return None };
    let mut parts = file.split(':');
    let mut device_number = || u32::from_str_radix(parts.next()?, 16).ok();
    let device = (device_number()?, device_number()?);
    Some(HeldLock { pid: pid.parse().ok()?, device, inode: parts.next()?.parse().ok()? })
}

/// Whether a process has a file open; false if this user may not see that, or the process has ended.
fn has_file_open(kernel: &SysRoot, pid: i32, file: &Metadata) -> bool {
    let dir = kernel.path(&format!("proc/{pid}/fd"));
    let is_this_file = |name: &String| dir.join(name).metadata().is_ok_and(|meta| is_same_file(&meta, file));
    sorted_names(&dir).unwrap_or_default().iter().any(is_this_file)
}

/// Whether an open file is still the file at this path. A process that waited for the lock of a file may get it after
/// the file was removed or replaced.
///
/// # Errors
/// The metadata of the path cannot be read.
pub fn is_still_at_path(file: &File, path: &Path) -> io::Result<bool> {
    let at_path = crate::none_if_missing(path.symlink_metadata())?;
    let opened = file.metadata()?;
    Ok(at_path.is_some_and(|at_path| is_same_file(&at_path, &opened)))
}

fn is_same_file(first: &Metadata, second: &Metadata) -> bool {
    (first.dev(), first.ino()) == (second.dev(), second.ino())
}

/// The processes that hold the lock of a file, for messages: `process 1234 (fsarena)`.
pub fn describe_lock_holders(kernel: &SysRoot, file: &File) -> String {
    let holders = find_lock_holders(kernel, file).unwrap_or_default();
    if holders.is_empty() {
        return "a process that is not visible from here (in another container or PID namespace, or on another host)"
            .into();
    }
    let names: Vec<String> = holders.iter().map(|holder| process::describe(kernel, holder.pid)).collect();
    format!("process {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_a_lock_until_it_unlocks() {
        let (kernel, file) = (SysRoot::host(), tempfile::tempfile().unwrap());
        assert_eq!(find_lock_holders(&kernel, &file).unwrap(), []);
        file.lock().unwrap();
        let pids: Vec<i32> = find_lock_holders(&kernel, &file).unwrap().iter().map(|holder| holder.pid).collect();
        assert_eq!(pids, [std::process::id() as i32]);
        file.unlock().unwrap();
        assert_eq!(find_lock_holders(&kernel, &file).unwrap(), []);
    }

    #[test]
    fn a_dropped_lock_is_free_even_if_a_starting_process_still_has_the_file_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let locked = File::open(file.path()).unwrap();
        locked.lock().unwrap();
        let _file_of_starting_process = locked.try_clone().unwrap();
        let locked = LockedFile::new(locked);
        assert!(file.as_file().try_lock().is_err());
        drop(locked);
        file.as_file().try_lock().unwrap();
    }

    #[test]
    fn only_held_flock_locks_are_parsed() {
        let lock = parse_lock("1: FLOCK  ADVISORY  WRITE 3407 fe:1f:131 0 EOF").unwrap();
        assert_eq!((lock.pid, lock.device, lock.inode), (3407, (0xfe, 0x1f), 131));
        for line in
            ["1: -> FLOCK  ADVISORY  WRITE 3407 fe:00:131 0 EOF", "1: POSIX  ADVISORY  WRITE 7 fe:00:1 0 EOF", ""]
        {
            assert!(parse_lock(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_removed_or_replaced_file_is_no_longer_at_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        assert!(is_still_at_path(&file, &path).unwrap());
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        assert!(!is_still_at_path(&file, &path).unwrap());
        std::fs::write(&path, "another").unwrap();
        assert!(!is_still_at_path(&file, &path).unwrap());
    }
}
