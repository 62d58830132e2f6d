//! Executes a plan as a run: checks the machine, makes the run's directory and undo journal, starts the executor and
//! stores the events.

use crate::bench::reading_defs;
use crate::context::RunContext;
use crate::digests::digest_facts;
use crate::directories::{Clients, DirectoryExecutor, SingleClient};
use crate::error::{Result, RunError, require};
use crate::executor::{Executor, RunSink, ScratchDir};
use crate::preflight::{self, Requirements, trial::TrialProgress};
use crate::privsep::{self, AgentConfig};
use crate::protocol::{ProfileContent, ProfiledTask};
use crate::recorder::{Consumer, Recorder, RunSetup};
use crate::runner::{self, RunEnd};
use crate::work::{self, main_metric_of_plan, outline_tasks};
use crate::{child, guest::GuestExecutor, local::LocalExecutor, shell::ShellSession};
use fsarena_core::event::{CommandRecord, Event, Note};
use fsarena_core::host::{BUILD_FACT, Host};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, matrix, record::RunRecord};
use fsarena_store::{RunDir, Writer};
use fsarena_sys::undo::{self, Journal};
use fsarena_sys::{Error, cancel, dirs, host, kernel::SysRoot, user::User};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, TryLockError};

/// A plan to run, and where to store its samples.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// What to run.
    pub plan: Plan,
    /// Where its samples go.
    pub destination: Destination,
    /// The task to profile, if any.
    pub profiled_task: Option<ProfiledTask>,
    /// The user that workloads run as in this kernel; None for the user who started fsarena.
    pub user: Option<String>,
    /// Notes for the reports of the run, in addition to the notes of its workloads.
    pub remarks: Vec<Note>,
    /// The shell that the only cell of the run starts in a guest instead of running tasks; None for a run with tasks.
    pub shell: Option<ShellSession>,
    /// The directory of saved guest machines, which runs with the same kernel share. Only guests that count
    /// instructions begin with a saved machine. None to share none.
    pub shared_machines_dir: Option<PathBuf>,
}

/// Where the samples of a run go.
#[derive(Debug, Clone)]
pub enum Destination {
    /// Into a new run in this directory of runs.
    NewRun(PathBuf),
    /// Into an interrupted run; finished cells are not measured again.
    ResumedRun(RunDir),
    /// Only to the consumers. The images lie in a temporary directory below this one. The first cell that fails ends
    /// the run, because a run that is not stored cannot be resumed.
    ConsumersOnly(PathBuf),
}

/// A run that ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// Where the run is stored; None for [`Destination::ConsumersOnly`].
    pub run: Option<RunDir>,
    /// The measurements.
    pub record: RunRecord,
    /// Whether a signal cut it short.
    pub interrupted: bool,
    /// Why no further round was started.
    pub why: String,
}

impl RunRequest {
    /// A plan to run as it is.
    pub fn new(plan: Plan, destination: Destination) -> RunRequest {
        RunRequest {
            plan,
            destination,
            profiled_task: None,
            user: None,
            remarks: vec![],
            shell: None,
            shared_machines_dir: None,
        }
    }

    /// The request to finish an interrupted run. The permission to overwrite a filesystem signature is not stored with
    /// the run, so the resumed run may overwrite only the signature `erase_signature` on the device under test and
    /// `other_signature` on the source disk.
    ///
    /// # Errors
    /// The plan of the run cannot be read, or a signature is given for a device that the run does not erase.
    pub fn resume(run: RunDir, erase_signature: Option<String>, other_signature: Option<String>) -> Result<RunRequest> {
        let mut plan = run.plan()?;
        let tested = match &mut plan.device.backing {
            Backing::Erase { signature, .. } => Some(signature),
            _ => None,
        };
        replace_signature("erase_signature", tested, erase_signature)?;
        let source_signature = plan.device.source_device.as_mut().map(|device| &mut device.signature);
        replace_signature("other_signature", source_signature, other_signature)?;
        Ok(RunRequest::new(plan, Destination::ResumedRun(run)))
    }

