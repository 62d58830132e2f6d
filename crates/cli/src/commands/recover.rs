//! `fsarena recover`: undo what a killed fsarena left.

use crate::failure::{Failure, Outcome};
use fsarena_core::exit::ExitCode;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo;

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
    let mut say = |line: &str| eprintln!("{line}");
    let recovered = undo::recover(&Kernel::host(), &state, &mut say)?;
    println!(
        "{} undone, {} failed, {} still running",
        recovered.undone, recovered.failed, recovered.still_running
    );
    if recovered.failed > 0 {
        return Err(Failure::new(
            ExitCode::Internal,
            "something could not be undone; see above, then recover again",
        ));
    }
    Ok(ExitCode::Done)
}
