//! The seam: cell in, samples out.

use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, Outcome};
use fsarena_core::exit::{ExitCode, Exits};

/// Says something of the whole run.
pub type Tell<'a> = &'a mut dyn FnMut(Event) -> Result<(), Fatal>;

/// Where cells run: this kernel, a directory as it is, a guest kernel, a rank.
pub trait Executor {
    /// Runs one cell and says what happened. A failure of the variant is an outcome.
    ///
    /// # Errors
    /// What makes every further cell pointless: a device that cannot be given back, say.
    fn run(&mut self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal>;

    /// What a reader of the comparison should know, once every variant has run.
    fn remarks(&self) -> Vec<Note>;

    /// Takes down what was set up for the whole run, and tells of the commands that this takes. Dropping
    /// an executor takes it down too, silently.
    ///
    /// # Errors
    /// Where something is still in use; it stays in the undo journal.
    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal>;
}

/// A failure that ends the run. What was measured until then is kept.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// Files, devices, mounts.
    #[error(transparent)]
    System(#[from] fsarena_sys::Error),
    /// Formatting and its guard.
    #[error(transparent)]
    Filesystem(#[from] fsarena_fs::Error),
    /// Guest kernels and their emulators.
    #[error(transparent)]
    Guest(#[from] fsarena_guest::Error),
    /// The workload's own inputs.
    #[error(transparent)]
    Workload(#[from] fsarena_load::task::Error),
    /// This machine lacks something; the text says what to do.
    #[error("{0}")]
    Missing(String),
    /// The plan asks for what cannot be.
    #[error("{0}")]
    Plan(String),
    /// The agent could not be started or understood.
    #[error("the measuring process: {0}")]
    Agent(String),
    /// A consumer of events failed: the store's disk is full, say.
    #[error("{0}")]
    Consumer(Box<dyn Exits>),
}

impl Exits for Fatal {
    fn exit_code(&self) -> ExitCode {
        match self {
            Fatal::System(error) => error.exit_code(),
            Fatal::Filesystem(error) => error.exit_code(),
            Fatal::Guest(error) => error.exit_code(),
            Fatal::Workload(fsarena_load::task::Error::Command(error)) => error.exit_code(),
            Fatal::Workload(fsarena_load::task::Error::Dbench(error)) => error.exit_code(),
            Fatal::Workload(_) | Fatal::Missing(_) => ExitCode::Missing,
            Fatal::Plan(_) => ExitCode::Usage,
            Fatal::Agent(_) => ExitCode::Internal,
            Fatal::Consumer(error) => error.exit_code(),
        }
    }
}

/// Runs something that logs its commands, and tells of them.
///
/// # Errors
/// Where nobody takes what is told.
pub fn logged<T>(tell: Tell, work: impl FnOnce(&mut dyn FnMut(CommandRecord)) -> T) -> Result<T, Fatal> {
    let mut commands = Vec::new();
    let result = work(&mut |record| commands.push(record));
    commands.into_iter().try_for_each(|record| tell(Event::Command(record)))?;
    Ok(result)
}
