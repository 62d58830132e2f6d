//! `read-tree`: reads a tree of files in the ways that programs do, each time from a cold cache. It writes nothing, so
//! that it compares read-only filesystems with others.

use crate::program::{self, Driver, Op};
use crate::source::{COMPRESSIBLE, TREE, TREE_FILES, TreeSource};
use crate::task::{Action, Result, StartState, Task, TaskError, failed_to, info};
use crate::tree::TOP_DIR;
use crate::workload::{Job, Place, Room, Survey, Workload, remark_note};
use chacha20::ChaCha8Rng;
use fsarena_core::cell::TaskInfo;
use fsarena_core::schedule::mix;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use rand::{RngExt, SeedableRng};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::{fs::File, os::unix::fs::FileExt};
use walkdir::{DirEntry, WalkDir};

/// The workload.
pub struct ReadTree;

const DEF: WorkloadDef = WorkloadDef {
    id: "read-tree",
    help: "walk a tree, stat its files, read them in order and at random, each from a cold cache",
    metrics: &["elapsed", "system"],
    settings: &[
        TREE,
        TREE_FILES,
        COMPRESSIBLE,
        SettingDef::int("reads", 0..=100_000_000, 0).help("random reads; 0 for 20,000 shrunk by the scale"),
        SettingDef::size("bs", 512..=16 << 20, 4096).help("bytes of a random read"),
    ],
};

/// The archive of the tree on the source disk.
const ARCHIVE_NAME: &str = "tree.tar";
/// Bytes that each call requests when it reads a whole file, as in cat(1).
const BUFFER_BYTES: usize = 128 << 10;
/// Mixed into the seed of a round to choose the random reads.
const READS_SEED: u64 = 0x7EAD;

/// The files of the tree and their sizes, sorted by path: the same on every filesystem.
type SharedFileList = Arc<OnceLock<Vec<(PathBuf, u64)>>>;

impl Workload for ReadTree {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        vec![
            info("walk", "Walk the tree, as find does", []),
            info("stat", "Stat every file, as git status does", []),
            info("read", "Read all files, as tar does", []),
            info("rndread", "Random reads in all files", []),
        ]
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let source = TreeSource::from_job(job);
        let (tree_size, demands) = source.measure()?;
        let (bytes, inodes) = (tree_size.unpacked_bytes(), tree_size.inode_count());
        let room = Room { bytes, inodes, source_bytes: tree_size.archive_bytes };
        let text = "each task begins with a new mount and a cold cache; the calls are made in-process";
        let remarks = [vec![remark_note(text)], source.notes(&tree_size)].concat();
        Ok(Survey { room, demands, remarks, ..Survey::default() })
    }

    fn make_inputs(&self, job: &Job, place: &Place) -> Result<()> {
        TreeSource::from_job(job).write_archive_file(&place.source_dir.join(ARCHIVE_NAME)).map(drop)
    }

    fn inputs_depend_on_seed(&self, job: &Job) -> bool {
        TreeSource::from_job(job).is_generated()
    }

    fn only_reads(&self, _: &Job) -> bool {
        true
    }

    fn describe_read_only_settings(&self) -> Option<&'static str> {
        Some("")
    }

    fn fill_actions(&self, _: &Job, place: &Place) -> Result<Vec<Action>> {
        let archive = place.source_dir.join(ARCHIVE_NAME);
        if !archive.is_file() {
            let reason = format!("{} is missing; fsarena makes it at the start of a run", archive.display());
            return Err(TaskError::Unfit(reason));
        }
        let unpack = Op::Untar(archive, place.root.clone());
        Ok(vec![program::make_action(&unpack, Driver { is_native: true, may_clone: false })])
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let tree = place.root.join(TOP_DIR);
        let (file_list, reads) = (SharedFileList::default(), RandomReads::from_job(job));
        let walk = program::make_action(&Op::Find(tree.clone()), Driver { is_native: true, may_clone: false });
        let actions = [
            walk,
            Action::call_on("stat", &tree, |tree| for_each_file(tree, |_| Ok(()))),
            Action::call_on("read", &tree, |tree| for_each_file(tree, |file| read_whole_file(file.path()))),
            Action::call_with(
                &(file_list.clone(), reads),
                ["random reads".to_string(), tree.display().to_string()],
                |(file_list, reads)| reads.perform(file_list.get().map_or(&[][..], Vec::as_slice)),
            ),
        ];
        let mut tasks: Vec<Task> = vec![];
        for (info, action) in self.outline(job).into_iter().zip(actions) {
            tasks.push(Task { start_state: StartState::Remounted, ..Task::new(info, action) });
        }
        if !place.is_read_only() {
            tasks[0].preparation = self.fill_actions(job, place)?;
        }
        // The random reads need the list of files.
        let make_list = Action::call_with(&(tree, file_list), ["list", "the files"], |(tree, file_list)| {
            list_files(tree).map(|files| drop(file_list.set(files)))
        });
        tasks[3].preparation = vec![make_list];
        Ok(tasks)
    }
}

