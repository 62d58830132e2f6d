//! Running plans from the command line.

use crate::failure::Failure;
use fsarena_core::exit::ExitCode;

/// From here on a signal ends the run in order.
pub fn handle_signals() -> Result<(), Failure> {
    fsarena_sys::cancel::install()
        .map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))
}
