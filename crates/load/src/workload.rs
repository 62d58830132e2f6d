//! The trait every workload implements. A new one is one file in `workloads/` and its line there.

use crate::demands::Demands;
use crate::task::{Error, Task};
use fsarena_core::cell::{TaskId, TaskInfo, WorkloadPlan};
use fsarena_core::event::Note;
use fsarena_core::scale::Scale;
use fsarena_core::setting::{Settings, WorkloadDef};
use std::path::{Path, PathBuf};

/// A request to a workload.
#[derive(Debug, Clone)]
pub struct Job {
    /// The complete, checked settings.
    pub settings: Settings,
    /// The size of the work.
    pub scale: Scale,
    /// The seed of everything random.
    pub seed: u64,
}

/// Where a workload finds its files.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory on the filesystem under test; empty at the start. Where there is no filesystem
    /// ([`Workload::supports_raw`]), the device.
    pub root: PathBuf,
    /// A directory of its own on the other disk. Inputs made by [`Workload::inputs`] are in it.
    pub other: PathBuf,
}

impl Place {
    /// The place of one of a plan's workloads. On the other disk each has a directory of its own, so that none meets
    /// what another has put there.
    pub fn of(workload: &WorkloadPlan, root: &Path, other: &Path) -> Place {
        Place { root: root.into(), other: other.join(workload.directory()) }
    }

    /// Whether there is no filesystem, only a device.
    pub fn is_device(&self) -> bool {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(&self.root).is_ok_and(|meta| meta.file_type().is_block_device())
    }
}

/// The room that a workload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes of file data at the fullest moment on the filesystem under test.
    pub bytes: u64,
    /// Files and directories at the fullest moment.
    pub inodes: u64,
    /// Bytes on the other disk.
    pub other_bytes: u64,
}

/// What must be known of work before it begins. Whoever makes it reads the work's inputs once for all of it.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The room needed, so that too little is said before the run.
    pub room: Room,
    /// What it asks of the filesystem under test besides room, so that one that cannot do it is said before the run.
    pub demands: Demands,
    /// Remarks that every report must make: cache states, payload, how copies are done.
    pub remarks: Vec<Note>,
}

/// Something to time on a filesystem.
pub trait Workload: Sync {
    /// Its name, help and settings.
    fn def(&self) -> &'static WorkloadDef;

    /// The tasks in their order, without doing anything: for progress and for reports.
    fn outline(&self, job: &Job) -> Vec<TaskInfo>;

    /// Takes the number of clients from the name of a task: where variants differ in it, they share the task.
    fn forget_clients(&self, _task: &mut TaskId) {}

    /// What must be known of the work before a run.
    ///
    /// # Errors
    /// Where it depends on something that cannot be read (`--tree PATH`).
    fn survey(&self, job: &Job) -> Result<Survey, Error>;

    /// The programs that the tasks run; the preflight looks for them.
    fn programs(&self, job: &Job) -> Vec<&'static str>;

    /// Makes the inputs that all cells of a run share, on the other disk. Called once a run, never timed.
    ///
    /// # Errors
    /// Where a file cannot be read or written.
    fn inputs(&self, job: &Job, place: &Place) -> Result<(), Error>;

    /// The tasks, ready to be done once.
    ///
    /// # Errors
    /// If the inputs are missing.
    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>, Error>;

    /// The metrics that answer for it where nobody asks for others, the main one first.
    fn metrics(&self) -> &'static [&'static str] {
        &["elapsed", "durable"]
    }

    /// Whether it can do without a filesystem, on the bare device.
    fn supports_raw(&self) -> bool {
        false
    }

    /// Whether its copies may share blocks with their originals, where the filesystem can do that.
    fn may_clone(&self, _job: &Job) -> bool {
        false
    }
}
