//! Programs of this machine that run in the guests of a run. A rehearsal runs a cell before the measurement to find the files that
//! its programs open; guests then have these files in memory. This module also counts the requests for files of this machine that
//! guests send in spite of that while tasks are timed.

use crate::axes::Confinement;
use crate::context::RunContext;
use crate::error::{Result, RunError};
use crate::executor::{RunSink, emit_logged_commands};
use crate::protocol::{AgentRequest, GuestPrograms, ProcessRole, Rights};
use crate::{child, shell::ShellSession};
use fsarena_core::cell::{Cell, WorkloadPlan};
use fsarena_core::event::{CellEvent, Note, NoteKind, Outcome};
use fsarena_core::matrix;
use fsarena_core::metric::reading;
use fsarena_core::plan::{Emulator, GuestPlan};
use fsarena_core::sample::Sample;
use fsarena_guest::access_recorder::{AccessedPaths, OpenedFile};
use fsarena_guest::host_root::is_in_own_dir;
use fsarena_guest::host_tree::HostTree;
use fsarena_sys::user::User;
use fsarena_sys::{cancel, undo::MadeDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The report warns if requests for files of this machine take a larger share of the time of a task than this.
const MAX_REQUEST_SHARE: f64 = 0.05;
/// Copies of programs may take this part of the memory of a guest: one fourth.
const MEMORY_DIVISOR: u64 = 4;

/// The programs of this machine in the guests of a run.
pub struct HostPrograms {
    user: User,
    /// The value of `PATH` in the guests.
    path_variable: String,
    /// The paths that guests read from copies on their source disk.
    copied_paths: Vec<PathBuf>,
    /// For each workload, the files and names that its programs accessed in the rehearsal. Files that do not fit into
    /// the memory of guests are left out.
    rehearsed: Vec<(WorkloadPlan, AccessedPaths)>,
    /// The memory of a guest that these files may take, in bytes.
    memory_bytes: u64,
    /// Whether the guests count instructions, and begin with a saved machine.
    counts_instructions: bool,
    /// Workloads whose programs have succeeded without the files of this machine.
    verified: Vec<WorkloadPlan>,
    /// For each task, the largest number of requests for files of this machine while it was timed, and their largest
    /// share of its time.
    max_requests: BTreeMap<String, HostRequests>,
}

/// Requests for files of this machine while a task was timed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct HostRequests {
    count: f64,
    /// The share of the time of the task that they took, from 0 to 1.
    share: f64,
}

impl HostPrograms {
    /// The programs of a run before any rehearsal; None if the guests of the run start no programs of this machine.
    pub fn of_run(run: &RunContext, guest: &GuestPlan) -> Option<HostPrograms> {
        let needed = run.requirements.host_programs.as_ref()?;
        Some(HostPrograms {
            memory_bytes: guest.memory.as_u64() / MEMORY_DIVISOR,
            counts_instructions: guest.emulator == Emulator::Exact,
            ..HostPrograms::for_ageing(run, needed.copied_paths.clone())
        })
    }

