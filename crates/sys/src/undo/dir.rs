//! Directories that fsarena makes and removes.

use super::journal::{Journal, UndoGuard};
use super::step::{Identity, Undo};
use crate::{Error, tree};
use std::path::{Path, PathBuf};

/// A directory that fsarena made, and that every user can pass through. Dropping it removes it.
#[derive(Debug)]
pub struct MadeDir {
    path: PathBuf,
    /// None where it was there before: then it stays.
    armed: Option<UndoGuard>,
}

impl MadeDir {
    /// Makes a directory for files that the journal names one by one. With any other file in it, it stays,
    /// as does one that was there before.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn make(journal: &Journal, path: &Path) -> Result<MadeDir, Error> {
        let found = MadeDir { path: path.into(), armed: None };
        if path.is_dir() { Ok(found) } else { MadeDir::new(journal, path, false) }
    }

    /// Makes a directory for files that commands and workloads make, whose names fsarena does not know before. It
    /// goes with all in it.
    ///
    /// # Errors
    /// Where it exists already, or cannot be made.
    pub fn make_tree(journal: &Journal, path: &Path) -> Result<MadeDir, Error> {
        MadeDir::new(journal, path, true)
    }

    /// Takes over a directory that this process has just made and that goes with all in it.
    ///
    /// # Errors
    /// Where the journal cannot be written.
    pub fn adopt_tree(journal: &Journal, path: &Path) -> Result<MadeDir, Error> {
        let armed = journal.note(removal(path, Some(identity(path)?), true))?;
        Ok(MadeDir { path: path.into(), armed: Some(armed) })
    }

    fn new(journal: &Journal, path: &Path, whole: bool) -> Result<MadeDir, Error> {
        let make = || tree::make_dir(path).map_err(Error::io("making", path));
        let (mut armed, ()) = journal.making(removal(path, None, whole), make)?;
        armed.refine(removal(path, Some(identity(path)?), whole))?;
        Ok(MadeDir { path: path.into(), armed: Some(armed) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it anew where it is empty. Removing a mount point ends the copies that other mount namespaces have of a mount
    /// on it.
    ///
    /// # Errors
    /// Where it cannot be made again, or the journal cannot be written.
    pub fn renew(&mut self) -> Result<(), Error> {
        let Some(armed) = &mut self.armed else { return Ok(()) };
        armed.refine(removal(&self.path, None, false))?;
        if std::fs::remove_dir(&self.path).is_ok() {
            std::fs::create_dir(&self.path).map_err(Error::io("making", &self.path))?;
        }
        armed.refine(removal(&self.path, Some(identity(&self.path)?), false))
    }

    /// Removes it. Where it holds a file that fsarena did not make it stays, and the text names the file.
    ///
    /// # Errors
    /// Where it cannot be removed for another reason; it then stays in the journal.
    pub fn remove(self) -> Result<Option<String>, Error> {
        self.armed.map_or(Ok(None), UndoGuard::undo_or_keep)
    }
}

fn removal(path: &Path, identity: Option<Identity>, whole: bool) -> Undo {
    Undo::RemoveDir { path: path.into(), identity, whole }
}

fn identity(path: &Path) -> Result<Identity, Error> {
    let meta = path.symlink_metadata().map_err(Error::io("looking at", path))?;
    Ok(Identity::of(&meta))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_file_keeps_its_directory_and_nothing_is_left_to_recover() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        let (kept, tree) = (state.path().join("images"), state.path().join("work"));
        let images = MadeDir::make(&journal, &kept).unwrap();
        std::fs::write(kept.join("thesis"), "x").unwrap();
        let text = images.remove().unwrap().unwrap();
        assert!(text.contains("thesis") && kept.join("thesis").exists(), "{text}");
        assert!(MadeDir::make_tree(&journal, &kept).is_err());
        assert_eq!(MadeDir::make(&journal, &kept).unwrap().remove().unwrap(), None);
        let work = MadeDir::make_tree(&journal, &tree).unwrap();
        std::fs::write(tree.join("f0001"), "x").unwrap();
        assert_eq!(work.remove().unwrap(), None);
        assert!(!tree.exists() && kept.exists());
        drop(journal);
        let done = super::super::recover(&crate::kernel::SysRoot::host(), state.path(), &mut |_| {}).unwrap();
        assert_eq!(done, Default::default());
    }
}
