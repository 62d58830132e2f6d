//! How a run fails: one cell of it ([`CellError`]), or the whole run ([`RunError`]).

use fsarena_core::cell::Variant;
use fsarena_core::event::{Cause, Outcome, VariantDeparture};
use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_core::{names::UnknownName, plan::error::PlanError};
use fsarena_sys::cancel;
use std::error::Error;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The result of a function of this crate; by default its error ends the run.
pub type Result<T, E = RunError> = std::result::Result<T, E>;
/// The result of a part of a cell.
pub type CellResult = std::result::Result<(), CellError>;

/// The failure of one cell. Its variant leaves the run; the other variants continue.
#[derive(Debug, Clone)]
pub struct CellError {
    /// The part that failed, and the message of the error.
    pub why: String,
    /// The kind of failure.
    pub cause: Cause,
    /// The error of the library that failed; None if fsarena itself found the failure.
    error: Option<Arc<dyn Error + Send + Sync>>,
}

impl CellError {
    /// A failure for this cause.
    pub fn new(cause: Cause, why: impl Into<String>) -> CellError {
        CellError { why: why.into(), cause, error: None }
    }

    /// Something that this machine lacks.
    pub fn missing(why: impl Into<String>) -> CellError {
        CellError::new(Cause::Missing, why)
    }

    /// A bug of fsarena.
    pub fn internal(why: impl Into<String>) -> CellError {
        CellError::new(Cause::Internal, why)
    }

    /// Prefixes the message with the name of the part that failed.
    pub fn with_part(self, part: &str) -> CellError {
        CellError { why: format!("{part}: {}", self.why), ..self }
    }

    /// The failure of mkfs with these additional options. If the user chose options, they are the cause, unless mkfs
    /// crashed.
    pub fn from_mkfs(error: impl Into<RunError>, options: &str) -> CellError {
        let error = error.into();
        let crashed = matches!(&error, RunError::Filesystem(error) if error.was_ended_by_signal());
        let failed = CellError::from(error);
        if crashed { CellError { cause: Cause::Died, ..failed } } else { failed.blame_options(options) }
    }

    /// Returns this failure of a command that ran with `options` of the user. If there are any, they become its cause.
    pub fn blame_options(self, options: &str) -> CellError {
        if self.cause == Cause::Work && !options.is_empty() {
            return CellError { cause: Cause::Usage, ..self };
        }
        self
    }

    /// Returns the outcome of a cell that could not be set up because of this error. After a signal the cell is
    /// interrupted, because the signal also ends the commands that set it up.
    pub fn into_setup_outcome(self) -> Outcome {
        if cancel::received_signal().is_some() { Outcome::Interrupted } else { self.into() }
    }

    /// Turns an outcome into a result. A cell that is done and a cell that was interrupted are both `Ok`.
    ///
    /// # Errors
    /// The failure in the outcome.
    pub fn check_outcome(outcome: Outcome) -> CellResult {
        match outcome {
            Outcome::Failed { why, cause } => Err(CellError::new(cause, why)),
            Outcome::Done | Outcome::Interrupted => Ok(()),
        }
    }
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The message already contains the message of the library's error, so `source` returns the cause of that error.
impl Error for CellError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.as_ref()?.source()
    }
}

impl<E: HasExitCode> From<E> for CellError {
    fn from(error: E) -> CellError {
        // An internal error of a library becomes a failure of the cell's work (see [`Cause::of`]).
        let (why, cause) = (error.to_string(), Cause::of(error.exit_code()));
        CellError { why, cause, error: Some(Arc::new(error)) }
    }
}

impl From<CellError> for Outcome {
    fn from(error: CellError) -> Outcome {
        Outcome::Failed { why: error.why, cause: error.cause }
    }
}

