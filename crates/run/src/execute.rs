//! A plan in, a run out: preflight, the executor, the run's directory, its undo journal and its events.

use crate::bench::readings;
use crate::context::RunContext;
use crate::dir::{Clients, Directories, SingleClient};
use crate::error::{Result, RunError, require};
use crate::executor::{Executor, RunSink};
use crate::preflight::{self, Check, trial::Trying};
use crate::privsep::{self, Agents};
use crate::protocol::Profiling;
use crate::recorder::{Beginning, Consumer, Recorder};
use crate::runner::{self, RunEnd};
use crate::settings::setting;
use crate::work::{self, main_metric, outline};
use crate::{child, guest::Guests, local::Local, scratch::ScratchDir};
use fsarena_core::event::{CommandRecord, Event, Note};
use fsarena_core::host::{BUILD, Host};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, matrix, record::RunRecord};
use fsarena_store::{RunDir, Writer};
use fsarena_sys::undo::{self, Journal};
use fsarena_sys::{Error, cancel, dirs, host, kernel::SysRoot, user::User};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A plan to run, and where to store its samples.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to run.
    pub plan: Plan,
    /// Where its samples go.
    pub keep: Keep,
    /// Further profiling of each task.
    pub profiling: Option<Profiling>,
    /// The user that workloads run as in this kernel, where that is not the one who started fsarena.
    pub user: Option<String>,
    /// Notes for every report of the run, besides those of the workloads.
    pub remarks: Vec<Note>,
}

/// Where the samples of a run go.
#[derive(Debug, Clone)]
pub enum Keep {
    /// Into a new run in this directory of runs.
    New(PathBuf),
    /// Into an interrupted run; finished cells are not measured again.
    Resumed(RunDir),
    /// To the consumers alone. A directory in this one holds the images and goes with the run. The first cell that
    /// fails ends the run, because it could not be resumed.
    Nothing(PathBuf),
}

/// A run that ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// Where it is stored; none where nothing is.
    pub run: Option<RunDir>,
    /// The measurements.
    pub record: RunRecord,
    /// Whether a signal cut it short.
    pub interrupted: bool,
    /// Why no further round was started.
    pub why: String,
}

impl Request {
    /// A plan to run as it is.
    pub fn new(plan: Plan, keep: Keep) -> Request {
        Request { plan, keep, profiling: None, user: None, remarks: vec![] }
    }

    /// The rest of an interrupted run. The permission to overwrite a filesystem signature holds for one run only, so this
    /// one may overwrite only those that `signature` and, on the source disk, `other` name.
    ///
    /// # Errors
    /// Where its plan cannot be read, or a signature is set and the run does not erase that device.
    pub fn resume(
        run: RunDir,
        signature: Option<String>,
        other: Option<String>,
    ) -> Result<Request, RunError> {
        let mut plan = run.plan()?;
        let ours = match &mut plan.device.backing {
            Backing::Erase { signature, .. } => Some(signature),
            _ => None,
        };
        let others = plan.device.other_device.as_mut().map(|other| &mut other.signature);
        for (name, place, signature) in
            [("erase_signature", ours, signature), ("other_signature", others, other)]
        {
            match place {
                Some(place) => *place = signature,
                None if signature.is_some() => {
                    let flag = setting(name, "");
                    let why = format!("{flag}: this run erases no such device, so leave it out");
                    return Err(RunError::Plan(why));
                }
                None => {}
            }
        }
        Ok(Request::new(plan, Keep::Resumed(run)))
    }

    fn runs(&self) -> PathBuf {
        match &self.keep {
            Keep::New(runs) => runs.clone(),
            Keep::Resumed(run) => run.path().parent().unwrap_or(Path::new(".")).to_path_buf(),
            Keep::Nothing(below) => below.clone(),
        }
    }
}

/// Checks a plan against this machine and makes nothing.
///
/// # Errors
/// What the machine lacks or the plan cannot have, with what to do.
pub fn check(request: &Request) -> Result<(Vec<Variant>, Check), RunError> {
    check_for(request, &SingleClient, &privsep::workload_user(request.user.as_deref())?.0)
}

