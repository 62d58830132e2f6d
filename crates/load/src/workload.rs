//! The trait every workload implements. A new one is one file in `workloads/` and its line there.

use crate::task::{Action, Result, Task};
use fsarena_core::cell::{TaskId, TaskInfo, WorkloadPlan};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::setting::{Settings, WorkloadDef};
use fsarena_core::{metric::Declaration, scale::Scale};
use fsarena_sys::user::User;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{collections::HashSet, time::Duration};

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

impl Job {
    /// One of three values, by the scale: paper, quick, tiny.
    pub fn by_scale<T: Copy>(&self, values: [T; 3]) -> T {
        values[self.scale as usize]
    }

    /// A whole number above 0 from the settings; 0 stands for a published count shrunk by the scale, never under the
    /// second number.
    pub fn count(&self, id: &str, (published, floor): (u64, u64)) -> u64 {
        match self.settings.int(id) {
            0 => self.scale.count(published, floor),
            count => count as u64,
        }
    }

    /// A whole number above 0 from the settings; 0 stands for one by the scale.
    pub fn number(&self, id: &str, by_scale: [u64; 3]) -> u64 {
        match self.settings.int(id) {
            0 => self.by_scale(by_scale),
            number => number as u64,
        }
    }

    /// A number above 0 from the settings; 0 stands for one by the scale.
    pub fn seconds(&self, id: &str, by_scale: [f64; 3]) -> f64 {
        let own = Some(self.settings.float(id)).filter(|seconds| *seconds > 0.0);
        own.unwrap_or_else(|| self.by_scale(by_scale))
    }
}

/// One of the clients that do a workload at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its number, from 0.
    pub index: u32,
    /// Number of clients.
    pub of: u32,
    /// The client whose files it reads, on another machine if there is one, so that its own cache has none of them.
    pub reads: u32,
}

impl Client {
    /// The only client.
    pub const ALONE: Client = Client { index: 0, of: 1, reads: 0 };
}

/// Where a workload finds its files.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory on the filesystem under test, empty at the start; or the device, for a bare device
    /// ([`Workload::supports_raw`]).
    pub root: PathBuf,
    /// The directory of this workload on the source disk, with the inputs made by [`Workload::inputs`].
    pub other: PathBuf,
    /// The user that its server runs as, where that is another than the user of this process; see
    /// [`Workload::server_users`].
    pub server_user: Option<User>,
}

impl Place {
    /// The place of one of a plan's workloads. Each has a separate directory on the source disk, so that their files
    /// never collide.
    pub fn of(workload: &WorkloadPlan, root: &Path, other: &Path) -> Place {
        Place { root: root.into(), other: other.join(workload.directory()), server_user: None }
    }

    /// The directory of one client in this place, for workloads whose clients have nothing in common.
    pub fn of_client(self, client: Client) -> Place {
        Place { root: self.root.join(format!("client-{}", client.index)), ..self }
    }

    /// Whether the place is a bare device instead of a filesystem.
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
    /// Bytes on the source disk.
    pub other_bytes: u64,
}

/// The requirements of a workload, known before it begins. Making a survey reads the inputs only once.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The room it needs, so that fsarena reports too little room before the run.
    pub room: Room,
    /// Features it requires of the filesystem under test, so that fsarena reports a missing one before the run.
    pub demands: Demands,
    /// Remarks that every report must make: cache states, payload, how copies are done.
    pub remarks: Vec<Note>,
    /// The metrics that it declares before a run: those of rules for what its commands print.
    pub prints: Vec<Declaration>,
}

/// A remark that every report must make.
pub fn remark(text: impl Into<String>) -> Note {
    Note::new(NoteKind::Remark, text)
}

/// A remark on what makes a comparison unfair.
pub fn fairness(text: impl Into<String>) -> Note {
    Note::new(NoteKind::Fairness, text)
}

/// The power cut that ends the first task of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    /// When it happens, counted from the beginning of that task.
    pub after: Duration,
    /// The seed that chooses writes after the disk's last flush that survive; without it none does.
    pub chosen: Option<u64>,
}

impl Cut {
    /// The name of the task that the cut ends.
    pub const WORK: &str = "work";
    /// The name of the task that verifies what it left.
    pub const VERIFY: &str = "verify";
}

/// A load to time on a filesystem.
pub trait Workload: Sync {
    /// Its name, help and settings.
    fn def(&self) -> &'static WorkloadDef;

    /// The tasks in their order, without doing anything: for progress and for reports.
    fn outline(&self, job: &Job) -> Vec<TaskInfo>;

    /// What must be known of the work before a run.
    ///
    /// # Errors
    /// Where it depends on something that cannot be read (`--tree PATH`).
    fn survey(&self, job: &Job) -> Result<Survey>;

