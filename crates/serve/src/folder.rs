//! Finds the runs of a folder.
//!
//! The server compares a requested name with the folder's entries, so that a name from a request never becomes part of a path.
//! A symbolic link to a run must lead into the folder, and one to a file of a run to a regular file in the folder.

use fsarena_store::RunDir;
use std::path::{Path, PathBuf};
use std::{io, os::unix::fs::MetadataExt, thread};

/// The files of a run that the server reads, including those that SQLite reads in addition to the database.
const FILES_OF_RUN: [&str; 7] =
    ["run.db", "plan.toml", "command.log", "events.jsonl", "run.db-wal", "run.db-shm", "run.db-journal"];

/// A folder of runs.
pub struct Folder {
    root: PathBuf,
}

/// A run in the folder, with the state of its files.
#[derive(Debug, Clone)]
pub struct RunEntry {
    /// The name of the run: the name of its directory.
    pub id: String,
    /// The directory of the run.
    pub dir: RunDir,
    /// The state of its files.
    pub stamp: Stamp,
    /// Why the server must not read the run; `None` if it may.
    pub refused_because: Option<String>,
}

/// The inode of a file, its size in bytes, and its modification time in seconds and nanoseconds.
type FileState = (u64, u64, i64, i64);

/// The state of a run's files. If two stamps are equal, the run has not changed, and its database need not be opened again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Stamp {
    /// The states of the database, of its write-ahead log, and of the plan.
    files: [Option<FileState>; 3],
    /// Whether a process is writing the run.
    pub running: bool,
}

impl Stamp {
    /// The size of the database and its write-ahead log, in bytes.
    pub fn database_bytes(&self) -> u64 {
        self.files.iter().take(2).flatten().map(|(_, size, ..)| size).sum()
    }
}

impl Folder {
    /// Opens a folder of runs.
    ///
    /// # Errors
    /// The path does not exist, is not a folder, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let folder = Folder { root: path.canonicalize()? };
        std::fs::read_dir(&folder.root)?;
        Ok(folder)
    }

    /// The path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every run in the folder, in no particular order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn runs(&self) -> io::Result<Vec<RunEntry>> {
        let entries = std::fs::read_dir(&self.root)?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        Ok(map_in_parallel(&paths, |path| self.inspect(path)).into_iter().flatten().collect())
    }

    /// The run with this name; `None` if the folder has none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn find(&self, id: &str) -> io::Result<Option<RunEntry>> {
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            if file_name(&path) == id {
                return Ok(self.inspect(&path));
            }
        }
        Ok(None)
    }

    /// The run at a path in the folder; `None` if the path is not a run.
    fn inspect(&self, path: &Path) -> Option<RunEntry> {
        let id = file_name(path);
        // `open` also refuses directories whose database is a pipe, a directory or a broken link.
        let dir = RunDir::open(path).ok()?;
        let (stamp, refused_because) = match self.file_states(path) {
            Ok([database, plan, _, _, write_ahead_log, ..]) => {
                (Stamp { files: [database, write_ahead_log, plan], running: dir.is_being_written() }, None)
            }
            Err(why) => (Stamp::default(), Some(why)),
        };
        Some(RunEntry { id, dir, stamp, refused_because })
    }

    /// The states of the files of a run, in the order of [`FILES_OF_RUN`]; `None` for a missing file. Usually reads the metadata
    /// of each file only once, because a folder may have thousands of runs.
    ///
    /// # Errors
    /// The reason why the server must not read the run, as a phrase.
    fn file_states(&self, path: &Path) -> Result<[Option<FileState>; FILES_OF_RUN.len()], String> {
        let leads_outside = |path: &Path| !path.canonicalize().is_ok_and(|real| real.starts_with(&self.root));
        if path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) && leads_outside(path) {
            return Err("a symbolic link that leads out of the folder; it is not followed".into());
        }
        let mut states = [None; FILES_OF_RUN.len()];
        for (state, name) in states.iter_mut().zip(FILES_OF_RUN) {
            let file = path.join(name);
            let Ok(mut meta) = file.symlink_metadata() else { continue };
            if meta.is_symlink() {
                if leads_outside(&file) {
                    return Err(format!(
                        "its {name} is a symbolic link that leads out of the folder; it is not followed"
                    ));
                }
                meta = file.metadata().map_err(|error| format!("its {name} cannot be looked at: {error}"))?;
            }
            if !meta.is_file() {
                return Err(format!("its {name} is not a regular file"));
            }
            *state = Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        }
        Ok(states)
    }
}

