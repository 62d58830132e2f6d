//! Which runs a folder holds.
//!
//! The server looks up a requested name among the folder's entries, so that a name from a request never becomes part of
//! a path. A symbolic link to a run, or to one of its files, must lead into the folder, and to a regular file.

use fsarena_store::RunDir;
use std::path::{Path, PathBuf};
use std::{fs::Metadata, io, os::unix::fs::MetadataExt, thread};

/// Every file of a run that is read, and those that SQLite reads beside its database.
const FILES: [&str; 7] =
    ["run.db", "plan.toml", "command.log", "events.jsonl", "run.db-wal", "run.db-shm", "run.db-journal"];

/// A folder of runs.
pub struct Folder {
    root: PathBuf,
}

/// A run, as it is now.
#[derive(Debug, Clone)]
pub struct FoundRun {
    /// Its name: that of its directory.
    pub id: String,
    /// Its directory.
    pub run: RunDir,
    /// What its files are like.
    pub stamp: Stamp,
    /// Why it must not be read, where it must not.
    pub refused: Option<String>,
}

/// Inode, size, and when it was changed, in seconds and nanoseconds.
type State = (u64, u64, i64, i64);

/// What tells one state of a run from another without opening its database.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Stamp {
    /// Of the database, its log, the plan.
    files: [Option<State>; 3],
    /// Whether some process writes it.
    pub running: bool,
}

impl Stamp {
    /// Bytes of the database.
    pub fn bytes(&self) -> u64 {
        self.files.iter().take(2).flatten().map(|(_, size, ..)| size).sum()
    }
}

impl Folder {
    /// A folder of runs.
    ///
    /// # Errors
    /// Where it is not there, no folder, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let folder = Folder { root: path.canonicalize()? };
        std::fs::read_dir(&folder.root)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every run in it, in no order.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn runs(&self) -> io::Result<Vec<FoundRun>> {
        let entries = std::fs::read_dir(&self.root)?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        Ok(in_parallel(&paths, |path| self.look(path)).into_iter().flatten().collect())
    }

    /// The run of this name, as it is now.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn find(&self, id: &str) -> io::Result<Option<FoundRun>> {
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            if name(&path) == id {
                return Ok(self.look(&path));
            }
        }
        Ok(None)
    }

    /// The run at a path in the folder, or None.
    fn look(&self, path: &Path) -> Option<FoundRun> {
        let id = name(path);
        let run = match RunDir::open(path) {
            Ok(run) => run,
            // This includes directories whose database is a pipe, a directory or a broken link.
            Err(_) => return None,
        };
        let (stamp, refused) = match self.states(path) {
            Ok([database, plan, _, _, log, ..]) => {
                (Stamp { files: [database, log, plan], running: run.is_being_written() }, None)
            }
            Err(why) => (Stamp::default(), Some(why)),
        };
        Some(FoundRun { id, run, stamp, refused })
    }

    /// What the files of a run are like, in the order of [`FILES`]; or why it must not be read. Each file is looked at
    /// once: a folder may have thousands of runs.
    fn states(&self, path: &Path) -> Result<[Option<State>; FILES.len()], String> {
        let outside = |path: &Path| !path.canonicalize().is_ok_and(|real| real.starts_with(&self.root));
        if path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) && outside(path) {
            return Err("a symbolic link that leads out of the folder; it is not followed".into());
        }
        let mut states = [None; FILES.len()];
        for (state, name) in states.iter_mut().zip(FILES) {
            let file = path.join(name);
            let Ok(mut meta) = file.symlink_metadata() else { continue };
            if meta.is_symlink() {
                if outside(&file) {
                    return Err(format!(
                        "its {name} is a symbolic link that leads out of the folder; it is not followed"
                    ));
                }
                meta = file.metadata().map_err(|error| format!("its {name} cannot be looked at: {error}"))?;
            }
            if !meta.is_file() {
                return Err(format!("its {name} is not a regular file"));
            }
            *state = Some(of(&meta));
        }
        Ok(states)
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn of(meta: &Metadata) -> State {
    (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// Threads that read folders and databases.
const READERS: usize = 4;

/// What becomes of each, in order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let part = items.len().div_ceil(READERS).max(1);
    thread::scope(|scope| {
        let readers: Vec<_> = (items.chunks(part))
            .map(|part| scope.spawn(|| part.iter().map(&each).collect::<Vec<_>>()))
            .collect();
        let results = readers.into_iter().map(|reader| reader.join().expect("what reads does not panic"));
        results.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thing_is_done_once_and_in_order() {
        for count in [0, 1, 3, 4, 5, 1_001] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(
                in_parallel(&items, |item| item * 2),
                (0..count).map(|item| item * 2).collect::<Vec<_>>()
            );
        }
    }
    use std::os::unix::fs::symlink;

    fn run(root: &Path, id: &str) -> PathBuf {
        let path = root.join(id);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("run.db"), "x").unwrap();
        path
    }

    #[test]
    fn names_are_looked_up_and_never_joined() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("runs"), run(root.path(), "secret"));
        run(&inside, "one");
        std::fs::write(inside.join("a file"), "").unwrap();
        std::fs::create_dir(inside.join("no run")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        assert_eq!(folder.runs().unwrap().len(), 1);
        assert_eq!(folder.find("one").unwrap().unwrap().id, "one");
        let absolute = outside.to_str().unwrap();
        for name in
            ["../secret", "one/../../secret", "one/", "./one", "", ".", "..", "no run", "a file", absolute]
        {
            assert!(folder.find(name).unwrap().is_none(), "{name}");
        }
    }

    #[test]
    fn links_that_lead_out_are_refused_and_those_within_are_not() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("runs"), run(root.path(), "secret"));
        run(&inside, "one");
        symlink(&outside, inside.join("out")).unwrap();
        symlink(inside.join("one"), inside.join("in")).unwrap();
        for file in ["run.db", "plan.toml", "events.jsonl", "run.db-wal"] {
            let path = run(&inside, &format!("with-{file}"));
            let _ = std::fs::remove_file(path.join(file));
            symlink(outside.join("run.db"), path.join(file)).unwrap();
        }
        let folder = Folder::open(&inside).unwrap();
        let refused = |id: &str| folder.find(id).unwrap().unwrap().refused;
        assert!(refused("one").is_none() && refused("in").is_none());
        for id in ["out", "with-run.db", "with-plan.toml", "with-events.jsonl", "with-run.db-wal"] {
            assert!(refused(id).unwrap().contains("leads out of the folder"), "{id}");
        }
    }

    #[test]
    fn a_file_that_would_never_end_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = run(root.path(), "one");
        symlink("/dev/zero", path.join("plan.toml")).unwrap();
        std::fs::create_dir(path.join("events.jsonl")).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        assert!(folder.find("one").unwrap().unwrap().refused.is_some());
        std::fs::remove_file(path.join("plan.toml")).unwrap();
        assert!(folder.find("one").unwrap().unwrap().refused.unwrap().contains("not a regular file"));
    }

    #[test]
    fn a_stamp_tells_states_apart() {
        let root = tempfile::tempdir().unwrap();
        let path = run(root.path(), "one");
        let folder = Folder::open(root.path()).unwrap();
        let stamp = || folder.find("one").unwrap().unwrap().stamp;
        let first = stamp();
        assert_eq!((first.clone(), first.bytes()), (stamp(), 1));
        std::fs::write(path.join("run.db-wal"), "longer").unwrap();
        assert_ne!(first, stamp());
        assert_eq!(stamp().bytes(), 7);
    }
}
