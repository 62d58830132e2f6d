//! What rank 0 says while a run goes on, and at its end.

use fsarena_core::event::{Event, NoteKind, Outcome};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::{record::RunRecord, state::RunState};
use fsarena_report::exporters;
use fsarena_report::report::{Asked, Report};
use fsarena_run::{Beginning, Consumer, executor::Fatal, vocabulary, work};
use fsarena_store::RunDir;
use std::{fs::File, io::Write};

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
        self.rounds = beginning.plan.stop.rounds;
        let place = beginning.run.map_or(String::new(), |run| format!("run {}; ", run.path().display()));
        eprintln!("{}\n{place}{} rounds; {}", beginning.plan.title, self.rounds, beginning.check.describe());
    }

    fn take(&mut self, event: &Event, _: &RunState) -> Result<(), Fatal> {
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
    let record =
        fsarena_store::read(run).map_err(|error| -> Box<dyn Exits> { Box::new(Fatal::from(error)) })?;
    if record.samples.is_empty() {
        return Ok(ExitCode::Done);
    }
    let report = report(record).map_err(|error| -> Box<dyn Exits> { Box::new(error) })?;
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.kept_as)(&report) {
            let path = run.path().join(name);
            let written = File::create(&path).map(|mut file| exporter.export(&report, &mut file));
            if let Err(error) = written {
                eprintln!("fsarena-mpi: {}: {error}", path.display());
            }
        }
    }
    let mut out = std::io::stdout().lock();
    let printed = exporters::find(exporters::DEFAULT).map(|exporter| exporter.export(&report, &mut out));
    if let Ok(Err(error)) = printed {
        eprintln!("fsarena-mpi: {error}");
    }
    drop(out.flush());
    Ok(report.exit_code())
}

fn report(record: RunRecord) -> Result<Report, fsarena_report::error::Error> {
    let has = |id: &&str| record.metric(id).is_some_and(|(_, rows)| rows.iter().any(|value| !value.is_nan()));
    let own: Vec<&str> = vocabulary::readings().map(|reading| reading.id).collect();
    let printed = record.readings.iter().map(|reading| reading.id.as_str());
    let printed = printed.filter(|id| record.plan.prints() && !own.contains(id));
    let metrics =
        work::metrics(&record.plan).into_iter().filter(has).chain(printed).map(String::from).collect();
    fsarena_report::report::of(record, Asked { metrics, ..Asked::default() })
}