fn check_for(
    request: &Request,
    clients: &dyn Clients,
    user: &User,
) -> Result<(Vec<Variant>, Check), RunError> {
    let (plan, runs) = (&request.plan, request.runs());
    let variants = matrix::expand(plan);
    let check = preflight::check(&SysRoot::host(), plan, &variants, &runs, clients.count(), user)?;
    Ok((variants, check))
}

/// Tries the options of mkfs and mount that the user wrote, on scratch images that are then removed: all combinations
/// where these are few, else each option. `trying` learns how many trials of how many are done. The commands that this
/// took.
///
/// # Errors
/// An option that mkfs or this kernel refuses (exit code 2), or whatever the machine lacks to try them.
pub fn try_options(
    request: &Request,
    variants: &[Variant],
    check: &Check,
    trying: Trying,
) -> Result<Vec<CommandRecord>, RunError> {
    let mut commands = vec![];
    let mut log = |command| commands.push(command);
    let (plan, runs) = (&request.plan, request.runs());
    preflight::trial::options(plan, variants, check.size_bytes, &runs, trying, &mut log)?;
    Ok(commands)
}

/// Runs a plan to its end. Stores each event, then passes it to the consumers.
///
/// Each cell runs in a separate process, which starts this same program again. `main` must therefore begin with
/// [`crate::run_as_agent_if_requested`]. A process makes one run at a time.
///
/// # Errors
/// Before the start: a requirement that the machine lacks, a program that cannot become an agent, or another run of this
/// process. Later: a failure that leaves nothing to measure; everything measured until then is kept in the directory that
/// [`Consumer::begin`] names.
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
/// use fsarena_report::report::{self, Asked};
/// use fsarena_run::{Keep, Request, execute, registry, run_as_agent_if_requested, work};
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
///         if let Event::Cell { what: CellEvent::Sample(_), .. } = event {
///             samples += 1;
///         }
///         Ok(())
///     };
///     let request = Request::new(plan, Keep::New(dir.path().join("runs")));
///     let outcome = execute(request, &mut [&mut count])?;
///
///     let record = fsarena_store::read(&outcome.run.expect("it is stored"))?;
///     assert!(record.status.complete && record.samples.len() == samples);
///     let metrics = work::answering(&record);
///     let report = report::of(record, Asked { metrics, ..Asked::default() })?;
///     assert_eq!(report.record.variants.len(), 2);
///     exporters::find("md")?.export(&report, &mut std::io::stdout())?;
///     Ok(())
/// }
/// ```
pub fn execute(request: Request, consumers: &mut [&mut dyn Consumer]) -> Result<RunOutcome, RunError> {
    execute_by(Box::new(SingleClient), request, consumers)
}

/// The same by these clients, for a plan that runs in directories.
///
/// # Errors
/// Those of [`execute`].
pub fn execute_by(
    clients: Box<dyn Clients>,
    request: Request,
    consumers: &mut [&mut dyn Consumer],
) -> Result<RunOutcome, RunError> {
    let kernel = SysRoot::host();
    require(child::is_agent_program(), || {
        let why = "each cell runs in an agent, which is this program started again: call \
                   fsarena_run::run_as_agent_if_requested first in main";
        RunError::Plan(why.into())
    })?;
    let _only_run = OnlyRun::begin()?;
    if let Keep::Resumed(run) = &request.keep {
        // Also of a complete run: it may have been killed while it gave its devices back.
        recover_stale_runs(&kernel, consumers)?;
        let record = fsarena_store::read(run)?;
        if record.status.complete {
            let why = record.status.why.clone();
            let line = format!("run {} is complete ({why}): nothing is left to do", run.id());
            consumers.iter_mut().for_each(|consumer| consumer.say(&line));
            return Ok(RunOutcome { run: Some(run.clone()), record, interrupted: false, why });
        }
        work::check(&request.plan).map_err(|why| fsarena_store::Error::Damaged(run.plan_file(), why))?;
    }
    let agents = Agents::of_run(request.user.as_deref(), request.profiling, &request.plan)?;
    let (variants, mut check) = check_for(&request, &*clients, &agents.user)?;
    check.resumed = matches!(request.keep, Keep::Resumed(_));
    // Those of a resumed run were tried when it began.
    let mut trying = |done, of| consumers.iter_mut().for_each(|consumer| consumer.trying(done, of));
    let tried = if check.resumed { vec![] } else { try_options(&request, &variants, &check, &mut trying)? };
    check.remarks.extend(request.remarks);
    check.remarks.extend(agents.notes.iter().cloned());
    let plan = preflight::decided(request.plan, &mut check)?;
    // From here on something is made, and a signal ends the run in order.
    let _deferred = cancel::defer_signals();
    undo::make_state_dir(&undo::state_dir())?;
    let place = Place::make(request.keep, &plan)?;
    let run = place.run().cloned();
    let session = Session { kernel, plan, variants, check, agents };
    match session.measure(place, tried, clients, consumers) {
        Ok((RunEnd::NothingLeft(left), ..)) => Err(RunError::EveryVariant(left)),
        Ok((end, why, record)) => {
            Ok(RunOutcome { run, record, interrupted: end == RunEnd::Interrupted, why })
        }
        Err(error) => Err(error),
    }
}

