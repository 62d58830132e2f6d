//! Cells of a stored run again, for what each of their tasks spends its time on.

use crate::failure::Failure;
use fsarena_core::cell::{Cell, TaskId};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::exit::ExitCode;
use fsarena_core::record::RunRecord;
use fsarena_run::executor::Executor;
use fsarena_trace::Profile;

/// Runs one cell, and gives the profile of a task where it came to that.
pub fn run(executor: &mut dyn Executor, cell: &Cell, wanted: &TaskId) -> Result<Option<Profile>, Failure> {
    let mut found = None;
    let ended = executor.run(cell, &mut |event| {
        if let CellEvent::Profile { task, profile } = event
            && task == *wanted
        {
            found = Some(profile);
        }
    })?;
    let failed = |why: String| Failure::new(ExitCode::Internal, format!("{}: {why}", cell.variant.name));
    match ended {
        Outcome::Done => {}
        Outcome::Failed { why } => return Err(failed(why)),
        Outcome::Interrupted => return Err(failed("a signal ended it".into())),
    }
    let profile = found.map(serde_json::from_value).transpose();
    profile.map_err(|error| failed(format!("the measuring process sent no profile: {error}")))
}

/// What is said where a run has no task of a name.
pub fn no_task(record: &RunRecord, name: &str) -> Failure {
    let tasks = record.tasks.iter().filter(|task| task.in_composite);
    let known: Vec<String> = tasks.map(|task| task.id.to_string()).collect();
    let message = format!("run {} has no task `{name}`; it has {}", record.id, known.join(" "));
    Failure::new(ExitCode::Usage, message)
}
