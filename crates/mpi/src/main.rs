//! `fsarena-mpi`: arguments and wiring.

mod args;

use crate::args::{Args, Command, Run};
use clap::{CommandFactory, FromArgMatches};
use fsarena_core::event::{Event, NoteKind, Outcome};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::{plan::error::PlanError, state::RunState};
use fsarena_mpi::{guard, measure, ranks::Ranks, rsmpi::Mpi, wire::Wire, worker};
use fsarena_report::exporters;
use fsarena_report::report::{self, Asked};
use fsarena_run::{Beginning, Consumer, RunError, config::Config, execute_by, work};
use fsarena_store::RunDir;
use fsarena_sys::cancel;
use std::rc::Rc;

fn main() {
    fsarena_run::format_settings_by(|name, value| {
        let flag = format!("--{}", name.replace('_', "-"));
        if value.is_empty() { flag } else { format!("{flag} {value}") }
    });
    fsarena_run::run_as_agent_if_requested();
    guard::run_if_guard();
    // A failure before this has no other rank to inform.
    let signals = cancel::install().map_err(|error| format!("signals cannot be handled: {error}"));
    let joined = signals.and_then(|()| Mpi::join().ok_or_else(|| "MPI was initialised before".into()));
    let mpi = Rc::new(joined.unwrap_or_else(|why| {
        eprintln!("fsarena-mpi: cannot join the job: {why}");
        std::process::exit(i32::from(ExitCode::Internal.code()));
    }));
    if mpi.rank() == 0 { run_coordinator(mpi) } else { run_worker(&mpi) }
}

/// Runs rank 0: parses the arguments, coordinates the run and prints the answer.
fn run_coordinator(mpi: Rc<Mpi>) {
    let code = match parse_args() {
        Ok(Ok(args)) => exit_code_of(match args.command {
            Command::Run(run) => coordinate(&run, Rc::clone(&mpi)),
            Command::Measure => {
                measure::report(&*mpi).iter().for_each(|line| println!("{line}"));
                Ok(ExitCode::Done)
            }
        }),
        Ok(Err(error)) => {
            drop(error.print());
            error.exit_code() as u8
        }
        Err(error) => exit_code_of(Err(Failure::from_error(error))),
    };
    if !Ranks::leave(&*mpi, code != 0) && cancel::requested().is_none() {
        mpi.abort(code);
    }
    if let Some(signal) = cancel::requested() {
        cancel::die_by(signal);
    }
    drop(mpi);
    std::process::exit(i32::from(code));
}

/// Parses the command line, with the values of the config file as defaults.
fn parse_args() -> Result<clap::error::Result<Args>, PlanError> {
    let config = Config::load()?.checked(&Args::command())?;
    let matches = config.defaults(Args::command()).try_get_matches();
    Ok(matches.and_then(|matches| Args::from_arg_matches(&matches)))
}

/// Prints an error and returns the exit code.
fn exit_code_of(result: Result<ExitCode, Failure>) -> u8 {
    let code = result.unwrap_or_else(|error| {
        eprintln!("fsarena-mpi: {}", error.message);
        error.code
    });
    code.code()
}

fn coordinate(run: &Run, mpi: Rc<Mpi>) -> Result<ExitCode, Failure> {
    let wire: Rc<dyn Wire> = mpi;
    let ranks = Ranks::meet(wire, run.timeout)?;
    let request = run.request(&ranks)?;
    let mut progress = Progress::default();
    let ended = execute_by(Box::new(ranks), request, &mut [&mut progress]);
    let kept = match &ended {
        Ok(outcome) => outcome.run.clone(),
        Err(_) => progress.run.clone(),
    };
    let answered = kept.map(|run| print_answer(&run));
    if ended.as_ref().is_ok_and(|outcome| outcome.interrupted) {
        eprintln!("what was measured is kept; resume with: fsarena-mpi run --resume latest");
    }
    ended?;
    answered.unwrap_or(Ok(ExitCode::Done))
}

/// Runs any other rank until the coordinator ends the job.
fn run_worker(mpi: &Mpi) {
    let _deferred = cancel::defer_signals();
    let ended = worker::run(mpi);
    if let Err(fatal) = &ended {
        eprintln!("fsarena-mpi: rank {}: {fatal}", mpi.rank());
        mpi.abort(fatal.cause().exit_code().code());
    }
    if let Some(signal) = cancel::requested() {
        cancel::die_by(signal);
    }
}

/// Prints a line for each round and each failure.
#[derive(Debug, Default)]
struct Progress {
    rounds: u32,
    /// The run, once it has begun.
    run: Option<RunDir>,
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

/// Writes the reports into the directory of a run and prints the answer.
fn print_answer(run: &RunDir) -> Result<ExitCode, Failure> {
    let record = fsarena_store::read(run).map_err(RunError::from)?;
    if record.samples.is_empty() {
        return Ok(ExitCode::Done);
    }
    let asked = Asked { metrics: work::answering(&record), ..Asked::default() };
    let report = report::of(record, asked).map_err(Failure::from_error)?;
    let print_error = |error| eprintln!("fsarena-mpi: {error}");
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.kept_as)(&report) {
            exporter.write(&report, &run.path().join(name)).unwrap_or_else(print_error);
        }
    }
    let exporter = exporters::find(exporters::DEFAULT).map_err(Failure::from_error)?;
    exporter.export(&report, &mut std::io::stdout().lock()).unwrap_or_else(print_error);
    Ok(report.exit_code())
}

/// The reason for which the program fails.
#[derive(Debug)]
struct Failure {
    /// The message for people.
    message: String,
    /// The exit code of the program.
    code: ExitCode,
}

impl Failure {
    /// Returns the failure for an error of a library, with the exit code that the error names.
    fn from_error(error: impl Exits) -> Failure {
        Failure { message: error.to_string(), code: error.exit_code() }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure { message: error.to_string(), code: error.cause().exit_code() }
    }
}