/// Whether this process makes a run.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// The only run of this process. Signals, the environment mark of processes to end, and the number in the names of scratch
/// directories belong to the whole process, so two runs at a time would end each other's processes.
struct OnlyRun;

impl OnlyRun {
    fn begin() -> Result<OnlyRun> {
        if IS_RUNNING.swap(true, Ordering::AcqRel) {
            return Err(RunError::Plan(
                "this process is executing another run: wait until it has ended".into(),
            ));
        }
        Ok(OnlyRun)
    }
}

impl Drop for OnlyRun {
    fn drop(&mut self) {
        IS_RUNNING.store(false, Ordering::Release);
    }
}

/// Undoes what killed runs have left: it may be in the way of this one, or take the room that it needs.
fn recover_stale_runs(kernel: &SysRoot, consumers: &mut [&mut dyn Consumer]) -> Result<()> {
    let mut say = |line: &str| consumers.iter_mut().for_each(|consumer| consumer.say(line));
    let failed = undo::recover(kernel, &undo::state_dir(), &mut say)?.failed;
    require(failed == 0, || RunError::Recover(failed))
}

/// The place of a run: one to stay, or one to go with it.
enum Place {
    Stored(RunDir),
    Scratch(ScratchDir),
}

impl Place {
    fn make(keep: Keep, plan: &Plan) -> Result<Place> {
        Ok(match keep {
            Keep::New(runs) => {
                dirs::make_dirs(&runs).map_err(Error::io("making", &runs))?;
                let run = RunDir::create(&runs, plan, env!("CARGO_PKG_VERSION"))?;
                dirs::let_pass(run.path()).map_err(Error::io("opening", run.path()))?;
                Place::Stored(run)
            }
            Keep::Resumed(run) => Place::Stored(run),
            Keep::Nothing(below) => Place::Scratch(ScratchDir::make(&below, "fsarena-scratch")?),
        })
    }

    fn run(&self) -> Option<&RunDir> {
        if let Place::Stored(run) = self { Some(run) } else { None }
    }

    /// The directory, and the undo journal of what is made in it. `fsarena recover` undoes what the journal names, from
    /// whatever directory it is started in.
    fn journal(&self) -> Result<(PathBuf, Journal)> {
        match self {
            Place::Stored(run) => {
                let dir = run.path().canonicalize().map_err(Error::io("reading", run.path()))?;
                let journal = Journal::create(&undo::state_dir(), &dir.to_string_lossy())?;
                Ok((dir, journal))
            }
            Place::Scratch(scratch) => Ok((scratch.dir().into(), scratch.journal.clone())),
        }
    }
}

/// What a run is made of, once it is checked.
struct Session {
    kernel: SysRoot,
    plan: Plan,
    variants: Vec<Variant>,
    check: Check,
    agents: Agents,
}

