//! A plan in, a run out: preflight, the executor, the run's directory, its undo journal and its events.

use crate::agents::{self, Agents};
use crate::clients::{Alone, Clients};
use crate::executor::{Executor, Fatal, Result, Tell, require};
use crate::preflight::{self, Check, trial::Trying};
use crate::protocol::Profiling;
use crate::recorder::{Beginning, Consumer, Recorder};
use crate::runner::{self, End};
use crate::work::{self, main_metric, outline};
use crate::{bench::readings, context::RunContext};
use crate::{dir::Directories, guest::Guests, local::Local, scratch::Scratch};
use fsarena_core::event::{CommandRecord, Event, Note};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::host::{BUILD, Host};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, matrix, record::RunRecord};
use fsarena_store::{RunDir, Writer};
use fsarena_sys::undo::{self, Journal};
use fsarena_sys::{Error, cancel, dirs, host, kernel::SysRoot, user::User};
use std::path::{Path, PathBuf};

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

/// Why a run could not begin, or ended before its plan did.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct RunError {
    /// Where everything is kept that was measured before; none where nothing was begun.
    pub run: Option<RunDir>,
    /// What ended it.
    #[source]
    pub cause: Box<Fatal>,
}

impl<E: Into<Fatal>> From<E> for RunError {
    fn from(cause: E) -> RunError {
        RunError { run: None, cause: Box::new(cause.into()) }
    }
}

impl Exits for RunError {
    fn exit_code(&self) -> ExitCode {
        self.cause.exit_code()
    }
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
        for (flag, place, given_up) in
            [("--erase-signature", ours, signature), ("--other-signature", others, other)]
        {
            require(place.is_some() || given_up.is_none(), || {
                Fatal::Plan(format!("{flag}: this run erases no such device, so leave it out"))
            })?;
            place.into_iter().for_each(|place| place.clone_from(&given_up));
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
    check_for(request, &Alone, &agents::user(request.user.as_deref())?.0)
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
/// [`crate::take_over`].
///
/// # Errors
/// Before the start: a requirement that the machine lacks. Later: a failure that leaves nothing to measure;
/// [`RunError::run`] keeps the measurements until then.
///
/// # Examples
/// Two rounds of a small tree in a directory as it is, which needs no root:
///
/// ```standalone_crate
/// use fsarena_core::event::{CellEvent, Event};
/// use fsarena_core::plan::Backing;
/// use fsarena_core::plan::file::PlanFile;
/// use fsarena_core::plan::resolve::Overrides;
/// use fsarena_run::{Keep, Request, execute, take_over, vocabulary};
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
///     take_over();
///     let dir = tempfile::tempdir()?;
/// #   // SAFETY: no other thread runs yet.
/// #   unsafe { std::env::set_var("FSARENA_STATE_DIR", dir.path().join("state")) };
///     let here = dir.path().to_str().ok_or("a path that is not UTF-8")?;
///     let over = Overrides {
///         backing: Some(Backing::Dir),
///         factors: vec![("dir".into(), vec![here.into()])],
///         ..Overrides::default()
///     };
///     let plan = vocabulary::resolve(&PlanFile::parse("my plan", PLAN.as_bytes())?, &over)?;
///
///     let mut tasks = vec![];
///     let mut follow = |event: &Event| {
///         if let Event::Cell { what: CellEvent::Sample(sample), .. } = event {
///             tasks.push(sample.task.id.to_string());
///         }
///         Ok(())
///     };
///     let outcome = execute(Request::new(plan, Keep::New(dir.path().join("runs"))), &mut [&mut follow])?;
///
///     let record = fsarena_store::read(&outcome.run.expect("it is stored"))?;
///     assert!(record.status.complete && !tasks.is_empty());
///     assert_eq!(record.samples.len(), tasks.len());
///     Ok(())
/// }
/// ```
pub fn execute(request: Request, consumers: &mut [&mut dyn Consumer]) -> Result<RunOutcome, RunError> {
    execute_by(Box::new(Alone), request, consumers)
}

/// The same by these clients, for a plan that runs in directories (`--on dir:PATH`).
///
/// # Errors
/// Those of [`execute`].
pub fn execute_by(
    clients: Box<dyn Clients>,
    request: Request,
    consumers: &mut [&mut dyn Consumer],
) -> Result<RunOutcome, RunError> {
    let kernel = SysRoot::host();
    if let Keep::Resumed(run) = &request.keep {
        // Also of a complete run: it may have been killed while it gave its devices back.
        clear_the_way(&kernel, consumers)?;
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
        Ok((End::NothingLeft(left), ..)) => Err(RunError { run, cause: Box::new(Fatal::EveryVariant(left)) }),
        Ok((end, why, record)) => Ok(RunOutcome { run, record, interrupted: end == End::Interrupted, why }),
        Err(cause) => Err(RunError { run, cause: Box::new(cause) }),
    }
}

/// Undoes what killed runs have left: it may be in the way of this one, or take the room that it needs.
fn clear_the_way(kernel: &SysRoot, consumers: &mut [&mut dyn Consumer]) -> Result<()> {
    let mut say = |line: &str| consumers.iter_mut().for_each(|consumer| consumer.say(line));
    let failed = undo::recover(kernel, &undo::state_dir(), &mut say)?.failed;
    require(failed == 0, || Fatal::Recover(failed))
}

/// The place of a run: one to stay, or one to go with it.
enum Place {
    Stored(RunDir),
    Scratch(Scratch),
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
            Keep::Nothing(below) => Place::Scratch(Scratch::make(&below, "fsarena-scratch")?),
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
    ) -> Result<(End, String, RunRecord)> {
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
fn executor(run: RunContext, clients: Box<dyn Clients>, tell: Tell) -> Result<Box<dyn Executor>> {
    Ok(match &run.plan.device.backing {
        Backing::Guest(_) if run.agents.profiling == Some(Profiling::Locks) => {
            return Err(Fatal::Plan(
                "a guest cannot be traced; explain a run of this kernel (--on loop)".into(),
            ));
        }
        Backing::Guest(guest) => Box::new(Guests::start(guest.clone(), run, tell)?),
        Backing::Dir => Box::new(Directories::start(run, clients, tell)?),
        _ => Box::new(Local::start(run, tell)?),
    })
}
