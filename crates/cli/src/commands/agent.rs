//! `fsarena agent`: one cell, measured in a process of its own.

use crate::failure::{Failure, Outcome};
use fsarena_core::exit::ExitCode;

/// Run one cell: a request on standard input, events on standard output
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the cell that standard input asks for.
pub fn run(_: Args) -> Outcome {
    fsarena_run::agent::serve(std::io::stdin().lock(), std::io::stdout().lock())
        .map(|()| ExitCode::Done)
        .map_err(|error| Failure::new(ExitCode::Internal, format!("agent: {error}")))
}