    /// The programs that the tasks run; the preflight looks for them.
    fn programs(&self, _job: &Job) -> Vec<&'static str> {
        vec![]
    }

    /// The programs that the user wrote into its settings, by name or path; the preflight checks that the user of the
    /// workload can execute them.
    fn own_programs(&self, _job: &Job) -> Vec<String> {
        vec![]
    }

    /// The users to run its server as where the workload runs as root: the first that exists.
    fn server_users(&self) -> &'static [&'static str] {
        &[]
    }

    /// The time that each command of the user may take, where it runs any.
    fn time_limit(&self, _job: &Job) -> Option<Duration> {
        None
    }

    /// The directory that its programs write to besides the filesystem under test and the source disk.
    fn writes_to(&self) -> Option<&'static str> {
        None
    }

    /// Makes the inputs that all cells of a run share, on the source disk. Called once a run, never timed.
    ///
    /// # Errors
    /// If reading or writing a file fails.
    fn inputs(&self, _job: &Job, _place: &Place) -> Result<()> {
        Ok(())
    }

    /// The tasks, ready to be done once. A workload has these, or [`Workload::steps_of`].
    ///
    /// # Errors
    /// If the inputs are missing.
    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        self.steps_of(job, place, Client::ALONE)
    }

    /// Whether its clients work in one directory. Otherwise each has a separate one.
    fn shares(&self) -> bool {
        false
    }

    /// The tasks of one of several clients; all clients have the same tasks in the same order.
    ///
    /// # Errors
    /// Those of [`Workload::steps`].
    fn steps_of(&self, job: &Job, place: &Place, _client: Client) -> Result<Vec<Task>> {
        self.steps(job, place)
    }

    /// Checks of a task after its data is on the device, not timed. Where one fails, the cell fails.
    fn checks(&self, _job: &Job, _place: &Place, _task: &TaskId) -> Vec<Action> {
        vec![]
    }

    /// An action without work, done as those of the tasks are: its time is the cost of starting one.
    fn nothing(&self, _job: &Job, _place: &Place) -> Option<Action> {
        None
    }

    /// The power cut that its first task works until, where there is one. Its other tasks follow once the filesystem has
    /// come back.
    fn cut(&self, _job: &Job) -> Option<Cut> {
        None
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

/// Entries that not every filesystem can hold: the first one of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demands {
    /// A symbolic link.
    pub link: Option<PathBuf>,
    /// An entry with an owner other than the user who unpacks it, if the task restores owners.
    pub owned: Option<PathBuf>,
    /// An entry whose name differs from another of its directory only in case.
    pub twin_but_for_case: Option<PathBuf>,
    /// An entry whose name has a character that Windows reserves.
    pub reserved: Option<PathBuf>,
    /// The entry with the longest name.
    pub longest: Option<PathBuf>,
    /// Files that are opened with `O_DIRECT`.
    pub direct_io: bool,
}

/// Characters that Windows forbids in names (Microsoft, "Naming Files, Paths, and Namespaces").
const RESERVED: &[char] = &['"', '*', ':', '<', '>', '?', '\\', '|'];

impl Demands {
    /// The demands of the given paths, in order.
    pub fn of_names<'a>(paths: impl Iterator<Item = &'a Path>) -> Demands {
        let mut demands = Demands::default();
        let mut seen = HashSet::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !seen.insert(path.to_string_lossy().to_lowercase()) {
                demands.twin_but_for_case.get_or_insert_with(|| path.into());
            }
            let odd = |letter: char| RESERVED.contains(&letter) || letter.is_control();
            if name.contains(odd) || name.ends_with(['.', ' ']) {
                demands.reserved.get_or_insert_with(|| path.into());
            }
            if name_bytes(path) > demands.longest.as_deref().map_or(0, name_bytes) {
                demands.longest = Some(path.into());
            }
        }
        demands
    }

    /// These demands merged with those of other work on the same filesystem.
    pub fn and(self, other: Demands) -> Demands {
        Demands {
            link: self.link.or(other.link),
            owned: self.owned.or(other.owned),
            twin_but_for_case: self.twin_but_for_case.or(other.twin_but_for_case),
            reserved: self.reserved.or(other.reserved),
            longest: self.longest.into_iter().chain(other.longest).max_by_key(|path| name_bytes(path)),
            direct_io: self.direct_io || other.direct_io,
        }
    }
}

/// The length of a path's last name in bytes.
pub fn name_bytes(path: &Path) -> u64 {
    path.file_name().map_or(0, |name| name.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Demands {
        Demands::of_names(names.iter().map(Path::new))
    }

    #[test]
    fn names_that_only_some_filesystems_can_hold_are_found() {
        let path = |text: &str| Some(PathBuf::from(text));
        let plain = of(&["t/a.c", "t/b/a.c", "t/A"]);
        assert_eq!(plain, Demands { longest: path("t/a.c"), ..Demands::default() });
        let odd = of(&["t/xt_TCPMSS.h", "t/xt_tcpmss.h", "t/Digest::MD5.3", "t/what?"]);
        assert_eq!(odd.twin_but_for_case, path("t/xt_tcpmss.h"));
        assert_eq!((odd.reserved, odd.longest), (path("t/Digest::MD5.3"), path("t/Digest::MD5.3")));
        assert_eq!(of(&["t/etc."]).reserved, path("t/etc."));
    }

    #[test]
    fn the_first_of_a_kind_and_the_longest_of_all_stay() {
        let link = Demands { link: Some("t/l".into()), ..of(&["t/short"]) };
        let both = of(&["t/a:", "t/longest-of-all"]).and(link);
        assert_eq!(both.link, Some("t/l".into()));
        assert_eq!((both.reserved, both.longest), (Some("t/a:".into()), Some("t/longest-of-all".into())));
    }
}