    /// The directory of runs that contains the run; for a run that is not stored, the parent of its temporary
    /// directory.
    fn runs_dir(&self) -> PathBuf {
        match &self.destination {
            Destination::NewRun(runs_dir) => runs_dir.clone(),
            Destination::ResumedRun(run) => run.path().parent().unwrap_or(Path::new(".")).to_path_buf(),
            Destination::ConsumersOnly(parent) => parent.clone(),
        }
    }
}

/// Replaces the filesystem signature that a resumed run may overwrite on an erased device. `field` is the signature in
/// the plan; None if the run erases no such device. Then `signature` must be None too.
fn replace_signature(setting_name: &str, field: Option<&mut Option<String>>, signature: Option<String>) -> Result<()> {
    let Some(field) = field else {
        return require(signature.is_none(), || {
            let flag = setting(setting_name, "");
            RunError::Plan(format!("{flag}: this run erases no such device, so leave it out"))
        });
    };
    *field = signature;
    Ok(())
}

/// Checks a plan against this machine, without writing anything. Returns the variants and the requirements of the run.
///
/// # Errors
/// Something that the machine lacks or that the plan combines wrongly, with what to do.
pub fn check(request: &RunRequest) -> Result<(Vec<Variant>, Requirements)> {
    check_with_clients(request, SingleClient.count(), &privsep::workload_user(request.user.as_deref())?.0)
}

fn check_with_clients(request: &RunRequest, client_count: u32, user: &User) -> Result<(Vec<Variant>, Requirements)> {
    let (plan, runs_dir) = (&request.plan, request.runs_dir());
    let variants = matrix::expand(plan);
    let requirements = preflight::check(&SysRoot::host(), plan, &variants, &runs_dir, client_count, user)?;
    Ok((variants, requirements))
}

/// Tries the user's options of mkfs and mount on temporary images: all combinations if they are few, else each option
/// at least once. Returns the commands that ran. `progress` receives the number of finished trials and the number of
/// all trials.
///
/// # Errors
/// An option that mkfs or this kernel refuses (exit code 2), or something that the machine lacks to try them.
pub fn try_options(
    request: &RunRequest,
    variants: &[Variant],
    requirements: &Requirements,
    progress: TrialProgress,
) -> Result<Vec<CommandRecord>> {
    let mut commands = vec![];
    let mut log = |command| commands.push(command);
    let (plan, runs_dir) = (&request.plan, request.runs_dir());
    preflight::trial::try_options(plan, variants, requirements.size_bytes, &runs_dir, progress, &mut log)?;
    Ok(commands)
}

/// Runs a plan to its end. Stores each event, then passes it to the consumers.
///
/// Each cell runs in a separate process, which starts this same program again. `main` must therefore begin with
/// [`crate::run_as_agent_if_requested`]. A process makes one run at a time.
///
/// # Errors
/// Before the start: a requirement that the machine lacks, a program that cannot become an agent, or another run of
/// this process. Later: a failure that leaves nothing to measure; everything measured until then is kept in the
/// directory that [`Consumer::begin`] names.
///
/// # Examples
/// Compares two existing directories, which needs no root: two rounds of a small tree in each, then the report.
///
/// ```standalone_crate
/// use fsarena_core::event::{CellEvent, Event};
/// use fsarena_core::plan::Backing;
/// use fsarena_core::plan::file::PlanFile;
/// use fsarena_core::plan::resolve::Overrides;
/// use fsarena_report::exporters;
/// use fsarena_report::report::{self, ReportOptions};
/// use fsarena_run::{Destination, RunRequest, execute, registry, run_as_agent_if_requested, work};
///
/// const PLAN: &str = "
/// name = 'embedded'
/// [stop]
/// rounds = 2
/// [idle]
/// timeout = '100ms'
/// [[workload]]
/// use = 'tree'
/// tree_files = 100
/// driver = 'native'
/// ";
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     run_as_agent_if_requested();
///     let dir = tempfile::tempdir()?;
/// #   // SAFETY: no other thread runs yet.
/// #   unsafe { std::env::set_var("FSARENA_STATE_DIR", dir.path().join("state")) };
///     let mut directories = vec![];
///     for name in ["a", "b"] {
///         let path = dir.path().join(name);
///         std::fs::create_dir(&path)?;
///         directories.push(path.to_str().ok_or("a path that is not UTF-8")?.to_string());
///     }
///     let over = Overrides {
///         backing: Some(Backing::Dir),
///         factors: vec![("dir".into(), directories)],
///         ..Overrides::default()
///     };
///     let plan = registry::resolve(&PlanFile::parse("my plan", PLAN.as_bytes())?, &over)?;
///
///     let mut samples = 0;
///     let mut count = |event: &Event| {
///         if let Event::Cell { event: CellEvent::Sample(_), .. } = event {
///             samples += 1;
///         }
///         Ok(())
///     };
///     let request = RunRequest::new(plan, Destination::NewRun(dir.path().join("runs")));
///     let outcome = execute(request, &mut [&mut count])?;
///
///     let record = fsarena_store::read(&outcome.run.expect("it is stored"))?;
///     assert!(record.status.complete && record.samples.len() == samples);
///     let metrics = work::default_metrics(&record);
///     let report = report::analyse_run(record, ReportOptions { metrics, ..ReportOptions::default() })?;
///     assert_eq!(report.record.variants.len(), 2);
///     exporters::find("md")?.export(&report, &mut std::io::stdout())?;
///     Ok(())
/// }
/// ```
pub fn execute(request: RunRequest, consumers: &mut [&mut dyn Consumer]) -> Result<RunOutcome> {
    execute_by(Box::new(SingleClient), request, consumers)
}