/// Walks through a tree and reads the status of every entry. Calls `visit` for each regular file.
fn for_each_file(tree: &Path, mut visit: impl FnMut(&DirEntry) -> Result<()>) -> Result<()> {
    for entry in WalkDir::new(tree) {
        let entry = entry.map_err(failed_to("walk through", tree))?;
        let status = entry.metadata().map_err(failed_to("stat", entry.path()))?;
        if status.is_file() {
            visit(&entry)?;
        }
    }
    Ok(())
}

/// Reads a file from its beginning to its end.
fn read_whole_file(path: &Path) -> Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut file = File::open(path).map_err(failed_to("open", path))?;
    while file.read(&mut buffer).map_err(failed_to("read", path))? > 0 {}
    Ok(())
}

/// The files of a tree that are not empty, with their sizes, sorted by path.
fn list_files(tree: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = vec![];
    for_each_file(tree, |entry| {
        let bytes = entry.metadata().map_err(failed_to("stat", entry.path()))?.len();
        files.extend((bytes > 0).then(|| (entry.path().to_path_buf(), bytes)));
        Ok(())
    })?;
    files.sort();
    Ok(files)
}

/// Random reads, spread evenly over the bytes of all files.
#[derive(Debug, Clone, Copy)]
struct RandomReads {
    count: u64,
    block_bytes: u64,
    seed: u64,
}

impl RandomReads {
    fn from_job(job: &Job) -> RandomReads {
        let seed = mix(job.seed, READS_SEED);
        RandomReads {
            count: job.count_or_published("reads", (20_000, 200)),
            block_bytes: job.settings.int("bs") as u64,
            seed,
        }
    }

    /// The file and the offset of each read. Offsets are multiples of the block.
    fn read_positions<'a>(&self, files: &'a [(PathBuf, u64)]) -> Vec<(&'a Path, u64)> {
        let mut ends = vec![];
        let mut total = 0;
        for (_, bytes) in files {
            total += bytes;
            ends.push(total);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut read_positions = vec![];
        let count = if total > 0 { self.count } else { 0 };
        for _ in 0..count {
            let global_offset = rng.random_range(0..total);
            let file = ends.partition_point(|end| *end <= global_offset);
            let file_offset = global_offset - (ends[file] - files[file].1);
            read_positions.push((files[file].0.as_path(), file_offset / self.block_bytes * self.block_bytes));
        }
        read_positions
    }

    /// Performs all reads. Each opens a file and reads one block.
    fn perform(&self, files: &[(PathBuf, u64)]) -> Result<()> {
        let mut buffer = vec![0; self.block_bytes as usize];
        for (path, offset) in self.read_positions(files) {
            let file = File::open(path).map_err(failed_to("open", path))?;
            file.read_at(&mut buffer, offset).map_err(failed_to("read", path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all};

    #[test]
    fn every_task_reads_the_tree_that_the_archive_holds() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { root: dir.path().join("root"), source_dir: dir.path().join("other"), server_user: None };
        std::fs::create_dir(&place.root).unwrap();
        std::fs::create_dir(&place.source_dir).unwrap();
        let job = job(&DEF, 7, &[("reads", "50")]);
        assert!(
            ReadTree.fill_actions(&job, &place).is_err_and(|error| error.to_string().contains("tree.tar is missing"))
        );
        ReadTree.make_inputs(&job, &place).unwrap();
        for task in ReadTree.tasks(&job, &place).unwrap() {
            assert_eq!(task.start_state, StartState::Remounted);
            perform_all(task.preparation.into_iter().chain(task.work));
        }
        assert_eq!(list_files(&place.root.join(TOP_DIR)).unwrap().len(), 40);
    }

    #[test]
    fn random_reads_are_spread_by_bytes_and_chosen_by_the_seed() {
        let files: Vec<(PathBuf, u64)> = vec![("a".into(), 1000), ("b".into(), 9000), ("c".into(), 1)];
        let reads = RandomReads { count: 1000, block_bytes: 4096, seed: 1 };
        let read_positions = reads.read_positions(&files);
        let in_b = read_positions.iter().filter(|(path, _)| *path == Path::new("b")).count();
        assert!((850..950).contains(&in_b), "{in_b}");
        assert!(
            read_positions
                .iter()
                .all(|(path, offset)| [0, 4096, 8192].contains(offset) && (*offset == 0 || *path == Path::new("b")))
        );
        assert_eq!(read_positions, reads.read_positions(&files));
        assert_ne!(read_positions, RandomReads { seed: 2, ..reads }.read_positions(&files));
        assert!(reads.read_positions(&[]).is_empty());
    }
}