/// Why a run could not begin, or ended before its plan did. Everything measured until then is kept in the run's
/// directory, which [`Consumer::begin`](crate::Consumer::begin) names.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An error of files, devices or mounts.
    #[error(transparent)]
    System(#[from] fsarena_sys::Error),
    /// The user of a workload is unknown or cannot be looked up.
    #[error(transparent)]
    User(#[from] fsarena_sys::user::UserError),
    /// A filesystem could not be made, or the safety guard refused a device.
    #[error(transparent)]
    Filesystem(#[from] fsarena_fs::Error),
    /// An error of a guest kernel or its emulator.
    #[error(transparent)]
    Guest(#[from] fsarena_guest::Error),
    /// The inputs of a workload are missing or unsuitable.
    #[error(transparent)]
    Workload(#[from] fsarena_load::task::TaskError),
    /// The run could not be written to the store or read from it.
    #[error(transparent)]
    Store(#[from] fsarena_store::Error),
    /// The plan file has a fault.
    #[error(transparent)]
    PlanFile(#[from] PlanError),
    /// An unknown name, for example of a stage or metric.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// The plan requires something impossible.
    #[error("{0}")]
    Plan(String),
    /// This machine lacks something; the text explains what to do.
    #[error("{0}")]
    Missing(String),
    /// The agent could not be started, or broke the protocol.
    #[error("the measuring process: {0}")]
    Agent(String),
    /// Killed runs left things that could not be removed: their number.
    #[error("{0} things that a killed run left could not be undone; see which: fsarena recover")]
    NotRecovered(usize),
    /// A cell of a run that stores nothing failed. Such a run cannot be resumed, so the rest is useless.
    #[error("{variant} failed: {source}")]
    Cell {
        /// The name of the variant of the cell.
        variant: String,
        /// The failure of the cell.
        source: CellError,
    },
    /// All variants failed. By the name of each variant: in which round it left the run, and why.
    #[error("every variant has failed:{}", departure_lines(.0))]
    EveryVariantFailed(BTreeMap<String, VariantDeparture>),
}

impl RunError {
    /// The error of a plan that gives a variant a level which it cannot have.
    pub fn in_variant(variant: &Variant, why: impl fmt::Display) -> RunError {
        RunError::Plan(format!("variant {}: {why}", variant.name))
    }

    /// The kind of failure ([`Cause`] lists all), which a program can turn into an exit code.
    pub fn cause(&self) -> Cause {
        match self {
            RunError::System(error) => cause_of(error),
            RunError::User(error) => cause_of(error),
            RunError::Filesystem(error) => cause_of(error),
            RunError::Guest(error) => cause_of(error),
            RunError::Workload(error) => cause_of(error),
            RunError::Plan(_) => Cause::Usage,
            RunError::Missing(_) | RunError::NotRecovered(_) => Cause::Missing,
            RunError::Store(error) => cause_of(error),
            RunError::PlanFile(error) => cause_of(error),
            RunError::UnknownName(error) => cause_of(error),
            RunError::Agent(_) => Cause::Internal,
            RunError::Cell { source, .. } => source.cause,
            RunError::EveryVariantFailed(departures) => {
                // Bugs of fsarena are the most urgent causes, then causes that the user can fix. A failure of the work
                // is the least: it is the default, and `Cause::Died` has the same exit code.
                let by_urgency = [Cause::Internal, Cause::Refused, Cause::Violation, Cause::Usage, Cause::Missing];
                let occurs = |cause: &Cause| departures.values().any(|departure| departure.cause == *cause);
                by_urgency.into_iter().find(occurs).unwrap_or_default()
            }
        }
    }
}

impl HasExitCode for RunError {
    fn exit_code(&self) -> ExitCode {
        self.cause().exit_code()
    }
}

/// The cause of an error of a library.
fn cause_of(error: &impl HasExitCode) -> Cause {
    match error.exit_code() {
        ExitCode::Internal => Cause::Internal,
        code => Cause::of(code),
    }
}

/// One line for each variant that left the run.
fn departure_lines(departures: &BTreeMap<String, VariantDeparture>) -> String {
    let mut lines = String::new();
    for (variant, VariantDeparture { round, why, .. }) in departures {
        lines += &format!("\n  {variant} failed in round {}: {why}", round + 1);
    }
    lines
}

/// Checks a condition.
///
/// # Errors
/// What `error` returns, if the condition does not hold.
pub(crate) fn require(holds: bool, error: impl FnOnce() -> RunError) -> Result<()> {
    if holds { Ok(()) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_load::task::TaskError;
    use std::io;

    #[test]
    fn run_errors_and_cell_errors_have_the_source_of_the_library_error() {
        let failed = || fsarena_sys::Error::io("reading", "/x")(io::ErrorKind::NotFound.into());
        let source = |error: &dyn Error| error.source().map(|source| source.is::<io::Error>());
        assert_eq!(source(&RunError::from(failed())), Some(true));
        let of_library_error = CellError::from(failed()).with_part("mkfs");
        assert_eq!(
            (source(&of_library_error), of_library_error.to_string()),
            (Some(true), format!("mkfs: {}", failed()))
        );
        let of_run_error = CellError::from(RunError::from(failed()));
        assert_eq!(source(&of_run_error), Some(true));
    }

    #[test]
    fn the_error_of_a_workload_keeps_its_exit_code() {
        let why = || "why".to_string();
        let failed_call = |kind: io::ErrorKind| TaskError::io("read /x")(io::Error::from(kind));
        // Each error with its cause in a run and in a cell.
        let errors = [
            (TaskError::Unfit(why()), Cause::Usage, Cause::Usage),
            (TaskError::Plan(why()), Cause::Usage, Cause::Usage),
            (TaskError::Missing(why()), Cause::Missing, Cause::Missing),
            (TaskError::Violation(why()), Cause::Violation, Cause::Violation),
            (failed_call(io::ErrorKind::StorageFull), Cause::Missing, Cause::Missing),
            (failed_call(io::ErrorKind::NotFound), Cause::Missing, Cause::Missing),
            (TaskError::Failed(why()), Cause::Internal, Cause::Work),
        ];
        for (error, of_run, of_cell) in errors {
            let error = RunError::from(error);
            assert_eq!(error.cause(), of_run, "{error:?}");
            assert_eq!(CellError::from(error).cause, of_cell);
        }
    }
}