/// Runs a plan to its end like [`execute`]. If the plan runs in directories, `clients` do the work of its cells.
///
/// # Errors
/// Those of [`execute`].
pub fn execute_by(
    clients: Box<dyn Clients>,
    request: RunRequest,
    consumers: &mut [&mut dyn Consumer],
) -> Result<RunOutcome> {
    let kernel = SysRoot::host();
    require(child::is_agent_program(), || {
        let why = "each cell runs in an agent, which is this program started again: call \
                   fsarena_run::run_as_agent_if_requested first in main";
        RunError::Plan(why.into())
    })?;
    let _run_lock = match RUN_LOCK.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return Err(RunError::Plan("this process is executing another run: wait until it has ended".into()));
        }
        Err(TryLockError::Poisoned(lock)) => lock.into_inner(),
        Ok(lock) => lock,
    };
    let (mut has_measured_cells, mut first_host) = (false, Host::default());
    if let Destination::ResumedRun(run) = &request.destination {
        // A complete run needs this too: it may have been killed while it removed its devices.
        recover_stale_runs(&kernel, consumers)?;
        let record = fsarena_store::read(run)?;
        if record.status.complete {
            let why = record.status.why.clone();
            let line = format!("run {} is complete ({why}): nothing is left to do", run.id());
            consumers.iter_mut().for_each(|consumer| consumer.show_message(&line));
            return Ok(RunOutcome { run: Some(run.clone()), record, interrupted: false, why });
        }
        work::check_workloads(&request.plan).map_err(|why| fsarena_store::Error::Damaged(run.plan_file(), why))?;
        has_measured_cells = !record.cells.is_empty();
        first_host = record.hosts.into_iter().next().unwrap_or_default();
    }
    let agent_config = AgentConfig::of_run(request.user.as_deref(), request.profiled_task.clone(), &request.plan)?;
    if has_measured_cells {
        agent_config.check_same_user(&first_host.facts)?;
    }
    let (variants, mut requirements) = check_with_clients(&request, clients.count(), &agent_config.user)?;
    requirements.has_measured_cells = has_measured_cells;
    let mut progress = |done, total| consumers.iter_mut().for_each(|consumer| consumer.show_trials(done, total));
    let trials = match &request.destination {
        // The options of a resumed run were tried when it began.
        Destination::ResumedRun(_) => vec![],
        _ => try_options(&request, &variants, &requirements, &mut progress)?,
    };
    requirements.remarks.extend(request.remarks);
    requirements.remarks.extend(agent_config.notes.iter().cloned());
    let mut plan = request.plan;
    if let Backing::Guest(guest) = &mut plan.device.backing {
        requirements.remarks.extend(preflight::guests::choose_accelerator(guest, &requirements.kernels)?);
    }
    // From here on fsarena makes files and devices, so a signal must not end the process before it has removed them.
    let _deferred = cancel::defer_signals();
    undo::make_state_dir(&undo::state_dir())?;
    let run_storage = RunStorage::make(request.destination, &plan)?;
    let run = run_storage.stored_run().cloned();
    let (dir, journal) = run_storage.open_journal()?;
    let context = RunContext {
        kernel,
        plan,
        requirements,
        journal,
        dir,
        agent_config,
        declared_metrics: Rc::default(),
        shell: request.shell,
        shared_machines_dir: request.shared_machines_dir,
    };
    let (end, why, record) = measure(context, &variants, run_storage, trials, clients, consumers)?;
    if let RunEnd::EveryVariantFailed(departures) = end {
        return Err(RunError::EveryVariantFailed(departures));
    }
    Ok(RunOutcome { run, record, interrupted: end == RunEnd::Interrupted, why })
}

