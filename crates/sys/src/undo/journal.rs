//! The undo journal of this process.

use super::owner::Owner;
use super::step::Undo;
use crate::{Error, cancel, kernel::SysRoot, own_dir};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs::File, io::Write};

/// One line of a journal. Its words in the file are those of fsarena 0.1.0: journals outlive versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// Who keeps it. Always the first line.
    Owner(Owner),
    /// fsarena is about to set something up, or knows more of it.
    #[serde(rename = "arm", alias = "variant")]
    Setup { id: u64, how: Undo },
    /// It is undone.
    Done { id: u64 },
}

impl Line {
    /// Its text in a journal, with the end of the line.
    ///
    /// # Errors
    /// A path that is not UTF-8 cannot be written as JSON.
    pub fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// Where undo journals and the list of written signatures are kept: `$FSARENA_STATE_DIR`, else
/// `/var/lib/fsarena` for root, else `$XDG_STATE_HOME/fsarena`, else `~/.local/state/fsarena`.
pub fn state_dir() -> PathBuf {
    let below_home = || own_dir::home().unwrap_or_else(|| "/".into()).join(".local/state/fsarena");
    own_dir::find("FSARENA_STATE_DIR", "/var/lib/fsarena", "XDG_STATE_HOME", below_home)
}

/// Makes the directory of the undo journals where it is missing.
///
/// # Errors
/// [`Error::State`] where that is not possible.
pub fn make_state_dir(state_dir: &Path) -> Result<(), Error> {
    let dir = journals(state_dir);
    make_private(&dir).map_err(|source| Error::State { dir, source })
}

/// The extension of a journal.
pub(super) const JOURNAL: &str = "jsonl";
/// The extension of a journal that does not say yet whose it is.
pub(super) const NEW: &str = "new";

/// The directory of the journals in a state directory.
pub(super) fn journals(state_dir: &Path) -> PathBuf {
    state_dir.join("undo")
}

/// The undo journal of this process. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    next: u64,
    left: usize,
    /// A signal waits until everything is undone.
    _in_order: cancel::InOrder,
}

/// Something that is set up and will be undone, at the latest when this is dropped.
#[derive(Debug)]
#[must_use = "it is undone when dropped"]
pub struct UndoGuard {
    journal: Journal,
    id: u64,
    how: Undo,
    live: bool,
}

impl Journal {
    /// A new journal. `about` says what it is for: the directory of the run.
    ///
    /// Commands run from now on carry its name in their environment, so that [`super::recover`] can end
    /// those that outlive this process.
    ///
    /// # Errors
    /// Where the state directory cannot be written.
    pub fn create(state_dir: &Path, about: &str) -> Result<Journal, Error> {
        let dir = journals(state_dir);
        make_state_dir(state_dir)?;
        let kernel = SysRoot::host();
        let owner = Owner::this_process(&kernel, about)?;
        let (path, file) = new_file(&kernel, &dir, &owner)?;
        file.lock().map_err(Error::io("locking", &path))?;
        let mut open = Open { path, file, next: 0, left: 0, _in_order: cancel::in_order() };
        open.append(&Line::Owner(owner))?;
        open.publish()?;
        File::open(&dir).and_then(|dir| dir.sync_all()).map_err(Error::io("syncing", &dir))?;
        crate::argv::mark_commands(&open.path.file_name().unwrap_or_default().to_string_lossy());
        Ok(Journal(Arc::new(Mutex::new(open))))
    }

    /// Notes how something will be undone. Call it before doing the thing.
    ///
    /// # Errors
    /// Where the journal cannot be written, or a path in it is not valid UTF-8: then do not do the thing.
    pub fn note(&self, how: Undo) -> Result<UndoGuard, Error> {
        if let Some(path) = how.path().filter(|path| path.to_str().is_none()) {
            return Err(Error::NotText(path.into()));
        }
        let mut open = self.open();
        let id = open.next;
        open.append(&Line::Setup { id, how: how.clone() })?;
        open.next += 1;
        open.left += 1;
        Ok(UndoGuard { journal: self.clone(), id, how, live: true })
    }

