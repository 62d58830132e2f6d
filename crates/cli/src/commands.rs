//! The commands of the program, each in a separate module, and functions that several of them use.

pub mod ab;
pub mod advise;
pub mod analyse;
pub mod bisect;
pub mod bundle;
pub mod compare;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod history;
pub mod list;
pub mod load;
pub mod merge;
pub mod recover;
pub mod report;
pub mod run;
pub mod selftest;
pub mod serve;
pub mod shell;
pub mod show;
pub mod verify;
pub mod watch;

use crate::failure::Failure;
use fsarena_core::{exit::ExitCode, record::RunRecord};
use fsarena_run::{Consumer, RunRequest, execute};
use fsarena_sys::cancel;

/// Installs the signal handlers: after this call a signal ends a run, which then cleans up.
pub fn handle_signals() -> Result<(), Failure> {
    cancel::install_handlers().map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a request that stores nothing, and returns what was measured.
///
/// # Errors
/// Those of [`execute`], or a signal that ended the run.
pub fn run_unstored(request: RunRequest, consumers: &mut [&mut dyn Consumer]) -> Result<RunRecord, Failure> {
    let outcome = execute(request, consumers)?;
    if outcome.interrupted {
        cancel::check()?;
    }
    Ok(outcome.record)
}
