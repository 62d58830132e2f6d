//! The trait that every workload implements, and what a workload requires of the filesystem under test.
//!
//! A new workload is one file in `workloads/` and one line in the registry there.

use crate::invocation::is_mounted_read_only;
use crate::task::{Action, Result, Task};
use fsarena_core::cell::{TaskId, TaskInfo, WorkloadPlan};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::setting::{Settings, WorkloadDef};
use fsarena_core::{metric::Declaration, scale::Scale};
use fsarena_sys::user::User;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::{collections::HashSet, time::Duration};

/// The settings, size and seed with which a workload makes its tasks.
#[derive(Debug, Clone)]
pub struct Job {
    /// The complete, checked settings.
    pub settings: Settings,
    /// The size of the work.
    pub scale: Scale,
    /// The seed of everything random.
    pub seed: u64,
}

impl Job {
    /// Returns one of three values, for the scales paper, quick and tiny.
    pub fn value_for_scale<T: Copy>(&self, values: [T; 3]) -> T {
        values[self.scale as usize]
    }

    /// Reads a count from the settings. If it is 0, returns the published count at scale paper, and a smaller one at
    /// the other scales, but at least `floor`.
    pub fn count_or_published(&self, id: &str, (published, floor): (u64, u64)) -> u64 {
        match self.settings.int(id) {
            0 => self.scale.scaled_count(published, floor),
            count => count as u64,
        }
    }

    /// Reads a whole number from the settings. If it is 0, returns the value for the scale: paper, quick or tiny.
    pub fn int_or_by_scale(&self, id: &str, values_by_scale: [u64; 3]) -> u64 {
        match self.settings.int(id) {
            0 => self.value_for_scale(values_by_scale),
            number => number as u64,
        }
    }

    /// Reads a number of seconds from the settings. If it is 0, returns the value for the scale: paper, quick or tiny.
    pub fn seconds_or_by_scale(&self, id: &str, values_by_scale: [f64; 3]) -> f64 {
        let seconds = self.settings.float(id);
        if seconds > 0.0 { seconds } else { self.value_for_scale(values_by_scale) }
    }
}

/// One of the clients that run a workload at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its number, from 0.
    pub index: u32,
    /// Number of clients.
    #[serde(rename = "clients")]
    pub client_count: u32,
    /// The number of the client whose files it reads. If there are several machines, that client is on another one, so
    /// that the files are not in the reader's page cache.
    pub reads_from: u32,
}

impl Client {
    /// The only client.
    pub const ALONE: Client = Client { index: 0, client_count: 1, reads_from: 0 };
}

/// The directories of a workload, and the user of its server.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory on the filesystem under test, empty at the start; or the device, for a bare device
    /// ([`Workload::supports_bare_device`]).
    pub root: PathBuf,
    /// The directory of this workload on the source disk, with the inputs made by [`Workload::make_inputs`].
    pub source_dir: PathBuf,
    /// The user that its server runs as, if it is not the user of this process; see [`Workload::server_users`].
    pub server_user: Option<User>,
}

impl Place {
    /// The place of one workload of a plan. Each workload has a separate directory on the source disk, so that their
    /// files never collide.
    pub fn for_workload(workload: &WorkloadPlan, root: &Path, source_disk: &Path) -> Place {
        Place { root: root.into(), source_dir: source_disk.join(workload.directory_name()), server_user: None }
    }

    /// The place of one client, for workloads whose clients have separate directories.
    pub fn for_client(self, client: Client) -> Place {
        Place { root: self.root.join(format!("client-{}", client.index)), ..self }
    }

    /// Whether the place is a bare device instead of a filesystem.
    pub fn is_device(&self) -> bool {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(&self.root).is_ok_and(|meta| meta.file_type().is_block_device())
    }

    /// Whether the place is on a read-only filesystem, which already has the files of [`Workload::fill_actions`].
    pub fn is_read_only(&self) -> bool {
        is_mounted_read_only(&self.root)
    }
}

/// The space that a workload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Largest number of bytes of file data on the filesystem under test at one time.
    pub bytes: u64,
    /// Largest number of files and directories at one time.
    pub inodes: u64,
    /// Bytes on the source disk.
    pub source_bytes: u64,
}