/// The last component of a path.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The number of threads that read files or databases at the same time.
const READER_THREADS: usize = 4;

/// Calls `read` for each item on several threads, and returns the results in the order of the items.
pub fn map_in_parallel<T: Sync, R: Send>(items: &[T], read: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let chunk_len = items.len().div_ceil(READER_THREADS).max(1);
    thread::scope(|scope| {
        let readers: Vec<_> =
            items.chunks(chunk_len).map(|chunk| scope.spawn(|| chunk.iter().map(&read).collect::<Vec<_>>())).collect();
        let results = readers.into_iter().map(|reader| reader.join().expect("a reader does not panic"));
        results.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn parallel_results_are_in_the_order_of_the_items() {
        for count in [0, 1, 3, 4, 5, 1_001] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map_in_parallel(&items, |item| item * 2), (0..count).map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    fn create_run(root: &Path, id: &str) -> PathBuf {
        let path = root.join(id);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("run.db"), "x").unwrap();
        path
    }

    #[test]
    fn names_that_leave_the_folder_are_not_found() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("runs"), create_run(root.path(), "secret"));
        create_run(&inside, "one");
        std::fs::write(inside.join("a file"), "").unwrap();
        std::fs::create_dir(inside.join("no run")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        assert_eq!(folder.runs().unwrap().len(), 1);
        assert_eq!(folder.find("one").unwrap().unwrap().id, "one");
        let absolute = outside.to_str().unwrap();
        for name in ["../secret", "one/../../secret", "one/", "./one", "", ".", "..", "no run", "a file", absolute] {
            assert!(folder.find(name).unwrap().is_none(), "{name}");
        }
    }

    #[test]
    fn links_out_of_the_folder_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("runs"), create_run(root.path(), "secret"));
        create_run(&inside, "one");
        symlink(&outside, inside.join("out")).unwrap();
        symlink(inside.join("one"), inside.join("in")).unwrap();
        for file in ["run.db", "plan.toml", "events.jsonl", "run.db-wal"] {
            let path = create_run(&inside, &format!("with-{file}"));
            let _ = std::fs::remove_file(path.join(file));
            symlink(outside.join("run.db"), path.join(file)).unwrap();
        }
        let folder = Folder::open(&inside).unwrap();
        let refused = |id: &str| folder.find(id).unwrap().unwrap().refused_because;
        assert!(refused("one").is_none() && refused("in").is_none());
        for id in ["out", "with-run.db", "with-plan.toml", "with-events.jsonl", "with-run.db-wal"] {
            assert!(refused(id).unwrap().contains("leads out of the folder"), "{id}");
        }
    }

    #[test]
    fn devices_and_directories_instead_of_files_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = create_run(root.path(), "one");
        symlink("/dev/zero", path.join("plan.toml")).unwrap();
        std::fs::create_dir(path.join("events.jsonl")).unwrap();
        let folder = Folder::open(root.path()).unwrap();
        assert!(folder.find("one").unwrap().unwrap().refused_because.is_some());
        std::fs::remove_file(path.join("plan.toml")).unwrap();
        assert!(folder.find("one").unwrap().unwrap().refused_because.unwrap().contains("not a regular file"));
    }

    #[test]
    fn a_stamp_changes_with_the_files() {
        let root = tempfile::tempdir().unwrap();
        let path = create_run(root.path(), "one");
        let folder = Folder::open(root.path()).unwrap();
        let stamp = || folder.find("one").unwrap().unwrap().stamp;
        let first = stamp();
        assert_eq!((first.clone(), first.database_bytes()), (stamp(), 1));
        std::fs::write(path.join("run.db-wal"), "longer").unwrap();
        assert_ne!(first, stamp());
        assert_eq!(stamp().database_bytes(), 7);
    }
}
