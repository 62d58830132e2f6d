//! What rank 0 says while a run goes on, and at its end.

use fsarena_core::event::{Event, NoteKind, Outcome};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::state::RunState;
use fsarena_report::exporters;
use fsarena_report::report::{self, Asked};
use fsarena_run::{Beginning, Consumer, executor::RunError, work};
use fsarena_store::RunDir;

/// A line for each round and each failure.
#[derive(Debug, Default)]
pub struct Progress {
    rounds: u32,
}

impl Consumer for Progress {
    fn say(&mut self, line: &str) {
        eprintln!("{line}");
    }

    fn begin(&mut self, beginning: &Beginning) {
        let plan = beginning.plan;
        self.rounds = plan.stop.rounds;
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
pub fn print(run: &RunDir) -> Result<ExitCode, Box<dyn Exits>> {
    let record = fsarena_store::read(run).map_err(RunError::from).map_err(boxed)?;
    if record.samples.is_empty() {
        return Ok(ExitCode::Done);
    }
    let asked = Asked { metrics: work::answering(&record), ..Asked::default() };
    let report = report::of(record, asked).map_err(boxed)?;
    let told = |error| eprintln!("fsarena-mpi: {error}");
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.kept_as)(&report) {
            exporter.write(&report, &run.path().join(name)).unwrap_or_else(told);
        }
    }
    let exporter = exporters::find(exporters::DEFAULT).map_err(boxed)?;
    exporter.export(&report, &mut std::io::stdout().lock()).unwrap_or_else(told);
    Ok(report.exit_code())
}

/// An error of another crate, as the program ends with it.
pub fn boxed(error: impl Exits + 'static) -> Box<dyn Exits> {
    Box::new(error)
}
