//! The seam: cell in, samples out. And how it fails: a cell alone, or the whole run.

use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Cause, CellEvent, CommandRecord, Event, Note, NoteKind, Outcome, VariantExit};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::{names::Unknown, plan::error::PlanError};
use fsarena_sys::undo::MadeDir;
use std::{collections::BTreeMap, fmt::Display};

/// Says something of the whole run.
pub type Tell<'a> = &'a mut dyn FnMut(Event) -> Result<()>;
/// Says something of a cell.
pub type Emit<'a> = &'a mut dyn FnMut(CellEvent);
/// Takes the commands that were run.
pub type Log<'a> = &'a mut dyn FnMut(CommandRecord);

/// Where cells run: this kernel, a directory as it is, a guest kernel, a rank.
pub trait Executor {
    /// Runs one cell and says what happened. A failure of the variant is an outcome.
    ///
    /// # Errors
    /// What makes every further cell pointless: a device that cannot be given back, say.
    fn run(&mut self, cell: &Cell, emit: Emit) -> Result<Outcome>;

    /// What a reader of the comparison should know, once every variant has run.
    fn remarks(&self) -> Vec<Note>;

    /// Takes down what was set up for the whole run, and tells of the commands that this takes. Dropping
    /// an executor takes it down too, silently.
    ///
    /// # Errors
    /// Where something is still in use; it stays in the undo journal.
    fn finish(self: Box<Self>, tell: Tell) -> Result<()>;
}

/// A failure of one cell. It ends the part of its variant in the run, and no other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What failed, and what it said.
    pub why: String,
    /// The cause.
    pub cause: Cause,
}

impl Failed {
    /// A failure for this cause.
    pub fn new(cause: Cause, why: impl Into<String>) -> Failed {
        Failed { why: why.into(), cause }
    }

    /// Something that this machine lacks.
    pub fn missing(why: impl Into<String>) -> Failed {
        Failed::new(Cause::Missing, why)
    }

    /// A bug of fsarena.
    pub fn internal(why: impl Into<String>) -> Failed {
        Failed::new(Cause::Internal, why)
    }

    /// The failure of this part of the cell.
    pub fn of(self, part: &str) -> Failed {
        Failed { why: format!("{part}: {}", self.why), ..self }
    }

    /// The failure of a command that was given these options. Where the user chose them, they are to blame.
    pub fn with_options(self, options: &str) -> Failed {
        match self.cause {
            Cause::Work if !options.is_empty() => Failed { cause: Cause::Usage, ..self },
            _ => self,
        }
    }
}

impl<E: Exits> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed { why: error.to_string(), cause: Cause::of(error.exit_code()) }
    }
}

impl From<Failed> for Outcome {
    fn from(Failed { why, cause }: Failed) -> Outcome {
        Outcome::Failed { why, cause }
    }
}

/// What comes of a part of a cell.
pub type Done = std::result::Result<(), Failed>;
/// What comes of something, or why the run ends.
pub type Result<T, E = Fatal> = std::result::Result<T, E>;

