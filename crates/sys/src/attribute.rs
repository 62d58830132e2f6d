//! Kernel attributes: files below `/sys` that fsarena sets, and later restores to their former values.

use crate::lock::{LockedFile, open_lock_file};
use crate::undo::{Journal, UndoGuard, UndoStep};
use crate::{Error, cancel};
use std::fs::TryLockError;
use std::{path::Path, time::Duration};

/// The interval at which fsarena checks whether another run has released a lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Locks some attributes of the whole machine until the returned file is dropped. Waits while another run has locked
/// them. `name` is the name of their lock file.
///
/// Without the lock, another run would read the value that this run sets, take it for the former value, and restore it.
///
/// # Errors
/// The lock file cannot be opened, or a signal arrived.
pub fn lock(journal: &Journal, name: &str) -> Result<LockedFile, Error> {
    let file = open_lock_file(&journal.state_dir(), name)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(LockedFile::new(file)),
            Err(TryLockError::Error(error)) => return Err(Error::io("locking", name)(error)),
            Err(TryLockError::WouldBlock) => cancel::check()?,
        }
        std::thread::sleep(LOCK_POLL_INTERVAL);
    }
}

/// Writes a value to a kernel attribute. The returned guard writes `former` back.
///
/// # Errors
/// The journal cannot be written, or the kernel rejects the value. The attribute is unchanged.
pub fn set(journal: &Journal, path: &Path, value: &str, former: &str) -> Result<UndoGuard, Error> {
    let step = UndoStep::RestoreAttribute { path: path.into(), value: former.into(), diskseq: diskseq_of(path) };
    Ok(journal.record_and_do(step, || write(path, value))?.0)
}

/// Whether an attribute may still belong to the disk with this sequence number (`diskseq`); true if a number is unknown. A loop
/// device that was detached and attached again is another disk with the same name, whose new user may have set the attribute.
pub(crate) fn may_belong_to_disk(path: &Path, diskseq: Option<u64>) -> bool {
    diskseq.zip(diskseq_of(path)).is_none_or(|(former, current)| former == current)
}

/// The sequence number (`diskseq`, Linux 5.15) of the disk that an attribute belongs to; the kernel never reuses it.
/// None if the attribute belongs to no disk, or the kernel has no sequence numbers.
pub(crate) fn diskseq_of(attribute: &Path) -> Option<u64> {
    let read_diskseq = |dir: &Path| std::fs::read_to_string(dir.join("diskseq")).ok()?.trim().parse().ok();
    attribute.ancestors().skip(1).find_map(read_diskseq)
}

/// Writes a value to a kernel attribute.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Error> {
    std::fs::write(path, value).map_err(|error| Error::Unusable {
        object: path.into(),
        why: format!("the kernel does not accept `{value}`: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_waits_for_locked_attributes() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let held = lock(&journal, "speed").unwrap();
        lock(&journal, "other").unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || sender.send(lock(&journal, "speed").is_ok()));
        assert!(receiver.recv_timeout(Duration::from_millis(150)).is_err());
        drop(held);
        assert_eq!(receiver.recv(), Ok(true));
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn undo_leaves_the_attribute_of_another_disk_alone() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let (diskseq, queue) = (dir.path().join("diskseq"), dir.path().join("queue"));
        std::fs::create_dir(&queue).unwrap();
        let path = queue.join("scheduler");
        for (current_diskseq, expected) in [("7", "none"), ("8", "of another run")] {
            std::fs::write(&diskseq, "7\n").unwrap();
            std::fs::write(&path, "none").unwrap();
            let guard = set(&journal, &path, "bfq", "none").unwrap();
            std::fs::write(&diskseq, current_diskseq).unwrap();
            std::fs::write(&path, "of another run").unwrap();
            guard.undo().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn undo_restores_the_former_value() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let path = dir.path().join("scheduler");
        std::fs::write(&path, "none").unwrap();
        let guard = set(&journal, &path, "bfq", "none").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "bfq");
        guard.undo().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "none");
        let error = set(&journal, dir.path(), "x", "y").unwrap_err().to_string();
        assert!(error.contains("does not accept `x`"), "{error}");
    }
}
