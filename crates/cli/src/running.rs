//! Runs from the command line: signals, and runs that are not stored.

use crate::failure::Failure;
use fsarena_core::{exit::ExitCode, record::RunRecord};
use fsarena_run::{Consumer, Request, execute};
use fsarena_sys::cancel;

/// Installs the signal handlers: from here on a signal ends a run in order.
pub fn handle_signals() -> Result<(), Failure> {
    cancel::install().map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))
}

/// Runs a request that stores nothing, and returns what was measured.
///
/// # Errors
/// Those of [`execute`], and a signal.
pub fn run_unstored(request: Request, consumers: &mut [&mut dyn Consumer]) -> Result<RunRecord, Failure> {
    let outcome = execute(request, consumers)?;
    if outcome.interrupted {
        cancel::check()?;
    }
    Ok(outcome.record)
}
