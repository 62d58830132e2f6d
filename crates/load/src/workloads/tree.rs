//! `tree`: copies a large tree, and removes it after a remount, like the script of Pierre Peiffer's comparison of ext3 (2005),
//! which repeated this 100 to 400 times.

use crate::program::{self, DRIVER, Driver, Op, REFLINK};
use crate::source::{COMPRESSIBLE, Source, TREE, TREE_FILES, TWINS};
use crate::task::{Before, Result, Task, TaskError, failed_to, info};
use crate::tree::TOP;
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
        let source = Source::from_job(job);
        let (contents, demands) = source.measure()?;
        let inodes = contents.files + contents.directories + contents.links;
        let bytes = contents.unpacked_bytes();
        // The archive stays on the source disk until it is unpacked.
        let room = Room { bytes, inodes, other_bytes: bytes + contents.archive_bytes };
        let remarks =
            Driver::from_settings(&job.settings).remarks().into_iter().chain([source.remark()]).collect();
        // cp(1) without -p does not restore owners.
        Ok(Survey { room, demands: Demands { owned: None, ..demands }, remarks, ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        if Driver::from_settings(&job.settings).native { vec![] } else { vec!["cp", "rm"] }
    }

    fn inputs(&self, job: &Job, place: &Place) -> Result<()> {
        // Archive a real tree too: a guest cannot reach the original, and the original may change during the run.
        let archive = place.other.join("tree.tar");
        Source::from_job(job).archive_to(&archive)?;
        let unpack = Op::Untar(archive.clone(), place.other.clone());
        program::action(&unpack, Driver { native: true, clones: false }).perform(&mut |_| {})?;
        std::fs::remove_file(&archive).map_err(failed_to("remove", &archive))
    }

    fn draws_inputs(&self, job: &Job) -> bool {
        Source::from_job(job).is_generated()
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let from = place.other.join(TOP);
        if !from.is_dir() {
            let why =
                format!("the tree {} is missing; fsarena makes it at the start of a run", from.display());
            return Err(TaskError::Unfit(why));
        }
        let to = place.root.join(TOP);
        let work = [Op::CopyTree(from, to.clone()), Op::Remove(to)];
        let driver = Driver::from_settings(&job.settings);
        let tasks = self.outline(job).into_iter().zip(work).zip([Before::Warm, Before::Remount]);
        let task = |((info, op), before)| Task { before, ..Task::new(info, program::action(&op, driver)) };
        Ok(tasks.map(task).collect())
    }

    fn may_clone(&self, job: &Job) -> bool {
        Driver::from_settings(&job.settings).clones
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform};
    use std::path::Path;

    #[test]
    fn the_tree_is_copied_and_removed_by_both_drivers() {
        for driver in ["commands", "native"] {
            let dir = tempfile::tempdir().unwrap();
            let place =
                Place { root: dir.path().join("root"), other: dir.path().join("other"), server_user: None };
            std::fs::create_dir(&place.root).unwrap();
            std::fs::create_dir(&place.other).unwrap();
            let job = job(&DEF, 7, &[("driver", driver)]);
            Tree.inputs(&job, &place).unwrap();
            let files = |of: &Path| {
                walkdir::WalkDir::new(of)
                    .into_iter()
                    .filter(|e| e.as_ref().unwrap().file_type().is_file())
                    .count()
            };
            assert_eq!(files(&place.other), 40);
            let mut tasks = Tree.tasks(&job, &place).unwrap().into_iter();
            for after in [40, 0] {
                perform(tasks.next().unwrap().work);
                assert_eq!(files(&place.root), after, "{driver}");
            }
        }
    }

    #[test]
    fn a_real_tree_is_copied_from_the_other_disk_too() {
        let dir = tempfile::tempdir().unwrap();
        let [real, other] = ["real", "other"].map(|name| dir.path().join(name));
        std::fs::create_dir(&real).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::fs::write(real.join("f"), "contents").unwrap();
        let job = job(&DEF, 7, &[("driver", "native"), ("tree", real.to_str().unwrap())]);
        let place = Place { root: dir.path().join("root"), other, server_user: None };
        assert!(Tree.tasks(&job, &place).is_err());
        Tree.inputs(&job, &place).unwrap();
        assert_eq!(std::fs::read_to_string(place.other.join("tree/f")).unwrap(), "contents");
        assert!(Tree.tasks(&job, &place).is_ok() && Tree.survey(&job).unwrap().room.other_bytes > 0);
    }

    #[test]
    fn the_error_for_a_missing_tree_has_its_path() {
        let job = job(&DEF, 7, &[("driver", "native"), ("tree", "/nowhere")]);
        assert!(Tree.survey(&job).unwrap_err().to_string().contains("/nowhere"));
    }
}
