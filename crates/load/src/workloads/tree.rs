//! `tree`: copies a large tree, and removes it after a remount, like the script of Pierre Peiffer's comparison of ext3
//! (2005), which repeated this 100 to 400 times.

use crate::program::{self, DRIVER, Driver, Op, REFLINK};
use crate::source::{COMPRESSIBLE, TREE, TREE_FILES, TWINS, TreeSource};
use crate::task::{Result, StartState, Task, TaskError, failed_to, info};
use crate::tree::TOP_DIR;
use crate::workload::{Demands, Job, Place, Room, Survey, Workload};
use fsarena_core::{cell::TaskInfo, setting::WorkloadDef};

/// The workload.
pub struct Tree;

const DEF: WorkloadDef = WorkloadDef {
    id: "tree",
    help: "copy a tree from the source disk, remount, remove it: cp -r and rm -r",
    // Peiffer's comparison was about system time.
    metrics: &["elapsed", "synced", "system"],
    settings: &[DRIVER, TREE, TREE_FILES, TWINS, COMPRESSIBLE, REFLINK],
};

impl Workload for Tree {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        vec![info("cp", "Copy the tree", []), info("rm", "Remove the tree after a remount", [])]
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let source = TreeSource::from_job(job);
        let (tree_size, demands) = source.measure()?;
        let (bytes, inodes) = (tree_size.unpacked_bytes(), tree_size.inode_count());
        // The source disk has both the archive and the unpacked tree while it is unpacked.
        let room = Room { bytes, inodes, source_bytes: bytes + tree_size.archive_bytes };
        let mut remarks = Vec::from(Driver::from_settings(&job.settings).remarks());
        remarks.extend(source.notes(&tree_size));
        // `foreign_owner` requires a filesystem that keeps owners, but cp(1) without -p does not restore them.
        Ok(Survey { room, demands: Demands { foreign_owner: None, ..demands }, remarks, ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        if Driver::from_settings(&job.settings).is_native { vec![] } else { vec!["cp", "rm"] }
    }

    fn make_inputs(&self, job: &Job, place: &Place) -> Result<()> {
        // Archive a real tree too: a guest cannot reach the original, and the original may change during the run.
        let archive = place.source_dir.join("tree.tar");
        TreeSource::from_job(job).write_archive_file(&archive)?;
        let unpack = Op::Untar(archive.clone(), place.source_dir.clone());
        program::make_action(&unpack, Driver { is_native: true, may_clone: false }).perform(&mut |_| {})?;
        std::fs::remove_file(&archive).map_err(failed_to("remove", &archive))
    }

    fn inputs_depend_on_seed(&self, job: &Job) -> bool {
        TreeSource::from_job(job).is_generated()
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let source = place.source_dir.join(TOP_DIR);
        if !source.is_dir() {
            let reason = format!("the tree {} is missing; fsarena makes it at the start of a run", source.display());
            return Err(TaskError::Unfit(reason));
        }
        let copy = place.root.join(TOP_DIR);
        let ops = [(Op::CopyTree(source, copy.clone()), StartState::Warm), (Op::Remove(copy), StartState::Remounted)];
        let driver = Driver::from_settings(&job.settings);
        let mut tasks = vec![];
        for (info, (op, start_state)) in self.outline(job).into_iter().zip(ops) {
            tasks.push(Task { start_state, ..Task::new(info, program::make_action(&op, driver)) });
        }
        Ok(tasks)
    }

    fn may_clone(&self, job: &Job) -> bool {
        Driver::from_settings(&job.settings).may_clone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all};
    use std::path::Path;

    #[test]
    fn the_tree_is_copied_and_removed_by_both_drivers() {
        for driver in ["commands", "native"] {
            let dir = tempfile::tempdir().unwrap();
            let place =
                Place { root: dir.path().join("root"), source_dir: dir.path().join("other"), server_user: None };
            std::fs::create_dir(&place.root).unwrap();
            std::fs::create_dir(&place.source_dir).unwrap();
            let job = job(&DEF, 7, &[("driver", driver)]);
            Tree.make_inputs(&job, &place).unwrap();
            let file_count = |dir: &Path| {
                walkdir::WalkDir::new(dir)
                    .into_iter()
                    .filter(|entry| entry.as_ref().unwrap().file_type().is_file())
                    .count()
            };
            // The smallest generated tree has 40 files: see `generated_file_count`.
            assert_eq!(file_count(&place.source_dir), 40);
            let mut tasks = Tree.tasks(&job, &place).unwrap().into_iter();
            for expected_count in [40, 0] {
                perform_all(tasks.next().unwrap().work);
                assert_eq!(file_count(&place.root), expected_count, "{driver}");
            }
        }
    }

    #[test]
    fn a_real_tree_is_copied_from_the_source_disk_too() {
        let dir = tempfile::tempdir().unwrap();
        let [real_tree, source_dir] = ["real", "other"].map(|name| dir.path().join(name));
        std::fs::create_dir(&real_tree).unwrap();
        std::fs::create_dir(&source_dir).unwrap();
        std::fs::write(real_tree.join("f"), "contents").unwrap();
        let job = job(&DEF, 7, &[("driver", "native"), ("tree", real_tree.to_str().unwrap())]);
        let place = Place { root: dir.path().join("root"), source_dir, server_user: None };
        assert!(Tree.tasks(&job, &place).is_err());
        Tree.make_inputs(&job, &place).unwrap();
        assert_eq!(std::fs::read_to_string(place.source_dir.join("tree/f")).unwrap(), "contents");
        assert!(Tree.tasks(&job, &place).is_ok() && Tree.survey(&job).unwrap().room.source_bytes > 0);
    }

    #[test]
    fn a_socket_that_is_left_out_of_a_real_tree_gets_a_remark() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        let job = job(&DEF, 7, &[("tree", dir.path().to_str().unwrap())]);
        let notes = Tree.survey(&job).unwrap().remarks;
        assert!(notes.iter().any(|note| note.text.starts_with("1 sockets, pipes and devices")), "{notes:?}");
    }

    #[test]
    fn the_error_for_a_missing_tree_has_its_path() {
        let job = job(&DEF, 7, &[("driver", "native"), ("tree", "/nowhere")]);
        assert!(Tree.survey(&job).unwrap_err().to_string().contains("/nowhere"));
    }
}
