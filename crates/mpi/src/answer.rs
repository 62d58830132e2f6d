//! What rank 0 says while a run goes on, and at its end.

use fsarena_core::event::{Event, NoteKind, Outcome};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::state::RunState;
use fsarena_report::exporters;
use fsarena_report::report::{self, Asked};
use fsarena_run::{Beginning, Consumer, RunError, work};
use fsarena_store::RunDir;

/// A line for each round and each failure.
#[derive(Debug, Default)]
pub struct Progress {
    rounds: u32,
    /// The run, once it has begun.
    pub run: Option<RunDir>,
}

impl Consumer for Progress {
    fn say(&mut self, line: &str) {
        eprintln!("{line}");
    }

    fn begin(&mut self, beginning: &Beginning) {
        let plan = beginning.plan;
        self.rounds = plan.stop.rounds;
        self.run = beginning.run.cloned();
        let place = beginning.run.map_or(String::new(), |run| format!("run {}; ", run.path().display()));
        eprintln!("{}\n{place}{} rounds; {}", plan.title, self.rounds, beginning.check.describe(plan));
    }

    fn take(&mut self, event: &Event, _: &RunState) -> Result<(), RunError> {
        match event {
            Event::RoundFinished { round } => eprintln!("round {}/{} done", round + 1, self.rounds),
            Event::CellFinished { outcome: Outcome::Failed { why, .. }, .. } => eprintln!("  failed: {why}"),
            Event::Note(note) if note.kind == NoteKind::VariantFailed => eprintln!("  {}", note.text),
            _ => {}
        }
        Ok(())
    }
}

/// Writes the reports into the directory of a run, and prints the answer.
pub fn print(run: &RunDir) -> Result<ExitCode, Failure> {
    let record = fsarena_store::read(run).map_err(RunError::from)?;
    if record.samples.is_empty() {
        return Ok(ExitCode::Done);
    }
    let asked = Asked { metrics: work::answering(&record), ..Asked::default() };
    let report = report::of(record, asked).map_err(Failure::of)?;
    let told = |error| eprintln!("fsarena-mpi: {error}");
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.kept_as)(&report) {
            exporter.write(&report, &run.path().join(name)).unwrap_or_else(told);
        }
    }
    let exporter = exporters::find(exporters::DEFAULT).map_err(Failure::of)?;
    exporter.export(&report, &mut std::io::stdout().lock()).unwrap_or_else(told);
    Ok(report.exit_code())
}

/// Why the program failed.
#[derive(Debug)]
pub struct Failure {
    /// The message for people.
    pub message: String,
    /// How the program ends.
    pub code: ExitCode,
}

impl Failure {
    /// The failure of a library.
    pub fn of(error: impl Exits) -> Failure {
        Failure { message: error.to_string(), code: error.exit_code() }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure { message: error.to_string(), code: error.cause().exit_code() }
    }
}
