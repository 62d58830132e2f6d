//! `fsarena recover`: undo what a killed fsarena left.

use crate::failure::{Failure, Outcome};
use fsarena_core::exit::ExitCode;
use fsarena_sys::{kernel::Kernel, undo};
use std::io::Write;

/// Clean up after a killed fsarena: mounts, loop devices, images
///
/// Every run records what it sets up before it does so. fsarena undoes what runs that no longer live have left: it ends
/// their processes, unmounts, detaches loop devices, and removes images. It touches nothing else, and it is safe to run
/// it twice.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Recovers, and prints what it undid.
pub fn run(_: Args) -> Outcome {
    let state = undo::state_dir();
    let mut say = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
    let recovered = undo::recover(&Kernel::host(), &state, &mut say)?;
    let (undone, failed, running) = (recovered.undone, recovered.failed, recovered.still_running);
    let _ = writeln!(std::io::stdout(), "{undone} undone, {failed} failed, {running} still running");
    if recovered.failed > 0 {
        return Err(Failure::new(
            ExitCode::Missing,
            "cannot undo everything: free what the messages above name, then run `fsarena recover` again",
        ));
    }
    Ok(ExitCode::Done)
}