/// Locked while this process executes a run. Signals, the environment mark of processes to end, and the number in the
/// names of scratch directories belong to the whole process, so two runs at a time would end each other's processes.
static RUN_LOCK: Mutex<()> = Mutex::new(());

/// Removes the mounts, devices and files that killed runs left: they may conflict with this run, or take space that it
/// needs.
fn recover_stale_runs(kernel: &SysRoot, consumers: &mut [&mut dyn Consumer]) -> Result<()> {
    let mut show = |line: &str| consumers.iter_mut().for_each(|consumer| consumer.show_message(line));
    let failed = undo::recover(kernel, &undo::state_dir(), None, &mut show)?.failed;
    require(failed == 0, || RunError::NotRecovered(failed))
}

/// Where the files of a run lie.
enum RunStorage {
    /// A directory of the store, which stays.
    Stored(RunDir),
    /// A temporary directory, which is removed at the end of the run.
    Scratch(ScratchDir),
}

impl RunStorage {
    fn make(destination: Destination, plan: &Plan) -> Result<RunStorage> {
        Ok(match destination {
            Destination::NewRun(runs_dir) => {
                dirs::make_dirs(&runs_dir).map_err(Error::io("making", &runs_dir))?;
                let run = RunDir::create(&runs_dir, plan, env!("CARGO_PKG_VERSION"))?;
                dirs::allow_passing_through(run.path()).map_err(Error::io("opening", run.path()))?;
                RunStorage::Stored(run)
            }
            Destination::ResumedRun(run) => RunStorage::Stored(run),
            Destination::ConsumersOnly(parent) => RunStorage::Scratch(ScratchDir::make(&parent, "fsarena-scratch")?),
        })
    }

    /// The stored run; None for a temporary directory.
    fn stored_run(&self) -> Option<&RunDir> {
        if let RunStorage::Stored(run) = self { Some(run) } else { None }
    }

    /// Opens the undo journal of the directory. Returns the absolute path of the directory and the journal. The path
    /// must be absolute, because `fsarena recover` can be started in any directory.
    fn open_journal(&self) -> Result<(PathBuf, Journal)> {
        match self {
            RunStorage::Stored(run) => {
                let dir = run.path().canonicalize().map_err(Error::io("reading", run.path()))?;
                let journal = Journal::create(&undo::state_dir(), &dir.to_string_lossy())?;
                Ok((dir, journal))
            }
            RunStorage::Scratch(scratch) => Ok((scratch.dir().into(), scratch.journal.clone())),
        }
    }
}

/// Measures a run: opens the store, starts the executor, runs the rounds and takes the executor down. `trials` are the
/// commands of the trials of options, which the run records.
fn measure(
    mut context: RunContext,
    variants: &[Variant],
    storage: RunStorage,
    trials: Vec<CommandRecord>,
    clients: Box<dyn Clients>,
    consumers: &mut [&mut dyn Consumer],
) -> Result<(RunEnd, String, RunRecord)> {
    let RunContext { plan, requirements, .. } = &context;
    let run_dir = storage.stored_run();
    let setup = RunSetup { plan, variants, requirements, run_dir };
    consumers.iter_mut().for_each(|consumer| consumer.begin(&setup));
    let (host, version_commands) = collect_host(&context, &*clients, run_dir.is_some())?;
    let (record, writer) = open_store(&setup, &host)?;
    let mut recorder = Recorder::new(record, writer, consumers);
    for command in trials.into_iter().chain(version_commands) {
        recorder.record(Event::Command(command))?;
    }
    context.declared_metrics = recorder.declared_metrics.clone();
    let (plan, remarks) = (context.plan.clone(), context.requirements.remarks.clone());
    let mut executor = start_executor(context, clients, &mut |event| recorder.record(event))?;
    for note in remarks {
        recorder.record(Event::Note(note))?;
    }
    let tasks_per_cell = outline_tasks(&plan).len() as u32;
    let (end, why) = runner::run(&plan, variants, tasks_per_cell, &mut *executor, &mut recorder)?;
    executor.finish(&mut |event| recorder.record(event))?;
    if let RunStorage::Scratch(scratch) = storage {
        scratch.remove()?;
    }
    Ok((end, why, recorder.state.record))
}

