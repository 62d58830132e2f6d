//! Helpers for commands that run cells: signal handlers, and runs that are not stored.

use crate::failure::Failure;
use fsarena_core::{exit::ExitCode, record::RunRecord};
use fsarena_run::{Consumer, Request, execute};
use fsarena_sys::cancel;

/// Installs the signal handlers: after this call a signal ends a run, which then cleans up.
pub fn handle_signals() -> Result<(), Failure> {
    cancel::install().map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))
}

/// Runs a request that stores nothing, and returns what was measured.
///
/// # Errors
/// Those of [`execute`], or a signal that ended the run.
pub fn run_unstored(request: Request, consumers: &mut [&mut dyn Consumer]) -> Result<RunRecord, Failure> {
    let outcome = execute(request, consumers)?;
    if outcome.interrupted {
        cancel::check()?;
    }
    Ok(outcome.record)
}
