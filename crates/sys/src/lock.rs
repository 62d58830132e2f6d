//! Advisory locks of whole files (flock(2)): who holds one, and whether a locked file still has its name.

use crate::kernel::{SysRoot, names};
use crate::process;
use std::fs::{File, Metadata};
use std::{io, os::unix::fs::MetadataExt, path::Path};

/// A living process that holds the lock of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its number in the PID namespace of this process.
    pub pid: i32,
    /// The user that it runs as.
    pub uid: u32,
}

/// The living processes that hold the lock of a file. A process in another PID namespace that is not below this one, or on
/// another host, does not show: an empty list does not mean that the lock is free.
///
/// # Errors
/// Where the file cannot be looked at.
pub fn holders(kernel: &SysRoot, file: &File) -> io::Result<Vec<Holder>> {
    let meta = file.metadata()?;
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let text = kernel.read("proc/locks").unwrap_or_default();
    let locked = text.lines().filter_map(parse).filter(|lock| lock.inode == meta.ino());
    // Btrfs and overlayfs number their filesystem in stat(2) in another way than in the list.
    let is_it = |lock: &Lock| lock.device == device || has_open(kernel, lock.pid, &meta);
    let user = |pid: i32| kernel.path(&format!("proc/{pid}")).metadata().map(|meta| meta.uid()).ok();
    Ok(locked.filter(is_it).filter_map(|lock| Some(Holder { pid: lock.pid, uid: user(lock.pid)? })).collect())
}

/// A line of `/proc/locks` about a lock that a process holds.
struct Lock {
    pid: i32,
    device: (u32, u32),
    inode: u64,
}

/// Parses `1: FLOCK  ADVISORY  WRITE 3407 fe:00:131 0 EOF`. The lines of those who wait for a lock have an arrow.
fn parse(line: &str) -> Option<Lock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["FLOCK", _, _, pid, file, ..] = words.get(1..)? else { return None };
    let mut parts = file.split(':');
    let mut number = || u32::from_str_radix(parts.next()?, 16).ok();
    let device = (number()?, number()?);
    Some(Lock { pid: pid.parse().ok()?, device, inode: parts.next()?.parse().ok()? })
}

fn has_open(kernel: &SysRoot, pid: i32, file: &Metadata) -> bool {
    let dir = kernel.path(&format!("proc/{pid}/fd"));
    let is_it = |name: &String| dir.join(name).metadata().is_ok_and(|meta| same(&meta, file));
    // The files of another user are hidden, and so is a process that ended meanwhile.
    names(&dir).unwrap_or_default().iter().any(is_it)
}

/// Whether a path still names an open file. A process that waited for the lock of a file may get it after the file was
/// removed or replaced.
///
/// # Errors
/// Where the path cannot be looked at.
pub fn is_linked(file: &File, path: &Path) -> io::Result<bool> {
    let named = crate::found(path.symlink_metadata())?;
    let open = file.metadata()?;
    Ok(named.is_some_and(|named| same(&named, &open)))
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The processes that hold the lock of a file, for people.
pub fn describe_holders(kernel: &SysRoot, file: &File) -> String {
    let holders = holders(kernel, file).unwrap_or_default();
    if holders.is_empty() {
        return "a process that is not visible from here (in another container or PID namespace, or on another host)"
            .into();
    }
    let names: Vec<String> = holders.iter().map(|holder| process::name(kernel, holder.pid)).collect();
    format!("process {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_this_process_until_it_lets_go() {
        let (kernel, file) = (SysRoot::host(), tempfile::tempfile().unwrap());
        assert_eq!(holders(&kernel, &file).unwrap(), []);
        file.lock().unwrap();
        let pids: Vec<i32> = holders(&kernel, &file).unwrap().iter().map(|holder| holder.pid).collect();
        assert_eq!(pids, [std::process::id() as i32]);
        file.unlock().unwrap();
        assert_eq!(holders(&kernel, &file).unwrap(), []);
    }

    #[test]
    fn only_lines_of_whole_files_that_are_locked_count() {
        let lock = parse("1: FLOCK  ADVISORY  WRITE 3407 fe:1f:131 0 EOF").unwrap();
        assert_eq!((lock.pid, lock.device, lock.inode), (3407, (0xfe, 0x1f), 131));
        for line in [
            "1: -> FLOCK  ADVISORY  WRITE 3407 fe:00:131 0 EOF",
            "1: POSIX  ADVISORY  WRITE 7 fe:00:1 0 EOF",
            "",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_has_lost_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        assert!(is_linked(&file, &path).unwrap());
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        assert!(!is_linked(&file, &path).unwrap());
        std::fs::write(&path, "another").unwrap();
        assert!(!is_linked(&file, &path).unwrap());
    }
}
