//! Programs of this machine in the guests of a run: their inputs, their rehearsal, and the requests for files of this
//! machine that they still make while they are timed.

use crate::axes::Confinement;
use crate::context::RunContext;
use crate::error::{Result, RunError};
use crate::executor::{RunSink, with_log};
use crate::protocol::{AgentRequest, GuestPrograms, ProcessRole, Rights};
use crate::{child, shell::ShellSession, work};
use fsarena_core::cell::{Cell, WorkloadPlan};
use fsarena_core::event::{CellEvent, Note, NoteKind, Outcome};
use fsarena_core::metric::reading;
use fsarena_core::sample::Sample;
use fsarena_core::{matrix, plan::GuestPlan};
use fsarena_guest::host_root::is_in_own_dir;
use fsarena_guest::host_tree::HostTree;
use fsarena_guest::opened::{AccessedPaths, OpenedFile};
use fsarena_sys::user::User;
use fsarena_sys::{cancel, undo::MadeDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The report warns if requests for files of this machine take a larger share of a task's time than this.
const MAX_SHARE: f64 = 0.05;
/// Copies of programs may take the memory of a guest divided by this number.
const MEMORY_DIVISOR: u64 = 4;
/// The time beyond the time limit of a command for which a guest may be silent.
const SILENCE_SLACK: Duration = Duration::from_secs(60);

/// The programs of this machine in the guests of a run.
pub struct HostPrograms {
    user: User,
    path_variable: String,
    copies: Vec<PathBuf>,
    /// What programs opened in the rehearsal of each workload, as far as the memory of guests holds it.
    rehearsed: Vec<(WorkloadPlan, AccessedPaths)>,
    /// The bytes that they may take.
    memory_bytes: u64,
    /// Whether the guests count instructions, and begin with a saved machine.
    counts_instructions: bool,
    /// Workloads whose programs have run without the files of this machine.
    verified: Vec<WorkloadPlan>,
    /// The most requests for files of this machine in the time of each task.
    most_requests: BTreeMap<String, HostRequests>,
}

/// Requests for files of this machine while a task was timed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct HostRequests {
    count: f64,
    /// The share of the task's time.
    share: f64,
}

impl HostPrograms {
    /// The programs of a run before any rehearsal; None if its guests start no program.
    pub fn of_run(run: &RunContext, guest: &GuestPlan) -> Option<HostPrograms> {
        let needed = run.requirements.host_programs.as_ref()?;
        let (path, user) = path_and_user(run);
        Some(HostPrograms {
            user,
            path_variable: path,
            copies: needed.copies.clone(),
            rehearsed: vec![],
            memory_bytes: guest.memory.as_u64() / MEMORY_DIVISOR,
            counts_instructions: needed.counts_instructions,
            verified: vec![],
            most_requests: BTreeMap::new(),
        })
    }

    /// The programs that age filesystems, with the rights of the run's workloads.
    pub fn for_ageing(run: &RunContext, copies: Vec<PathBuf>) -> HostPrograms {
        let (path, user) = path_and_user(run);
        HostPrograms {
            user,
            path_variable: path,
            copies,
            rehearsed: vec![],
            memory_bytes: 0,
            counts_instructions: false,
            verified: vec![],
            most_requests: BTreeMap::new(),
        }
    }

    /// The part about programs of the request to a guest that ages a filesystem.
    pub fn for_ageing_guest(&self, cell: &Cell) -> GuestPrograms {
        GuestPrograms { is_rehearsal: false, ..self.for_guest(cell, None) }
    }

    /// The paths that guests read from copies.
    pub fn copies(&self) -> &[PathBuf] {
        &self.copies
    }

    /// The rights of a workload that starts programs: those of its user, in a kernel that is there for its cell alone.
    pub fn role(&self) -> ProcessRole {
        ProcessRole::Supervisor(Rights { user: self.user.clone(), has_mount_namespace: false, has_pid_namespace: true })
    }

    /// The mount options that give a filesystem without owners to the user of the workload.
    pub fn owner_mount_options(&self) -> String {
        format!("uid={},gid={}", self.user.uid, self.user.gid)
    }

    /// Whether the programs of a cell have not been rehearsed yet.
    pub fn is_new(&self, cell: &Cell) -> bool {
        !self.rehearsed.iter().any(|(workload, _)| *workload == cell.workload)
    }

