//! Kernel attributes that fsarena changes and restores.

use crate::Error;
use crate::undo::{Armed, Journal, Undo};
use std::path::Path;

/// Writes a value to a kernel attribute and puts `former` back when it is undone.
///
/// # Errors
/// If the kernel rejects the value; then nothing changed.
pub fn set(journal: &Journal, path: &Path, value: &str, former: &str) -> Result<Armed, Error> {
    let how = Undo::RestoreAttr { path: path.into(), value: former.into() };
    Ok(journal.making(how, || write(path, value))?.0)
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