impl Session {
    /// The line from a plan to a stored run: its rounds are scheduled, an executor runs each cell, and what happens goes
    /// to the store and the consumers.
    fn measure(
        self,
        place: Place,
        tried: Vec<CommandRecord>,
        clients: Box<dyn Clients>,
        consumers: &mut [&mut dyn Consumer],
    ) -> Result<(RunEnd, String, RunRecord)> {
        let run = place.run();
        let beginning = Beginning { plan: &self.plan, variants: &self.variants, check: &self.check, run };
        consumers.iter_mut().for_each(|consumer| consumer.begin(&beginning));
        let (host, asked) = self.host(&*clients)?;
        let Session { kernel, plan, variants, check, agents } = self;
        let writer = run.map(|run| Writer::open(run, &host, &readings().collect::<Vec<_>>())).transpose()?;
        let writer = writer.map(|writer| writer.followed_by(main_metric(&plan)));
        let begun = || {
            let mut record = RunRecord::new(plan.clone(), variants.clone());
            for def in readings() {
                record.define((&def).into());
            }
            Ok(record)
        };
        let record = run.map_or_else(begun, fsarena_store::read)?;
        let mut recorder = Recorder::new(record, writer, consumers);
        tried.into_iter().chain(asked).try_for_each(|command| recorder.tell(Event::Command(command)))?;
        let (dir, journal) = place.journal()?;
        let (tasks, remarks) = (outline(&plan).len() as u32, check.remarks.clone());
        let declared = recorder.declared.clone();
        let context = RunContext { kernel, plan: plan.clone(), check, journal, dir, agents, declared };
        let mut executor = executor(context, clients, &mut |event| recorder.tell(event))?;
        remarks.into_iter().try_for_each(|note| recorder.tell(Event::Note(note)))?;
        let (end, why) = runner::run(&plan, &variants, tasks, &mut *executor, &mut recorder)?;
        executor.finish(&mut |event| recorder.tell(event))?;
        if let Place::Scratch(scratch) = place {
            scratch.clear()?;
        }
        Ok((end, why, recorder.state.record))
    }

    /// The machine, with the versions of all programs that this run uses, and the commands that told them.
    fn host(&self, clients: &dyn Clients) -> Result<(Host, Vec<CommandRecord>)> {
        let mut host = host::collect(&self.kernel);
        let confined_by = if fsarena_sys::argv::can_confine() { "Landlock" } else { "nothing" };
        host.facts.insert("mkfs_confined_by".into(), confined_by.into());
        let mut asked = Vec::new();
        for program in &self.check.programs {
            if let Some(version) = host::tool_version(program, &mut |record| asked.push(record)) {
                host.facts.insert(format!("version of {program}"), version);
            }
        }
        if !matches!(self.plan.device.backing, Backing::Guest(_)) {
            host.facts.extend(self.agents.facts());
        }
        host.facts.extend(clients.facts());
        host.facts.extend(self.check.storage.iter().flat_map(|(of, storage)| storage.facts(of)));
        if self.plan.stop.shard.is_some() {
            // A debug build takes a tenth of a second to read, so only runs that are merged have it.
            let path = "/proc/self/exe";
            let program = std::fs::read(path).map_err(Error::io("reading", path))?;
            host.facts.insert(BUILD.into(), blake3::hash(&program).to_hex()[..16].to_string());
        }
        Ok((host, asked))
    }
}

/// The one place where it is decided what runs the cells of a plan.
fn executor(run: RunContext, clients: Box<dyn Clients>, tell: RunSink) -> Result<Box<dyn Executor>> {
    Ok(match &run.plan.device.backing {
        Backing::Guest(_) if run.agents.profiling == Some(Profiling::Locks) => {
            return Err(RunError::Plan(format!(
                "a guest cannot be traced; explain a run of this kernel ({})",
                setting("on", "loop")
            )));
        }
        Backing::Guest(guest) => Box::new(Guests::start(guest.clone(), run, tell)?),
        Backing::Dir => Box::new(Directories::start(run, clients, tell)?),
        _ => Box::new(Local::start(run, tell)?),
    })
}
