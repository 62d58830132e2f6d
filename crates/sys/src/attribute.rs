//! Kernel attributes that fsarena changes and restores.

use crate::Error;
use crate::undo::{Journal, Undo, UndoGuard};
use std::path::Path;

/// Writes a value to a kernel attribute and puts `former` back when it is undone.
///
/// # Errors
/// If the kernel rejects the value; then nothing changed.
pub fn set(journal: &Journal, path: &Path, value: &str, former: &str) -> Result<UndoGuard, Error> {
    let how = Undo::RestoreAttr { path: path.into(), value: former.into(), disk: disk_of(path) };
    Ok(journal.making(how, || write(path, value))?.0)
}

/// Whether an attribute may still belong to the disk of this number. A loop device that was detached and attached again is
/// another disk with the same name, and its attributes are of its new user.
pub(crate) fn may_be_of(path: &Path, disk: Option<u64>) -> bool {
    disk.zip(disk_of(path)).is_none_or(|(disk, now)| disk == now)
}

/// The number that the kernel gives each disk once (Linux 5.15), of the disk that an attribute belongs to.
pub(crate) fn disk_of(attribute: &Path) -> Option<u64> {
    let read = |dir: &Path| std::fs::read_to_string(dir.join("diskseq")).ok()?.trim().parse().ok();
    attribute.ancestors().skip(1).find_map(read)
}

/// Gives a kernel attribute a value.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Error> {
    std::fs::write(path, value).map_err(|error| Error::Unfit {
        what: path.into(),
        why: format!("the kernel does not take `{value}`: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_of_another_disk_keeps_its_value() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let (disk, queue) = (dir.path().join("diskseq"), dir.path().join("queue"));
        std::fs::create_dir(&queue).unwrap();
        let path = queue.join("scheduler");
        for (now, expected) in [("7", "none"), ("8", "of another run")] {
            std::fs::write(&disk, "7\n").unwrap();
            std::fs::write(&path, "none").unwrap();
            let armed = set(&journal, &path, "bfq", "none").unwrap();
            std::fs::write(&disk, now).unwrap();
            std::fs::write(&path, "of another run").unwrap();
            armed.undo().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn the_former_value_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let path = dir.path().join("scheduler");
        std::fs::write(&path, "none").unwrap();
        let armed = set(&journal, &path, "bfq", "none").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "bfq");
        armed.undo().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "none");
        let error = set(&journal, dir.path(), "x", "y").unwrap_err().to_string();
        assert!(error.contains("does not take `x`"), "{error}");
    }
}
