//! `fsarena recover`: undo what a killed fsarena left.

use crate::failure::{Failure, Outcome};
use fsarena_core::exit::ExitCode;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo;
use std::io::Write;

/// Undo what a killed fsarena left: mounts, loop devices, images
///
/// Every run writes down what it sets up before it does so. This undoes what runs that are no longer
/// alive have left: it ends their processes, unmounts, detaches loop devices, and removes images.
/// It touches nothing else, and running it twice does no harm.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Recovers, and says what was done.
pub fn run(_: Args) -> Outcome {
    let state = undo::state_dir();
    // Nobody needs to listen.
    let mut say = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
    let recovered = undo::recover(&Kernel::host(), &state, &mut say)?;
    let (undone, failed, running) = (recovered.undone, recovered.failed, recovered.still_running);
    let _ = writeln!(std::io::stdout(), "{undone} undone, {failed} failed, {running} still running");
    if recovered.failed > 0 {
        return Err(Failure::new(
            ExitCode::Internal,
            "something could not be undone; see above, then recover again",
        ));
    }
    Ok(ExitCode::Done)
}