    /// The files that the guests of a cell have in memory from the beginning; None if the guests read files from this machine.
    pub fn files_in_memory(&self, cell: &Cell) -> Option<HostTree> {
        let (_, opened) =
            self.rehearsed.iter().find(|(workload, _)| *workload == cell.workload && self.counts_instructions)?;
        let files = opened.files.iter().map(|file| file.path.clone()).collect();
        Some(HostTree { files, names: opened.names.clone() })
    }

    /// Whether the programs of a cell have yet to run without the files of this machine, to see whether they miss any.
    pub fn is_unverified(&self, cell: &Cell) -> bool {
        self.counts_instructions && !self.is_new(cell) && !self.verified.contains(&cell.workload)
    }

    /// Checks the names that the programs of a cell looked up without the files of this machine. Returns an existing file of this
    /// machine that they missed, if any.
    pub fn verify(&mut self, cell: &Cell, found: &AccessedPaths) -> Option<PathBuf> {
        let tree = self.files_in_memory(cell)?;
        let has = |name: &PathBuf| {
            let listed = name.parent().is_some_and(|parent| tree.files.iter().any(|file| file == parent));
            listed || tree.names.contains(name) || tree.files.contains(name)
        };
        let is_missed = |name: &&PathBuf| {
            let ours = !is_in_own_dir(name) && !self.copies.iter().any(|copy| name.starts_with(copy));
            ours && name.is_absolute() && !has(name) && name.symlink_metadata().is_ok()
        };
        let missed = found.names.iter().find(is_missed).cloned();
        if missed.is_none() {
            self.verified.push(cell.workload.clone());
        }
        missed
    }

    /// Keeps the files that a rehearsal opened, the smallest first, as far as the memory of guests holds them; and the names.
    pub fn keep_rehearsal(&mut self, cell: &Cell, mut opened: AccessedPaths) {
        opened.files.sort_by_key(|file| file.bytes);
        let mut bytes_left = self.memory_bytes;
        let fits = |file: &OpenedFile| {
            let fits = file.bytes <= bytes_left;
            bytes_left -= if fits { file.bytes } else { 0 };
            fits
        };
        opened.files.retain(fits);
        let own =
            |name: &Path| is_in_own_dir(name) || name.to_string_lossy().starts_with(GuestPlan::ABSENT_PATH_PREFIX);
        opened.names.retain(|name| !own(name));
        self.rehearsed.push((cell.workload.clone(), opened));
    }

    /// The part about programs of the request to the guest of a cell.
    pub fn for_guest(&self, cell: &Cell, shell: Option<&ShellSession>) -> GuestPrograms {
        let known = self.rehearsed.iter().find(|(workload, _)| *workload == cell.workload);
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
        let is_packed = self.counts_instructions && known.is_some();
        let known = known.filter(|_| !is_packed);
        let is_rehearsal = shell.is_none() && (self.is_new(cell) || self.is_unverified(cell));
        GuestPrograms {
            environment: variables.map(|(name, value)| (name.into(), value.into())).collect(),
            copies: self.copies.clone(),
            in_memory: known.iter().flat_map(|(_, opened)| &opened.files).map(|file| file.path.clone()).collect(),
            paths_to_look_up: known.map(|(_, opened)| opened.names.clone()).unwrap_or_default(),
            is_packed,
            is_rehearsal,
        }
    }

    /// Adds the requests for files of this machine while a task was timed.
    pub fn count_requests(&mut self, sample: &Sample) {
        let [count, wait, elapsed] = [reading::HOST_ROUND_TRIPS, reading::HOST_WAIT, reading::ELAPSED]
            .map(|id| sample.readings.get(id).unwrap_or(f64::NAN));
        if !sample.task.in_totals || count.is_nan() || wait.is_nan() || elapsed <= 0.0 {
            return;
        }
        let requests = HostRequests { count, share: (wait / elapsed).min(1.0) };
        let most = self.most_requests.entry(sample.task.id.to_string()).or_insert(requests);
        most.count = most.count.max(requests.count);
        most.share = most.share.max(requests.share);
    }