    /// The programs that age filesystems, with the rights of the run's workloads. `copied_paths` are the paths
    /// that guests read from copies.
    pub fn for_ageing(run: &RunContext, copied_paths: Vec<PathBuf>) -> HostPrograms {
        let mut user = run.agent_config.user.clone();
        if user.home.is_none() && user.uid == rustix::process::getuid().as_raw() {
            user.home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        }
        HostPrograms {
            user,
            path_variable: std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into()),
            copied_paths,
            rehearsed: vec![],
            memory_bytes: 0,
            counts_instructions: false,
            verified: vec![],
            max_requests: BTreeMap::new(),
        }
    }

    /// Returns the programs for the request to a guest that ages a filesystem.
    pub fn for_ageing_guest(&self, cell: &Cell) -> GuestPrograms {
        GuestPrograms { is_rehearsal: false, ..self.for_guest(cell, None) }
    }

    /// The paths that guests read from copies.
    pub fn copied_paths(&self) -> &[PathBuf] {
        &self.copied_paths
    }

    /// The role of the agent in a guest: the supervisor, with a worker that has the rights of the user of the workload.
    pub fn role(&self) -> ProcessRole {
        ProcessRole::Supervisor(Rights { user: self.user.clone(), has_mount_namespace: false, has_pid_namespace: true })
    }

    /// The mount options that give a filesystem without owners to the user of the workload.
    pub fn owner_mount_options(&self) -> String {
        format!("uid={},gid={}", self.user.uid, self.user.gid)
    }

    /// Whether the programs of a cell have not been rehearsed yet.
    pub fn needs_rehearsal(&self, cell: &Cell) -> bool {
        self.accessed_by(cell).is_none()
    }

    /// The paths that the programs of a cell accessed in their rehearsal; None before it.
    fn accessed_by(&self, cell: &Cell) -> Option<&AccessedPaths> {
        let (_, accessed) = self.rehearsed.iter().find(|(workload, _)| *workload == cell.workload)?;
        Some(accessed)
    }

    /// The files that guests of a cell copy into memory before their machine is saved, so that they run without the files of this
    /// machine. None if the cell has not been rehearsed, or if its guests do not count instructions: these read files from this
    /// machine ([`GuestPrograms::in_memory`]).
    pub fn packed_files(&self, cell: &Cell) -> Option<HostTree> {
        let accessed = self.accessed_by(cell).filter(|_| self.counts_instructions)?;
        let files = accessed.files.iter().map(|file| file.path.clone()).collect();
        Some(HostTree { files, names: accessed.names.clone() })
    }

    /// Whether the programs of a cell must still run without the files of this machine, to check that they miss none.
    pub fn needs_verification(&self, cell: &Cell) -> bool {
        self.counts_instructions && !self.needs_rehearsal(cell) && !self.verified.contains(&cell.workload)
    }

    /// Verifies the programs of a cell by the names that they looked up while they ran without the files of this machine. If the
    /// guest had all files that exist on this machine, returns None and records that the programs are verified. Else returns one of
    /// the missing files; the cell then fails.
    pub fn verify_packed_files(&mut self, cell: &Cell, accessed: &AccessedPaths) -> Option<PathBuf> {
        let tree = self.packed_files(cell)?;
        let is_in_guest = |name: &PathBuf| {
            let is_listed = name.parent().is_some_and(|parent| tree.files.iter().any(|file| file == parent));
            is_listed || tree.names.contains(name) || tree.files.contains(name)
        };
        let is_missed = |name: &&PathBuf| {
            let is_of_host = !is_in_own_dir(name) && !self.copied_paths.iter().any(|path| name.starts_with(path));
            is_of_host && name.is_absolute() && !is_in_guest(name) && name.symlink_metadata().is_ok()
        };
        let missed = accessed.names.iter().find(is_missed).cloned();
        if missed.is_none() {
            self.verified.push(cell.workload.clone());
        }
        missed
    }

    /// Records the files that the programs of a cell opened in their rehearsal, and the names that they looked up.
    /// Leaves out files that do not fit into the memory of guests, the largest first.
    pub fn record_rehearsal(&mut self, cell: &Cell, mut accessed: AccessedPaths) {
        accessed.files.sort_by_key(|file| file.bytes);
        let mut bytes_left = self.memory_bytes;
        let fits = |file: &OpenedFile| {
            let fits = file.bytes <= bytes_left;
            bytes_left -= if fits { file.bytes } else { 0 };
            fits
        };
        accessed.files.retain(fits);
        let is_of_guest =
            |name: &Path| is_in_own_dir(name) || name.to_string_lossy().starts_with(GuestPlan::ABSENT_PATH_PREFIX);
        accessed.names.retain(|name| !is_of_guest(name));
        self.rehearsed.push((cell.workload.clone(), accessed));
    }

    /// Returns the programs for the request to the guest of a cell. `shell` is the shell that the guest runs, if any.
    ///
    /// Before the rehearsal, a guest reads all files from this machine. After it, a guest that counts instructions has the files in
    /// its saved machine (it is packed), and another guest copies them into memory before the first task.
    pub fn for_guest(&self, cell: &Cell, shell: Option<&ShellSession>) -> GuestPrograms {
        let accessed = self.accessed_by(cell);
        let home = self.user.home.as_deref().unwrap_or(Path::new("/")).display().to_string();
        let round = (cell.round + 1).to_string();
        let variables = [
            ("PATH", self.path_variable.as_str()),
            ("HOME", &home),
            ("USER", &self.user.name),
            ("LOGNAME", &self.user.name),
            ("LANG", "C.UTF-8"),
            ("FSARENA_VARIANT", &cell.variant.name),
            ("FSARENA_SCALE", cell.scale.name()),
            ("FSARENA_ROUND", &round),
        ];
        let term = shell.map(|shell| ("TERM", shell.term.as_str()));
        let variables = variables.into_iter().chain(term);
        let is_packed = self.counts_instructions && accessed.is_some();
        let accessed = accessed.filter(|_| !is_packed).cloned().unwrap_or_default();
        // The verification is a second rehearsal, of a packed guest.
        let is_rehearsal = shell.is_none() && (self.needs_rehearsal(cell) || self.needs_verification(cell));
        GuestPrograms {
            environment: variables.map(|(name, value)| (name.into(), value.into())).collect(),
            copied_paths: self.copied_paths.clone(),
            in_memory: accessed.files.into_iter().map(|file| file.path).collect(),
            paths_to_look_up: accessed.names,
            is_packed,
            is_rehearsal,
        }
    }

    /// Records the requests for files of this machine while a task was timed, from the sample of the task.
    pub fn record_requests(&mut self, sample: &Sample) {
        let [count, wait, elapsed] = [reading::HOST_ROUND_TRIPS, reading::HOST_WAIT, reading::ELAPSED]
            .map(|id| sample.readings.get(id).unwrap_or(f64::NAN));
        if !sample.task.in_totals || count.is_nan() || wait.is_nan() || elapsed.is_nan() || elapsed <= 0.0 {
            return;
        }
        let requests = HostRequests { count, share: (wait / elapsed).min(1.0) };
        let max = self.max_requests.entry(sample.task.id.to_string()).or_insert(requests);
        max.count = max.count.max(requests.count);
        max.share = max.share.max(requests.share);
    }

    /// Notes for the report on the programs and their requests.
    pub fn notes(&self) -> Vec<Note> {
        if self.counts_instructions {
            let text = "the programs are those of this machine; each guest begins with a saved machine that has them in memory; \
                        the addresses of the programs are not random, and the clock of each guest begins at the start of the run";
            return vec![Note::new(NoteKind::Remark, text).task("programs")];
        }
        let Some((task, largest)) = self.max_requests.iter().max_by(|a, b| a.1.share.total_cmp(&b.1.share)) else {
            return vec![];
        };
        let total: f64 = self.max_requests.values().map(|requests| requests.count).sum();
        let text = format!(
            "the programs are those of this machine, read by the guests over 9p and rehearsed once before the first cell; while \
             tasks were timed, guests sent at most {total:.0} requests for files of this machine in a cell; in the task {task} at \
             most {:.0}, which took at most {} of its time",
            largest.count,
            format_percent(largest.share)
        );
        let mut notes = vec![Note::new(NoteKind::Remark, text).task("programs")];
        for (task, HostRequests { count, share }) in &self.max_requests {
            if *share > MAX_REQUEST_SHARE {
                let text = format!(
                    "{} of the time of {task} went into {count:.0} requests for files of this machine, more than {}: it measures \
                     how the guest reads them, too",
                    format_percent(*share),
                    format_percent(MAX_REQUEST_SHARE)
                );
                let fix = format!(
                    "name the data that it reads, so that it lies on the source disk ({}), or give the guest more memory for \
                     copies of programs ({})",
                    fsarena_core::setting_text::setting("set", "input=PATH"),
                    fsarena_core::setting_text::setting("guest_memory", "")
                );
                notes.push(Note::new(NoteKind::Fairness, text).task(task.as_str()).fix(fix));
            }
        }
        notes
    }
}

