//! Going on with a run that was cut short.

use super::Args;
use crate::commands::report;
use crate::failure::{Failure, Outcome};
use fsarena_core::exit::ExitCode;
use fsarena_core::record::RunRecord;
use fsarena_store::RunDir;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo;
use std::io::Write;

/// Makes way for the run: its images may still be there, as may those of other runs that were killed, and
/// take the room that it needs.
pub fn clear_the_way(kernel: &Kernel, args: &Args) -> Result<(), Failure> {
    let done = undo::recover(kernel, &undo::state_dir(), &mut |line| say(args, line))?;
    if done.failed > 0 {
        let message = "something that a killed run left could not be undone; see `fsarena recover`";
        return Err(Failure::new(ExitCode::Internal, message));
    }
    Ok(())
}

/// The answer of a run of which nothing is left to do.
pub fn answer(record: RunRecord, run: &RunDir, args: &Args) -> Outcome {
    say(args, &format!("run {} is complete ({}): nothing is left to do", run.id(), record.status.why));
    let options = report::Options::for_stdout(args.metric.clone(), args.view.clone());
    report::answer(record, &options, &args.export, run)
}

/// There is no display yet: the run may never begin.
fn say(args: &Args, line: &str) {
    if !args.quiet {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