/// The requirements of a workload, which fsarena finds before a run. One survey reads the inputs for all of them.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The space that the workload requires. fsarena reports too little space before the run.
    pub room: Room,
    /// Features that the filesystem under test must have. fsarena reports a missing one before the run.
    pub demands: Demands,
    /// Notes for every report, on cache states, contents of files, and how copies are made.
    pub remarks: Vec<Note>,
    /// Metrics that the workload declares before a run, from its rules for the output of commands.
    pub printed_metrics: Vec<Declaration>,
}

/// Makes a note for every report.
pub fn remark_note(text: impl Into<String>) -> Note {
    Note::new(NoteKind::Remark, text)
}

/// Makes a note on something that makes a comparison unfair.
pub fn fairness_note(text: impl Into<String>) -> Note {
    Note::new(NoteKind::Fairness, text)
}

/// The power cut that ends the first task of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerCut {
    /// Time from the start of that task to the cut.
    pub delay: Duration,
    /// The seed that chooses which writes after the disk's last flush survive. Without a seed, none of them survives.
    pub survivors_seed: Option<u64>,
}

impl PowerCut {
    /// The name of the task that the cut ends.
    pub const WORK_TASK: &str = "work";
    /// The name of the task that verifies the files after the cut.
    pub const VERIFY_TASK: &str = "verify";
}

/// A workload: the tasks that fsarena times on a filesystem, and their requirements.
pub trait Workload: Sync {
    /// Its name, help, metrics and settings.
    fn def(&self) -> &'static WorkloadDef;

    /// Returns the names of the tasks in their order, for progress and for reports.
    fn outline(&self, job: &Job) -> Vec<TaskInfo>;

    /// Finds the requirements of the tasks before a run.
    ///
    /// # Errors
    /// If an input cannot be read, such as a directory of the user, or a setting is invalid.
    fn survey(&self, job: &Job) -> Result<Survey>;

    /// The programs that the tasks run. The preflight checks that they are installed.
    fn programs(&self, _job: &Job) -> Vec<&'static str> {
        vec![]
    }

    /// The programs from the user's settings, by name or path. The preflight checks that the user of the workload can
    /// execute them.
    fn user_programs(&self, _job: &Job) -> Vec<String> {
        vec![]
    }

    /// The commands of the user that make shared inputs; none if they have already run in this run. They are part of
    /// the first cell, because the cell's process has the rights of the workload. For guests, this machine executes
    /// them.
    fn input_commands(&self, _job: &Job, _place: &Place) -> Vec<Action> {
        vec![]
    }

    /// The actions that make the files with which every cell begins. Where fsarena can keep the filesystem with these
    /// files, it performs them once for all runs; elsewhere they are part of the setup of each cell.
    fn setup_once_actions(&self, _job: &Job, _place: &Place) -> Vec<Action> {
        vec![]
    }

    /// Absolute paths of this machine that the user's settings name, whether they exist or not.
    fn paths_in_settings(&self, _job: &Job) -> Vec<PathBuf> {
        vec![]
    }

    /// Users that can run the workload's server if fsarena runs as root. fsarena takes the first one that exists.
    fn server_users(&self) -> &'static [&'static str] {
        &[]
    }

    /// The time limit of each command of the user, if the workload runs such commands.
    fn command_time_limit(&self, _job: &Job) -> Option<Duration> {
        None
    }

    /// A directory that its programs write to, in addition to the filesystem under test and the source disk.
    fn extra_writable_dir(&self) -> Option<&'static str> {
        None
    }

    /// Creates the inputs that all cells of a run share, on the source disk, untimed: once in a run, or once in each
    /// round if [`Workload::inputs_depend_on_seed`].
    ///
    /// # Errors
    /// If reading or writing a file fails.
    fn make_inputs(&self, _job: &Job, _place: &Place) -> Result<()> {
        Ok(())
    }

    /// Whether the seed of the job determines its inputs, so that each round gets different inputs.
    fn inputs_depend_on_seed(&self, _job: &Job) -> bool {
        false
    }

    /// Whether its tasks only read the files that [`Workload::fill_actions`] makes, so that it runs on a read-only
    /// filesystem.
    fn only_reads(&self, _job: &Job) -> bool {
        false
    }

    /// Describes, for messages, the settings with which its tasks only read: empty if they always do, None if no settings have
    /// that effect.
    fn describe_read_only_settings(&self) -> Option<&'static str> {
        None
    }

    /// Returns the untimed actions that make the files of read-only tasks in [`Place::root`]. For a read-only
    /// filesystem fsarena performs them in a directory that mkfs packs. On other filesystems the tasks make the same
    /// files themselves.
    ///
    /// # Errors
    /// If the inputs are missing.
    fn fill_actions(&self, _job: &Job, _place: &Place) -> Result<Vec<Action>> {
        Ok(vec![])
    }

    /// Makes the tasks of one cell. A workload implements this method, or [`Workload::client_tasks`] if its tasks
    /// depend on the client.
    ///
    /// # Errors
    /// If the inputs are missing.
    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        self.client_tasks(job, place, Client::ALONE)
    }

    /// Whether all clients work in one directory. Otherwise each client has a separate directory.
    fn shares_directory(&self) -> bool {
        false
    }

    /// Makes the tasks of one of several clients. All clients have the same tasks in the same order.
    ///
    /// # Errors
    /// Those of [`Workload::tasks`].
    fn client_tasks(&self, job: &Job, place: &Place, _client: Client) -> Result<Vec<Task>> {
        self.tasks(job, place)
    }

    /// Untimed checks of a task after its data is on the device. If one fails, the cell fails.
    fn check_actions(&self, _job: &Job, _place: &Place, _task: &TaskId) -> Vec<Action> {
        vec![]
    }

    /// An action that does nothing, or `None` for most workloads. Its time is the cost of starting an action.
    fn empty_action(&self, _job: &Job, _place: &Place) -> Option<Action> {
        None
    }

    /// The power cut that ends its first task, if there is one. The other tasks follow after the filesystem is mounted
    /// again.
    fn power_cut(&self, _job: &Job) -> Option<PowerCut> {
        None
    }

    /// Whether it can run on a bare device, without a filesystem.
    fn supports_bare_device(&self) -> bool {
        false
    }

    /// Whether its copies may share blocks with their originals on filesystems that support it.
    fn may_clone(&self, _job: &Job) -> bool {
        false
    }
}

