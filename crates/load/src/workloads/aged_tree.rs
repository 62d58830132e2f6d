//! `aged-tree`: searches and copies the files that an aged filesystem holds, each from a cold cache, like the git
//! benchmark of Conway et al. (FAST 2017). A filesystem of the same run without age holds the same files, copied fresh.

use crate::ageing::AGED_DIR;
use crate::program::{self, Driver, Op};
use crate::task::{Action, Result, StartState, Task, TaskError, failed_to, info};
use crate::workload::{Job, Place, Room, Survey, Workload, remark_note};
use fsarena_core::cell::TaskInfo;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use std::fs::{File, read_dir};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The workload.
pub struct AgedTree;

const DEF: WorkloadDef = WorkloadDef {
    id: "aged-tree",
    help: "search and copy the files of an aged filesystem, each from a cold cache; needs the factor age",
    metrics: &["elapsed", "synced"],
    settings: &[SettingDef::size("copy_bytes", 0..=1 << 50, 256 << 20)
        .help("bytes of room for the copy, in addition to the aged files")],
};

/// The word that a search looks for, in every file to its end.
const SEARCHED_WORD: &str = "fsarena";

/// Bytes that a search reads at a time, as grep(1) does.
const BUFFER_BYTES: usize = 96 << 10;

impl Workload for AgedTree {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        vec![info("grep", "Search all files, as grep -r does", []), info("copy", "Copy all files, as cp -r does", [])]
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let bytes = job.settings.int("copy_bytes") as u64;
        let text = "each task begins with a new mount and a cold cache; the calls are made in-process";
        let room = Room { bytes, inodes: bytes >> 12, source_bytes: 0 };
        Ok(Survey { room, remarks: vec![remark_note(text)], ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let tree = place.root.parent().unwrap_or(&place.root).join(AGED_DIR);
        if !tree.is_dir() {
            let reason = "the filesystem has no aged files: compare levels of the factor age, for example --factor age=none,git:100";
            return Err(TaskError::Unfit(reason.into()));
        }
        let logged_argv = ["grep", "-rc", SEARCHED_WORD, &tree.display().to_string()].map(String::from);
        let search = Action::call_with(&tree, logged_argv, |tree| count_in_tree(tree, SEARCHED_WORD).map(drop));
        let copy = Op::CopyTree(tree, place.root.join("copy"));
        let actions = [search, program::make_action(&copy, Driver { is_native: true, may_clone: false })];
        let mut tasks = vec![];
        for (info, action) in self.outline(job).into_iter().zip(actions) {
            tasks.push(Task { start_state: StartState::Remounted, ..Task::new(info, action) });
        }
        Ok(tasks)
    }
}

/// Reads every file of a tree to its end, in the order that reading its directory returns, and counts a word in the
/// files.
fn count_in_tree(tree: &Path, word: &str) -> Result<u64> {
    let (mut matches, mut buffer) = (0, vec![]);
    let mut pending_directories: Vec<PathBuf> = vec![tree.into()];
    while let Some(directory) = pending_directories.pop() {
        let mut subdirectories = vec![];
        for entry in read_dir(&directory).map_err(failed_to("read", &directory))? {
            let entry = entry.map_err(failed_to("read", &directory))?;
            let (kind, path) = (entry.file_type().map_err(failed_to("stat", &directory))?, entry.path());
            if kind.is_dir() {
                subdirectories.push(path);
            } else if kind.is_file() {
                matches += count_in_file(&path, word, &mut buffer)?;
            }
        }
        pending_directories.extend(subdirectories.into_iter().rev());
    }
    Ok(matches)
}

/// Counts a word in a file. `buffer` is reused, so that it is allocated once.
fn count_in_file(path: &Path, word: &str, buffer: &mut Vec<u8>) -> Result<u64> {
    let mut file = File::open(path).map_err(failed_to("open", path))?;
    let (mut matches, mut carried_bytes) = (0, 0);
    loop {
        buffer.resize(carried_bytes + BUFFER_BYTES, 0);
        let read_bytes = file.read(&mut buffer[carried_bytes..]).map_err(failed_to("read", path))?;
        if read_bytes == 0 {
            return Ok(matches);
        }
        let end = carried_bytes + read_bytes;
        matches += memchr::memmem::find_iter(&buffer[..end], word).count() as u64;
        // The word may continue in the next part: carry over the last bytes, one fewer than the word has.
        let carried_start = end - end.min(word.len().saturating_sub(1));
        buffer.copy_within(carried_start..end, 0);
        carried_bytes = end - carried_start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all};

    #[test]
    fn a_word_is_found_across_parts_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut text = vec![b'x'; BUFFER_BYTES - 3];
        text.extend(b"needle, needle");
        text.resize(3 * BUFFER_BYTES, b'y');
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), &text).unwrap();
        std::fs::write(dir.path().join("other"), "a needle").unwrap();
        assert_eq!(count_in_tree(dir.path(), "needle").unwrap(), 3);
        assert_eq!(count_in_tree(dir.path(), "nothing").unwrap(), 0);
    }

    #[test]
    fn the_aged_files_are_searched_and_copied() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("work");
        std::fs::create_dir(&root).unwrap();
        let place = Place { root: root.clone(), source_dir: dir.path().into(), server_user: None };
        let job = job(&DEF, 7, &[]);
        assert!(AgedTree.tasks(&job, &place).is_err_and(|error| error.to_string().contains("--factor age")));
        std::fs::create_dir_all(dir.path().join("aged/sub")).unwrap();
        std::fs::write(dir.path().join("aged/sub/file"), "fsarena").unwrap();
        for task in AgedTree.tasks(&job, &place).unwrap() {
            assert_eq!(task.start_state, StartState::Remounted);
            perform_all(task.work);
        }
        assert_eq!(std::fs::read(root.join("copy/sub/file")).unwrap(), b"fsarena");
    }
}