    /// Notes how something is undone and does it. What fails leaves nothing to undo: this process did not make whatever
    /// is there.
    ///
    /// # Errors
    /// Where it fails, or cannot be noted.
    pub fn making<T>(
        &self,
        how: Undo,
        make: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(UndoGuard, T), Error> {
        let armed = self.note(how)?;
        match make() {
            Ok(made) => Ok((armed, made)),
            Err(error) => {
                armed.forget()?;
                Err(error)
            }
        }
    }

    /// The state directory that it is in.
    pub(super) fn state_dir(&self) -> PathBuf {
        self.open().path.ancestors().nth(2).unwrap_or(Path::new("")).into()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // What a panicking thread left is still right: every line is appended in one go.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the directory of the journals, or takes others' rights to it away: who may read a journal may lock it, and who
/// may write one tells root what to remove.
fn make_private(dir: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    match dir.metadata()?.mode() & 0o777 {
        0o700 => Ok(()),
        _ => std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700)),
    }
}

/// A new file. Its name begins with the process and ends with a random part: the commands of a process are found by this
/// name, and two containers may each have a process of the same number and start time.
fn new_file(kernel: &SysRoot, dir: &Path, owner: &Owner) -> Result<(PathBuf, File), Error> {
    let source = kernel.path("proc/sys/kernel/random/uuid");
    let random = std::fs::read_to_string(&source).map_err(Error::io("reading", &source))?;
    let path = dir.join(format!("{}-{}-{}.{NEW}", owner.pid, owner.start_time, random.trim()));
    let file = private(&path).map_err(Error::io("making", &path))?;
    Ok((path, file))
}

/// Makes a new file that only its owner reads.
fn private(path: &Path) -> std::io::Result<File> {
    let file = File::options().read(true).append(true).create_new(true).mode(0o600).open(path)?;
    // The mask of this process may have taken away more.
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

impl Open {
    /// Gives it the name under which recover looks for it, now that it is locked and says whose it is.
    fn publish(&mut self) -> Result<(), Error> {
        let path = self.path.with_extension(JOURNAL);
        std::fs::rename(&self.path, &path).map_err(Error::io("renaming to", &path))?;
        self.path = path;
        Ok(())
    }

    fn append(&mut self, line: &Line) -> Result<(), Error> {
        let text = line.bytes().map_err(Error::io("noting in", &self.path))?;
        self.file
            .write_all(&text)
            .and_then(|()| self.file.sync_data())
            .map_err(Error::io("writing", &self.path))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.left == 0 {
            // Left behind it would do no harm: recover finds nothing to do in it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl UndoGuard {
    /// Undoes it now.
    ///
    /// # Errors
    /// Where it cannot be undone; it stays in the journal for `fsarena recover`.
    pub fn undo(mut self) -> Result<(), Error> {
        self.live = false;
        self.how.act(&SysRoot::host())?;
        self.done()
    }

    /// Undoes it now; a directory that holds foreign files is given up instead, and the text names them.
    pub(super) fn undo_or_keep(mut self) -> Result<Option<String>, Error> {
        self.live = false;
        let kept = match self.how.act(&SysRoot::host()) {
            Err(error @ Error::Foreign { .. }) => Some(error.to_string()),
            done => done.map(|()| None)?,
        };
        self.done().map(|()| kept)
    }

    /// Marks it done, because it was undone some other way, or was never done.
    ///
    /// # Errors
    /// Where the journal cannot be written.
    pub fn forget(mut self) -> Result<(), Error> {
        self.live = false;
        self.done()
    }

    /// Notes that more is known of the thing now, such as the identity of a file just made.
    ///
    /// # Errors
    /// Where the journal cannot be written.
    pub fn refine(&mut self, how: Undo) -> Result<(), Error> {
        self.journal.open().append(&Line::Setup { id: self.id, how: how.clone() })?;
        self.how = how;
        Ok(())
    }

    fn done(&self) -> Result<(), Error> {
        let mut open = self.journal.open();
        open.append(&Line::Done { id: self.id })?;
        open.left -= 1;
        Ok(())
    }
}

impl Drop for UndoGuard {
    fn drop(&mut self) {
        // An error has no way out of here. What could not be undone stays in the journal.
        if self.live && self.how.act(&SysRoot::host()).is_ok() {
            let _ = self.done();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(state: &Path) -> Vec<String> {
        let mut files = std::fs::read_dir(journals(state)).unwrap();
        let text = files.next().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        text.unwrap_or_default().lines().map(str::to_string).collect()
    }

    #[test]
    fn it_is_written_before_and_after_and_deleted_when_empty() {
        let state = tempfile::tempdir().unwrap();
        let tree = state.path().join("tree");
        let journal = Journal::create(state.path(), "runs/1").unwrap();
        let how = Undo::RemoveDir { path: tree.clone(), identity: None, whole: true };
        let armed = journal.note(how).unwrap();
        assert_eq!(lines(state.path()).len(), 2);
        std::fs::create_dir(&tree).unwrap();
        armed.undo().unwrap();
        assert!(!tree.exists());
        assert_eq!(lines(state.path())[2], r#"{"done":{"id":0}}"#);
        drop(journal);
        assert_eq!(lines(state.path()), [""; 0]);
    }

    #[test]
    fn journals_are_private_to_their_owner() {
        let state = tempfile::tempdir().unwrap();
        let dir = journals(state.path());
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
        let _journal = Journal::create(state.path(), "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        let file = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn dropping_undoes_and_forgetting_does_not() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        for kept in [false, true] {
            let path = state.path().join("dir");
            let how = Undo::RemoveDir { path: path.clone(), identity: None, whole: true };
            let armed = journal.note(how).unwrap();
            std::fs::create_dir(&path).unwrap();
            if kept {
                armed.forget().unwrap();
            } else {
                drop(armed);
            }
            assert_eq!(path.exists(), kept);
        }
        drop(journal);
        assert_eq!(lines(state.path()), [""; 0]);
    }

    #[test]
    fn a_journal_with_something_left_stays() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("image");
        std::fs::write(&path, "not ours").unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        drop(journal.note(Undo::RemoveFile { path: path.clone(), identity: None }).unwrap());
        drop(journal);
        assert_eq!(lines(state.path()).len(), 2);
        assert!(path.exists());
    }

    #[test]
    fn a_path_that_the_journal_cannot_hold_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/\xff")).to_path_buf();
        assert!(journal.note(Undo::unmount(&path)).is_err());
    }
}