/// Features that not every filesystem supports, each with the first entry that requires it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demands {
    /// A symbolic link.
    pub symlink: Option<PathBuf>,
    /// An entry whose owner is not root, if the task restores owners.
    pub foreign_owner: Option<PathBuf>,
    /// An entry whose name differs from another of its directory only in case.
    pub case_clash: Option<PathBuf>,
    /// An entry whose name has a character that Windows reserves.
    pub reserved_name: Option<PathBuf>,
    /// The entry with the longest name.
    pub longest_name: Option<PathBuf>,
    /// Whether files are opened with `O_DIRECT`.
    pub direct_io: bool,
}

/// Characters that Windows forbids in names (Microsoft, "Naming Files, Paths, and Namespaces").
const RESERVED_CHARACTERS: &[char] = &['"', '*', ':', '<', '>', '?', '\\', '|'];

impl Demands {
    /// Merges these demands with those of other work on the same filesystem.
    pub fn merge(self, other: Demands) -> Demands {
        Demands {
            symlink: self.symlink.or(other.symlink),
            foreign_owner: self.foreign_owner.or(other.foreign_owner),
            case_clash: self.case_clash.or(other.case_clash),
            reserved_name: self.reserved_name.or(other.reserved_name),
            longest_name: self.longest_name.into_iter().chain(other.longest_name).max_by_key(|path| name_bytes(path)),
            direct_io: self.direct_io || other.direct_io,
        }
    }
}

/// Finds the demands of the entries of a tree.
#[derive(Debug, Default)]
pub struct DemandFinder {
    /// The demands so far.
    pub demands: Demands,
    hasher: RandomState,
    /// A hash of each path instead of the path itself, because a tree may have millions of them.
    path_hashes: HashSet<u64>,
}