/// A failure that ends the run. What was measured until then is kept.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// Files, devices, mounts.
    #[error(transparent)]
    System(#[from] fsarena_sys::Error),
    /// The users of workloads.
    #[error(transparent)]
    User(#[from] fsarena_sys::user::UserError),
    /// Formatting and its guard.
    #[error(transparent)]
    Filesystem(#[from] fsarena_fs::Error),
    /// Guest kernels and their emulators.
    #[error(transparent)]
    Guest(#[from] fsarena_guest::Error),
    /// The workload's own inputs.
    #[error(transparent)]
    Workload(#[from] fsarena_load::task::TaskError),
    /// This machine lacks something; the text says what to do.
    #[error("{0}")]
    Missing(String),
    /// The plan asks for what cannot be.
    #[error("{0}")]
    Plan(String),
    /// The agent could not be started or understood.
    #[error("the measuring process: {0}")]
    Agent(String),
    /// The plan file has a fault.
    #[error(transparent)]
    File(#[from] PlanError),
    /// Figures that ship with a study have a fault.
    #[error(transparent)]
    Published(#[from] fsarena_core::published::Error),
    /// So many things that killed runs left could not be undone.
    #[error("{0} things that a killed run left could not be undone; see which: fsarena recover")]
    Recover(usize),
    /// The run could not be stored, or read where it is resumed.
    #[error(transparent)]
    Store(#[from] fsarena_store::Error),
    /// A name that a run or plan lacks.
    #[error(transparent)]
    Name(#[from] Unknown),
    /// This kernel cannot be traced.
    #[error(transparent)]
    Trace(#[from] fsarena_probe::trace::Unavailable),
    /// A cell of a run that stores nothing failed, so the rest is useless.
    #[error("{variant} failed: {}", .failed.why)]
    Cell {
        /// Its variant.
        variant: String,
        /// Why.
        failed: Failed,
    },
    /// No variant was left to run: when and why each left.
    #[error("every variant has failed:{}", list(.0))]
    EveryVariant(BTreeMap<String, VariantExit>),
}

impl Fatal {
    /// Something that a variant cannot have.
    pub fn variant(variant: &Variant, why: impl Display) -> Fatal {
        Fatal::Plan(format!("variant {}: {why}", variant.name))
    }
}

/// Lets only what holds go on.
///
/// # Errors
/// The fault, where it does not.
pub fn require(holds: bool, fault: impl FnOnce() -> Fatal) -> Result<()> {
    if holds { Ok(()) } else { Err(fault()) }
}

/// A line for each variant that left.
fn list(left: &BTreeMap<String, VariantExit>) -> String {
    let line = |(variant, VariantExit { round, why, .. }): (&String, &VariantExit)| {
        format!("\n  {variant} failed in round {}: {why}", round + 1)
    };
    left.iter().map(line).collect()
}

impl Exits for Fatal {
    fn exit_code(&self) -> ExitCode {
        match self {
            Fatal::System(error) => error.exit_code(),
            Fatal::User(error) => error.exit_code(),
            Fatal::Filesystem(error) => error.exit_code(),
            Fatal::Guest(error) => error.exit_code(),
            Fatal::Workload(fsarena_load::task::TaskError::Command(error)) => error.exit_code(),
            Fatal::Workload(fsarena_load::task::TaskError::Dbench(error)) => error.exit_code(),
            Fatal::Workload(fsarena_load::task::TaskError::Plan(_)) => ExitCode::Usage,
            Fatal::Workload(_) | Fatal::Missing(_) | Fatal::Recover(_) => ExitCode::Missing,
            Fatal::Plan(_) => ExitCode::Usage,
            Fatal::Agent(_) => ExitCode::Internal,
            Fatal::File(error) => error.exit_code(),
            Fatal::Published(error) => error.exit_code(),
            Fatal::Store(error) => error.exit_code(),
            Fatal::Name(error) => error.exit_code(),
            Fatal::Trace(error) => error.exit_code(),
            Fatal::Cell { failed, .. } => failed.cause.exit_code(),
            Fatal::EveryVariant(left) => {
                // A bug of fsarena comes before what the user can mend, and that before what the filesystems do.
                let causes =
                    [Cause::Internal, Cause::Refused, Cause::Violation, Cause::Usage, Cause::Missing];
                let has = |cause: &Cause| left.values().any(|departure| departure.cause == *cause);
                causes.into_iter().find(has).unwrap_or_default().exit_code()
            }
        }
    }
}

/// Removes a directory of a run. Where it holds files that fsarena did not make it stays, and a note names them.
///
/// # Errors
/// Where it cannot be removed for another reason, or the consumer fails.
pub fn remove(dir: MadeDir, tell: Tell) -> Result<()> {
    let Some(text) = dir.remove()? else { return Ok(()) };
    let fix = "move the files elsewhere, then remove the directory";
    tell(Event::Note(Note::new(NoteKind::Remark, text).fix(fix)))
}

/// Runs something that logs its commands, and tells of them.
///
/// # Errors
/// If a consumer fails.
pub fn logged<T>(tell: Tell, work: impl FnOnce(Log) -> T) -> Result<T> {
    let mut commands = Vec::new();
    let result = work(&mut |record| commands.push(record));
    commands.into_iter().try_for_each(|record| tell(Event::Command(record)))?;
    Ok(result)
}