/// The record of a run so far, and the writer that stores its events; no writer if nothing is stored.
fn open_store(setup: &RunSetup, host: &Host) -> Result<(RunRecord, Option<Writer>)> {
    let RunSetup { plan, variants, run_dir, .. } = *setup;
    if let Some(run) = run_dir {
        let writer = Writer::open(run, host, &reading_defs().collect::<Vec<_>>())?;
        return Ok((fsarena_store::read(run)?, Some(writer.with_live_metric(main_metric_of_plan(plan)))));
    }
    let mut record = RunRecord::new(plan.clone(), variants.to_vec());
    for def in reading_defs() {
        record.define_reading((&def).into());
    }
    Ok((record, None))
}

/// Collects the facts of the machine, including the versions of the programs that the run uses; for a stored run also
/// the digests of these programs. Also returns the commands that printed the versions.
fn collect_host(run: &RunContext, clients: &dyn Clients, is_stored: bool) -> Result<(Host, Vec<CommandRecord>)> {
    let RunContext { kernel, plan, requirements, agent_config, .. } = run;
    let mut host = host::collect_facts(kernel);
    let confined_by = if fsarena_sys::argv::has_landlock() { "Landlock" } else { "nothing" };
    host.facts.insert("mkfs_confined_by".into(), confined_by.into());
    let mut commands = Vec::new();
    for program in &requirements.programs {
        if let Some(version) = host::tool_version(program, &mut |record| commands.push(record)) {
            host.facts.insert(format!("version of {program}"), version);
        }
    }
    if !matches!(plan.device.backing, Backing::Guest(_)) {
        host.facts.extend(agent_config.facts());
    }
    host.facts.extend(clients.facts());
    host.facts.extend(requirements.storage.iter().flat_map(|(name, storage)| storage.to_facts(name)));
    if is_stored {
        host.facts.extend(digest_facts(requirements)?);
    }
    if plan.stop.shard.is_some() {
        // Reading a debug build takes a tenth of a second, so only a shard, which is merged later, has this fact.
        host.facts.insert(BUILD_FACT.into(), program_build()?);
    }
    Ok((host, commands))
}

/// Identifies the build of this program: the first 16 hexadecimal digits of the BLAKE3 hash of its executable.
///
/// # Errors
/// The executable cannot be read.
pub fn program_build() -> Result<String> {
    let path = "/proc/self/exe";
    let program = std::fs::read(path).map_err(Error::io("reading", path))?;
    Ok(blake3::hash(&program).to_hex()[..16].to_string())
}

/// Starts the executor that runs the cells of a plan, by its backing.
fn start_executor(run: RunContext, clients: Box<dyn Clients>, emit: RunSink) -> Result<Box<dyn Executor>> {
    Ok(match &run.plan.device.backing {
        Backing::Guest(guest) => {
            let profiled_task = run.agent_config.profiled_task.as_ref();
            require(profiled_task.is_none_or(|profiled| profiled.content != ProfileContent::Locks), || {
                let on_loop = setting("on", "loop");
                RunError::Plan(format!("a guest cannot be traced; explain a run of this kernel ({on_loop})"))
            })?;
            Box::new(GuestExecutor::start(guest.clone(), run, emit)?)
        }
        Backing::Dir => Box::new(DirectoryExecutor::start(run, clients, emit)?),
        _ => Box::new(LocalExecutor::start(run, emit)?),
    })
}
