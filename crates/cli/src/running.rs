//! Running plans from the command line: signals, the display, and what becomes of a run that stores nothing.

use crate::{failure::Failure, progress::Progress};
use fsarena_core::plan::{Plan, Written, resolve::Overrides};
use fsarena_core::{event::Event, exit::ExitCode, record::RunRecord};
use fsarena_run::{Request, execute, executor::Fatal, vocabulary};

/// From here on a signal ends the run in order.
pub fn handle_signals() -> Result<(), Failure> {
    fsarena_sys::cancel::install()
        .map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))
}

/// The plan that a text means here, under what the flags say. Without `--on` a stored plan runs where it ran.
pub fn resolved(written: &Written, over: &mut Overrides) -> Result<Plan, Failure> {
    over.where_it_ran(written)?;
    Ok(vocabulary::resolve(written, over)?)
}

/// Runs a plan of which nothing is stored, shows how it goes, hands on its events, and gives what was measured.
pub fn unstored(request: Request, quiet: bool, mut take: impl FnMut(&Event)) -> Result<RunRecord, Failure> {
    let mut hand_on = |event: &Event| -> Result<(), Fatal> {
        take(event);
        Ok(())
    };
    let outcome = execute(request, &mut [&mut Progress::new(quiet), &mut hand_on])?;
    match outcome.interrupted {
        false => Ok(outcome.record),
        true => Err(Failure::new(ExitCode::Internal, "a signal ended it; nothing is stored")),
    }
}
