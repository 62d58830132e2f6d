//! Who holds the lock of a journal.

use super::journal::{NEW, private};
use crate::{Error, kernel::Kernel, process};
use std::fs::{File, TryLockError};
use std::{io::Write, os::unix::fs::MetadataExt, path::Path, time::Duration};

/// How often fsarena tries to lock a journal whose lock no process is seen to hold: the owner's last command may have it
/// until it begins.
const TRIES: u32 = 20;

/// What became of locking a journal.
pub(super) enum Lock {
    /// This process has it.
    Ours,
    /// Another process of this user, or of root, has it: the owner, or another recovery.
    Recovering(String),
    /// A process of another user has it, which cannot be the owner: versions up to 0.1.0 let all read the journals.
    Foreign(String),
}

/// Locks a journal, or finds out who holds it.
///
/// # Errors
/// Where the filesystem cannot lock.
pub(super) fn take(kernel: &Kernel, file: &File, path: &Path) -> Result<Lock, Error> {
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Lock::Ours),
            Err(TryLockError::Error(error)) => return Err(Error::io("locking", path)(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let own = [0, rustix::process::geteuid().as_raw()];
        let holders = holders(kernel, file).map_err(Error::io("looking at", path))?;
        if let Some((pid, _)) = holders.iter().find(|(_, user)| own.contains(user)) {
            return Ok(Lock::Recovering(process::name(kernel, *pid)));
        }
        if let Some((pid, user)) = holders.first() {
            let name = process::name(kernel, *pid);
            return Ok(Lock::Foreign(format!("process {name} of user {user}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Lock::Foreign("a process that fsarena cannot see".into()))
}

/// The living processes that locked a file, each with its user.
fn holders(kernel: &Kernel, file: &File) -> std::io::Result<Vec<(i32, u32)>> {
    let meta = file.metadata()?;
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let id = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    // `1: FLOCK  ADVISORY  WRITE 3407 fe:00:131 0 EOF`
    let text = kernel.read("proc/locks").unwrap_or_default();
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let pids = lines.filter(|words| words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&id.as_str()));
    let user = |pid: &i32| kernel.path(&format!("proc/{pid}")).metadata().map(|meta| meta.uid()).ok();
    Ok(pids.filter_map(|words| words[4].parse().ok()).filter_map(|pid| Some((pid, user(&pid)?))).collect())
}

/// Replaces a journal that another user has locked by a locked copy.
///
/// # Errors
/// Where the directory cannot be written.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<File, Error> {
    let new = path.with_extension(NEW);
    let put = || {
        // A recovery that was killed may have left one.
        let _ = std::fs::remove_file(&new);
        let mut file = private(&new)?;
        file.lock()?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        Ok(file)
    };
    put().map_err(Error::io("replacing", path))
}