/// Formats a share as percent: `0.5%`, `12%`.
fn format_percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 0.95 => format!("{percent:.1}%"),
        percent => format!("{percent:.0}%"),
    }
}

/// Fills a directory that becomes the source disk: an agent with the rights of the workloads makes the inputs that the
/// first cell would make, and copies the files of this machine that guests read.
///
/// # Errors
/// A command fails, or a file cannot be copied.
pub fn fill_source_dir(run: &RunContext, copied_paths: &[PathBuf], dir: &Path, emit: RunSink) -> Result<()> {
    run.agent_config.role.give_to_workload_user(dir)?;
    let root = MadeDir::make_tree(&run.journal, &dir.with_file_name("staging"))?;
    let variants = matrix::expand(&run.plan);
    let all_variants: Vec<usize> = (0..variants.len()).collect();
    let (mut staged_workloads, mut unstaged_paths) = (vec![], copied_paths.to_vec());
    for cell in matrix::cells_of_round(&run.plan, &variants, &all_variants, 0) {
        if staged_workloads.contains(&cell.workload) {
            continue;
        }
        let request = AgentRequest {
            paths_to_copy: Some(std::mem::take(&mut unstaged_paths)),
            ..run.agent_request(&cell, root.path(), dir)
        };
        let outcome = emit_logged_commands(emit, |log| {
            child::run_agent(&run.journal, &request, &Confinement::default(), &mut |event| {
                if let CellEvent::Command(record) = event {
                    log(record);
                }
            })
        })??;
        match outcome {
            Outcome::Done => staged_workloads.push(cell.workload),
            Outcome::Failed { why, .. } => {
                return Err(RunError::Missing(format!("making the inputs of the guests: {why}")));
            }
            Outcome::Interrupted => {
                cancel::check()?;
            }
        }
    }
    root.remove()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(memory_bytes: u64) -> HostPrograms {
        let user = User { home: Some("/home/u".into()), ..User::of_process() };
        let (path, copied_paths, verified) = ("/usr/bin".into(), vec![], vec![]);
        HostPrograms {
            user,
            path_variable: path,
            copied_paths,
            rehearsed: vec![],
            memory_bytes,
            counts_instructions: false,
            verified,
            max_requests: BTreeMap::new(),
        }
    }

    #[test]
    fn small_files_of_a_rehearsal_come_first_into_memory() {
        let mut programs = programs(100);
        let record = crate::testing::empty_record(&["ext4"], &[]);
        let cell = matrix::cells_of_round(&record.plan, &record.variants, &[0], 0).remove(0);
        assert!(programs.needs_rehearsal(&cell) && programs.for_guest(&cell, None).is_rehearsal);
        let file = |path: &str, bytes| OpenedFile { path: path.into(), bytes };
        let files = vec![file("/large", 90), file("/small", 20), file("/dir", 0), file("/next", 80)];
        let names = ["/etc/x", "/proc/self", "/tmp/y", "/.fsarena-absent-1"].map(PathBuf::from).into();
        programs.record_rehearsal(&cell, AccessedPaths { files, names });
        let guest = programs.for_guest(&cell, None);
        assert_eq!(guest.in_memory, ["/dir", "/small", "/next"].map(PathBuf::from));
        assert_eq!(guest.paths_to_look_up, [PathBuf::from("/etc/x")]);
        assert!(!guest.is_rehearsal && !programs.needs_rehearsal(&cell));
    }

    #[test]
    fn a_task_without_a_time_has_no_share_of_requests() {
        let mut programs = programs(0);
        let mut sample = crate::testing::sample("tar", 1.0);
        for (id, value) in [(reading::HOST_ROUND_TRIPS, 7.0), (reading::HOST_WAIT, 1.0), (reading::ELAPSED, f64::NAN)] {
            sample.readings.set(id, value);
        }
        programs.record_requests(&sample);
        assert!(programs.notes().is_empty());
    }

    #[test]
    fn many_requests_in_the_time_of_a_task_are_a_warning() {
        let mut programs = programs(0);
        let mut sample = crate::testing::sample("tar", 1.0);
        for (wait, expected) in [(1.0, 1), (30.0, 2)] {
            for (id, value) in [(reading::HOST_ROUND_TRIPS, 7.0), (reading::HOST_WAIT, wait), (reading::ELAPSED, 100.0)]
            {
                sample.readings.set(id, value);
            }
            programs.record_requests(&sample);
            assert_eq!(programs.notes().len(), expected);
        }
        let notes = programs.notes();
        assert!(
            notes[0].text.contains("in the task tar at most 7, which took at most 30% of its time"),
            "{}",
            notes[0].text
        );
        assert!(notes[1].kind == NoteKind::Fairness && notes[1].fix.is_some());
    }
}