    /// Notes for the report on the programs and their requests.
    pub fn notes(&self) -> Vec<Note> {
        if self.counts_instructions {
            let text = "the programs are those of this machine, in the memory of one saved machine with which each guest \
                        begins; their addresses are not random, and their clock stands at the beginning of the run";
            return vec![Note::new(NoteKind::Remark, text).task("programs")];
        }
        let Some((task, worst)) = self.most_requests.iter().max_by(|a, b| a.1.share.total_cmp(&b.1.share)) else {
            return vec![];
        };
        let total: f64 = self.most_requests.values().map(|requests| requests.count).sum();
        let text = format!(
            "the programs are those of this machine, read by the guests over 9p and rehearsed once before the first cell; while \
             tasks were timed, guests sent at most {total:.0} requests for files of this machine in a cell, in {task} {:.0}, \
             about {} of its time",
            worst.count,
            percent(worst.share)
        );
        let mut notes = vec![Note::new(NoteKind::Remark, text).task("programs")];
        for (task, HostRequests { count, share }) in &self.most_requests {
            if *share > MAX_SHARE {
                let text = format!(
                    "{} of the time of {task} went into {count:.0} requests for files of this machine, more than {}: it measures \
                     how the guest reads them, too",
                    percent(*share),
                    percent(MAX_SHARE)
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

fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 0.95 => format!("{percent:.1}%"),
        percent => format!("{percent:.0}%"),
    }
}

/// The variable `PATH` of this process, and the user of the workloads.
fn path_and_user(run: &RunContext) -> (String, User) {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
    let mut user = run.agent_config.user.clone();
    if user.home.is_none() && user.uid == rustix::process::getuid().as_raw() {
        user.home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    }
    (path, user)
}

/// The longest silence of a guest that is not hung, in seconds: its commands may be silent until their time limit.
pub fn patience_s(guest: &GuestPlan, cell: &Cell) -> f64 {
    let limit = work::time_limit(cell).map_or(0.0, |limit| (limit + SILENCE_SLACK).as_secs_f64());
    guest.patience_s.max(limit)
}

/// Fills a directory that becomes the source disk: an agent with the rights of the workloads makes the inputs that the first
/// cell would make, and copies the files of this machine that guests read.
///
/// # Errors
/// A command fails, or a file cannot be copied.
pub fn fill_source_dir(run: &RunContext, copies: &[PathBuf], dir: &Path, emit: RunSink) -> Result<()> {
    run.agent_config.role.give_to_workload_user(dir)?;
    let root = MadeDir::make_tree(&run.journal, &dir.with_file_name("staging"))?;
    let variants = matrix::expand(&run.plan);
    let all: Vec<usize> = (0..variants.len()).collect();
    let (mut seen, mut copies) = (vec![], copies.to_vec());
    for cell in matrix::cells(&run.plan, &variants, &all, 0) {
        if seen.contains(&cell.workload) {
            continue;
        }
        let request =
            AgentRequest { paths_to_copy: Some(std::mem::take(&mut copies)), ..run.request(&cell, root.path(), dir) };
        let staged = with_log(emit, |log| {
            child::run_agent(&run.journal, &request, &Confinement::default(), &mut |event| {
                if let CellEvent::Command(record) = event {
                    log(record);
                }
            })
        })??;
        match staged {
            Outcome::Done => seen.push(cell.workload),
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

    fn programs(memory: u64) -> HostPrograms {
        let user = User { home: Some("/home/u".into()), ..User::of_process() };
        let (path, copies, verified) = ("/usr/bin".into(), vec![], vec![]);
        HostPrograms {
            user,
            path_variable: path,
            copies,
            rehearsed: vec![],
            memory_bytes: memory,
            counts_instructions: false,
            verified,
            most_requests: BTreeMap::new(),
        }
    }

    #[test]
    fn small_files_of_a_rehearsal_come_first_into_memory() {
        let mut programs = programs(100);
        let record = crate::testing::empty_record(&["ext4"], &[]);
        let cell = matrix::cells(&record.plan, &record.variants, &[0], 0).remove(0);
        assert!(programs.is_new(&cell) && programs.for_guest(&cell, None).is_rehearsal);
        let file = |path: &str, bytes| OpenedFile { path: path.into(), bytes };
        let files = vec![file("/large", 90), file("/small", 20), file("/dir", 0), file("/next", 80)];
        let names = ["/etc/x", "/proc/self", "/tmp/y", "/.fsarena-absent-1"].map(PathBuf::from).into();
        programs.keep_rehearsal(&cell, AccessedPaths { files, names });
        let guest = programs.for_guest(&cell, None);
        assert_eq!(guest.in_memory, ["/dir", "/small", "/next"].map(PathBuf::from));
        assert_eq!(guest.paths_to_look_up, [PathBuf::from("/etc/x")]);
        assert!(!guest.is_rehearsal && !programs.is_new(&cell));
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
            programs.count_requests(&sample);
            assert_eq!(programs.notes().len(), expected);
        }
        let notes = programs.notes();
        assert!(notes[0].text.contains("in tar 7, about 30% of its time"), "{}", notes[0].text);
        assert!(notes[1].kind == NoteKind::Fairness && notes[1].fix.is_some());
    }
}