impl DemandFinder {
    /// Adds the demands of the name of an entry. `path` is its path in the tree.
    pub fn add_name(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let lower_case = match path.to_str() {
            Some(text) => text.to_lowercase().into_bytes(),
            None => path.as_os_str().as_encoded_bytes().to_ascii_lowercase(),
        };
        if !self.path_hashes.insert(self.hasher.hash_one(lower_case)) {
            self.demands.case_clash.get_or_insert_with(|| path.into());
        }
        let is_reserved = |letter: char| RESERVED_CHARACTERS.contains(&letter) || letter.is_control();
        if name.contains(is_reserved) || name.ends_with(['.', ' ']) {
            self.demands.reserved_name.get_or_insert_with(|| path.into());
        }
        if name_bytes(path) > self.demands.longest_name.as_deref().map_or(0, name_bytes) {
            self.demands.longest_name = Some(path.into());
        }
    }
}

/// The length of a path's last name in bytes.
pub fn name_bytes(path: &Path) -> u64 {
    path.file_name().map_or(0, |name| name.len() as u64)
}

/// Helpers for the tests of workloads: they make jobs and places, and perform actions.
#[cfg(test)]
pub mod testing {
    use super::{Job, Place};
    use crate::task::Action;
    use fsarena_core::cell::TaskInfo;
    use fsarena_core::setting::{Settings, WorkloadDef};
    use fsarena_core::{sample::TaskOutput, scale::Scale};
    use std::path::Path;

    /// A job of the smallest scale, with the default settings of a workload except for those in `changed_settings`.
    pub fn job(def: &WorkloadDef, seed: u64, changed_settings: &[(&str, &str)]) -> Job {
        let mut settings = Settings::defaults(def.settings);
        for (id, text) in changed_settings {
            let setting = def.settings.iter().find(|setting| setting.id == *id).unwrap();
            settings.0.insert(id.to_string(), setting.kind.parse(text).unwrap());
        }
        Job { settings, scale: Scale::Tiny, seed }
    }

    /// A directory that is both the filesystem under test and the source disk.
    pub fn place(dir: &Path) -> Place {
        Place { root: dir.into(), source_dir: dir.into(), server_user: None }
    }

    /// Performs actions and returns the output of the last one.
    pub fn perform_all(actions: impl IntoIterator<Item = Action>) -> TaskOutput {
        let mut output = TaskOutput::default();
        for action in actions {
            output = action.perform(&mut |_| {}).unwrap();
        }
        output
    }

    /// The ids of tasks, with their parameters.
    pub fn task_ids(tasks: &[TaskInfo]) -> Vec<String> {
        tasks.iter().map(|task| task.id.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    fn demands_of<P: AsRef<Path>>(paths: &[P]) -> Demands {
        let mut finder = DemandFinder::default();
        paths.iter().for_each(|path| finder.add_name(path.as_ref()));
        finder.demands
    }

    #[test]
    fn names_that_not_every_filesystem_supports_are_found() {
        let path = |text: &str| Some(PathBuf::from(text));
        let portable = demands_of(&["t/a.c", "t/b/a.c", "t/A"]);
        assert_eq!(portable, Demands { longest_name: path("t/a.c"), ..Demands::default() });
        let restricted = demands_of(&["t/xt_TCPMSS.h", "t/xt_tcpmss.h", "t/Digest::MD5.3", "t/what?"]);
        assert_eq!(restricted.case_clash, path("t/xt_tcpmss.h"));
        assert_eq!(
            (restricted.reserved_name, restricted.longest_name),
            (path("t/Digest::MD5.3"), path("t/Digest::MD5.3"))
        );
        assert_eq!(demands_of(&["t/etc."]).reserved_name, path("t/etc."));
        // `Müller`, `Möller` and `MüLLER` in Latin-1.
        let latin_1 = [&b"t/M\xfcller"[..], b"t/M\xf6ller", b"t/M\xfcLLER"].map(OsStr::from_bytes);
        assert_eq!(demands_of(&latin_1[..2]).case_clash, None);
        assert_eq!(demands_of(&latin_1).case_clash, Some(latin_1[2].into()));
    }

    #[test]
    fn merged_demands_have_the_first_entry_of_each_kind_and_the_longest_name() {
        let link = Demands { symlink: Some("t/l".into()), ..demands_of(&["t/short"]) };
        let both = demands_of(&["t/a:", "t/longest-of-all"]).merge(link);
        assert_eq!(both.symlink, Some("t/l".into()));
        assert_eq!((both.reserved_name, both.longest_name), (Some("t/a:".into()), Some("t/longest-of-all".into())));
    }
}
